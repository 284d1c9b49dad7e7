#!/usr/bin/env python3
"""Runs the processes of a Fluss cluster; see ../supervisor.py.

usage: cluster.py JARS RUN_DIR ZOOKEEPER_PORT TABLETS
"""

import os
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from supervisor import Supervisor  # noqa: E402

SERVER = "org.apache.fluss.server"
ZOOKEEPER = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAVA = [
    "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xss512k", "-Djava.awt.headless=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.org.apache.fluss.shaded=warn",
]


class Cluster(Supervisor):
    needed = ("zookeeper", "coordinator")

    def __init__(self, jars: str, run_dir: str, zookeeper_port: int, tablets: int) -> None:
        self.zookeeper_port = zookeeper_port
        etc = f"{run_dir}/etc"
        # The Java client's jar is for tests.
        names = sorted(name for name in os.listdir(jars) if not name.startswith("fluss-client"))
        start = JAVA + ["-cp", ":".join(f"{jars}/{name}" for name in names)]
        commands = {
            "zookeeper": start + ["-Xmx64m", ZOOKEEPER, f"{etc}/zoo.cfg"],
            "coordinator": start + ["-Xmx256m", f"{SERVER}.coordinator.CoordinatorServer", "--configDir", f"{etc}/coordinator"],
        }
        for n in range(tablets):
            commands[f"tablet-{n}"] = start + [
                "-Xmx512m", "-XX:MaxDirectMemorySize=512m",
                f"{SERVER}.tablet.TabletServer", "--configDir", f"{etc}/tablet-{n}",
            ]
        super().__init__(run_dir, commands)

    def started(self, name: str) -> None:
        while name == "zookeeper" and self.children[name].poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.zookeeper_port), 1).close()
                return
            except OSError:
                time.sleep(0.05)


def main() -> None:
    jars, run_dir, zookeeper_port, tablets = sys.argv[1:]
    Cluster(jars, run_dir, int(zookeeper_port), int(tablets)).serve()


if __name__ == "__main__":
    main()
