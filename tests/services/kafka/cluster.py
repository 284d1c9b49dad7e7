#!/usr/bin/env python3
"""Runs the brokers of a Kafka cluster as children that do not outlive it, however it ends.

usage: cluster.py RUN_DIR BROKERS COMMAND...

{N} in the command stands for a broker's number, from 1. SIGTERM stops all of them; SIGUSR1 starts those again that do not
run. etc/broker-N.pid holds the process of each, log/broker-N.log what it says.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    ctypes.CDLL("libc.so.6").prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Cluster:
    def __init__(self, run_dir: str, brokers: int, command: list[str]) -> None:
        self.run_dir, self.command = run_dir, command
        self.brokers: dict[int, subprocess.Popen | None] = {n: None for n in range(1, brokers + 1)}

    def start_missing(self) -> None:
        for n, child in self.brokers.items():
            if child is not None and child.poll() is None:
                continue
            with open(f"{self.run_dir}/log/broker-{n}.log", "ab") as log:
                child = subprocess.Popen(
                    [word.replace("{N}", str(n)) for word in self.command],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent,
                )
            self.brokers[n] = child
            file = f"{self.run_dir}/etc/broker-{n}.pid"
            with open(f"{file}.part", "w", encoding="ascii") as part:
                part.write(str(child.pid))
            os.replace(f"{file}.part", file)

    # Nobody needs its data in good order, and the last brokers wait in vain for a quorum.
    def stop(self) -> None:
        children = [child for child in self.brokers.values() if child is not None]
        for child in children:
            child.terminate()
        deadline = time.monotonic() + 2
        for child in children:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def main() -> None:
    cluster = Cluster(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda got, _frame: received.append(got))
    cluster.start_missing()
    while True:
        while received:
            if received.pop(0) != signal.SIGUSR1:
                cluster.stop()
                return
            cluster.start_missing()
        # Takes note of those that ended; they stay ended until they are asked for.
        for child in cluster.brokers.values():
            if child is not None:
                child.poll()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
