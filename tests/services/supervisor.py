"""Runs the processes of a cluster as children that do not outlive it, however it ends.

SIGTERM stops all of them; SIGUSR1 starts those again that do not run. In the run folder, etc/NAME.pid holds the process of
each, log/NAME.log what it says.
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


class Supervisor:
    """`commands` are the processes by their names, in the order in which they start."""

    # Without one of these, nothing is left to serve.
    needed: tuple[str, ...] = ()

    def __init__(self, run_dir: str, commands: dict[str, list[str]]) -> None:
        self.run_dir, self.commands = run_dir, commands
        self.children: dict[str, subprocess.Popen] = {}

    def started(self, name: str) -> None:
        """Called behind the start of a process, before the next one starts."""

    def start_missing(self) -> None:
        for name, command in self.commands.items():
            child = self.children.get(name)
            if child is not None and child.poll() is None:
                continue
            with open(f"{self.run_dir}/log/{name}.log", "ab") as log:
                self.children[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
                )
            file = f"{self.run_dir}/etc/{name}.pid"
            with open(f"{file}.part", "w", encoding="ascii") as part:
                part.write(str(self.children[name].pid))
            os.replace(f"{file}.part", file)
            self.started(name)

    # Nobody needs its data in good order, and servers take long to leave a cluster politely, or wait in vain for a quorum.
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

    def serve(self) -> None:
        received: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, lambda got, _frame: received.append(got))
        self.start_missing()
        while True:
            while received:
                if received.pop(0) != signal.SIGUSR1:
                    self.stop()
                    return
                self.start_missing()
            # A child that ended stays ended until it is asked for.
            ended = [name for name, child in self.children.items() if child.poll() is not None]
            for name in self.needed:
                if name in ended:
                    self.stop()
                    sys.exit(f"{name} ended")
            time.sleep(0.1)
