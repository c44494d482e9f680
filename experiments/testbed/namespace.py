"""A network namespace: made, worked in, and gone with whoever made it.

It has no name, but is an open file of this process: it lasts as long as this process or one that was started in it, and
leaves nothing behind however they end. Nothing of the machine's own network is seen or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from libc import enter_network, unshare_network

OWN_NAMESPACE = "/proc/thread-self/ns/net"
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""What it takes to make one, by the kernel's numbers."""

IP_DEADLINE_S = 60.0


def why_impossible() -> str | None:
    """Why this process cannot make network namespaces; None if it can."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    if lacking := [name for name, bit in CAPABILITIES.items() if not effective >> bit & 1]:
        return f"network namespaces need root: this process lacks {' and '.join(lacking)}"
    if shutil.which("ip") is None:
        return "there is no `ip`: install Debian's iproute2"
    return None


class Namespace:
    """A network namespace, with its loopback interface up: an open file, which other programs find at `path`."""

    def __init__(self) -> None:
        with open(OWN_NAMESPACE) as own:
            unshare_network()
            try:
                self.descriptor = os.open(OWN_NAMESPACE, os.O_RDONLY)
            finally:
                enter_network(own.fileno())
        self.path = f"/proc/{os.getpid()}/fd/{self.descriptor}"
        try:
            self.ip("link set dev lo up")
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets opened and processes started by this thread meanwhile belong to the namespace, and stay so."""
        with open(OWN_NAMESPACE) as own:
            enter_network(self.descriptor)
            try:
                yield
            finally:
                enter_network(own.fileno())

    def ip(self, *commands: str) -> None:
        """Runs iproute2's `ip` with each of the commands; all must succeed."""
        with self.inside():
            done = subprocess.run(
                ["ip", "-batch", "-"],
                input="\n".join(commands),
                capture_output=True,
                text=True,
                timeout=IP_DEADLINE_S,
                check=False,
            )
        if done.returncode:
            raise OSError(f"ip {commands[0]} ...: {done.stderr.strip()}")

    def set(self, sysctl: str, value: str | int) -> None:
        """Sets one of the namespace's kernel parameters, named as a path below /proc/sys/net."""
        with self.inside():
            Path("/proc/sys/net", sysctl).write_text(str(value))

    def close(self) -> None:
        """Lets go of the namespace, which ends with the last process in it."""
        os.close(self.descriptor)
