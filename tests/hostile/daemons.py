"""Daemons of a test's own beside brokers, and what the system says of any."""

import os
import resource
import subprocess
from pathlib import Path

from broker import Address
from controller_with_brokers import address, program
from deadlines import wait_until


class Controller:
    """A controller on its own; `ports` are where it answers: `api`, `lookup`, `lookup_tcp`."""

    def __init__(self, folder: Path, *flags: str) -> None:
        ports = ["--http", "--link-address", "--lookup-tcp-address", "--lookup-http-address"]
        command = [program(), "controller", *(f"{port}=127.0.0.1:0" for port in ports), *flags]
        self.log_path = folder / "controller.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        self.ports = wait_until(self._bound, "the controller's addresses")

    def _bound(self) -> dict[str, Address] | None:
        assert self.process.poll() is None, self.log_path.read_text()
        words = self.log_path.read_text().replace(",", "").split()
        if "(TCP)" not in words or "(HTTP)" not in words:
            return None
        return {
            "api": address(words[words.index("HTTP") + 2]),
            "lookup": address(words[words.index("(HTTP)") - 1]),
            "lookup_tcp": address(words[words.index("(TCP)") - 1]),
        }

    def stop(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


def descriptors(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def leave_descriptors(pid: int, count: int) -> None:
    """Lets a process open so many more than it has."""
    most = descriptors(pid) + count
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))


def cpu_s(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
