#!/usr/bin/env python3
"""Runs the processes of a Fluss cluster as children that do not outlive it, however it ends.

usage: cluster.py JARS RUN_DIR ZOOKEEPER_PORT TABLETS

SIGTERM stops all of them; SIGUSR1 starts those again that do not run. etc/NAME.pid holds the process of each.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
SERVER = "org.apache.fluss.server"
ZOOKEEPER = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAVA = [
    "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xss512k", "-Djava.awt.headless=true",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # Arrow
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.log.org.apache.fluss.shaded=warn",
]


def die_with_parent() -> None:
    ctypes.CDLL("libc.so.6").prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Cluster:
    def __init__(self, jars: str, run_dir: str, zookeeper_port: int, tablets: int) -> None:
        self.run_dir, self.zookeeper_port = run_dir, zookeeper_port
        etc = f"{run_dir}/etc"
        # The Java client's jar is for tests.
        names = sorted(name for name in os.listdir(jars) if not name.startswith("fluss-client"))
        start = JAVA + ["-cp", ":".join(f"{jars}/{name}" for name in names)]
        self.commands = {
            "zookeeper": start + ["-Xmx64m", ZOOKEEPER, f"{etc}/zoo.cfg"],
            "coordinator": start + ["-Xmx256m", f"{SERVER}.coordinator.CoordinatorServer", "--configDir", f"{etc}/coordinator"],
        }
        for n in range(tablets):
            self.commands[f"tablet-{n}"] = start + [
                "-Xmx512m", "-XX:MaxDirectMemorySize=512m",
                f"{SERVER}.tablet.TabletServer", "--configDir", f"{etc}/tablet-{n}",
            ]
        self.children: dict[str, subprocess.Popen] = {}

    def start_missing(self) -> None:
        for name, command in self.commands.items():
            child = self.children.get(name)
            if child is not None and child.poll() is None:
                continue
            with open(f"{self.run_dir}/log/{name}.log", "ab") as log:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
                )
            self.children[name] = child
            with open(f"{self.run_dir}/etc/{name}.pid.part", "w", encoding="ascii") as file:
                file.write(str(child.pid))
            os.replace(f"{self.run_dir}/etc/{name}.pid.part", f"{self.run_dir}/etc/{name}.pid")
            if name == "zookeeper":
                self.wait_for_zookeeper()

    def wait_for_zookeeper(self) -> None:
        while self.children["zookeeper"].poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.zookeeper_port), 1).close()
                return
            except OSError:
                time.sleep(0.05)

    # Nobody needs its data in good order, and tablet servers take 10 s to leave a cluster politely.
    def stop(self) -> None:
        for child in self.children.values():
            child.terminate()
        deadline = time.monotonic() + 2
        for child in self.children.values():
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def main() -> None:
    jars, run_dir, zookeeper_port, tablets = sys.argv[1:]
    wanted = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    cluster = Cluster(jars, run_dir, int(zookeeper_port), int(tablets))
    received: list[int] = []
    for number in wanted:
        signal.signal(number, lambda got, _frame: received.append(got))
    cluster.start_missing()
    while True:
        while received:
            if received.pop(0) != signal.SIGUSR1:
                cluster.stop()
                return
            cluster.start_missing()
        # A child that ended stays ended; without the coordinator or ZooKeeper nothing is left to serve.
        if any(cluster.children[name].poll() is not None for name in ("zookeeper", "coordinator")):
            cluster.stop()
            sys.exit("the coordinator or ZooKeeper ended")
        for child in cluster.children.values():
            child.poll()
        time.sleep(0.1)


if __name__ == "__main__":
    main()
