#!/usr/bin/env python3
"""Runs the brokers of a Kafka cluster; see ../supervisor.py.

usage: cluster.py RUN_DIR BROKERS COMMAND...

{N} in the command stands for a broker's number, from 1; a broker's name is broker-N.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from supervisor import Supervisor  # noqa: E402


def main() -> None:
    run_dir, brokers, *command = sys.argv[1:]
    numbers = range(1, int(brokers) + 1)
    commands = {f"broker-{n}": [word.replace("{N}", str(n)) for word in command] for n in numbers}
    Supervisor(run_dir, commands).serve()


if __name__ == "__main__":
    main()
