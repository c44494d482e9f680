"""Hosts on a switch, made of network namespaces: each has an interface of its own, and a bridge joins them.

The bridge is in a namespace as well, so nothing of the machine's own network is seen or changed. The namespaces have no
names: they last as long as this process or one that it started on a host, and leave nothing behind however it ends.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deadlines import GENEROUS_S

INTERFACE = "eth0"
MULTICAST = "239.0.0.0/8"

OWN_NAMESPACE = "/proc/thread-self/ns/net"
CLONE_NEWNET = 0x40000000
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21

_libc = ctypes.CDLL(None, use_errno=True)


def why_impossible() -> str | None:
    """Why this process cannot make network namespaces; None if it can."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    lacking = [
        name
        for name, bit in (("CAP_NET_ADMIN", CAP_NET_ADMIN), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN))
        if not effective >> bit & 1
    ]
    return f"network namespaces need root: this process lacks {' and '.join(lacking)}" if lacking else None


class Host:
    """A network namespace."""

    def __init__(self, address: str) -> None:
        self.address = address
        with open(OWN_NAMESPACE) as own:
            _check(_libc.unshare(CLONE_NEWNET), "unshare")
            try:
                self._namespace = os.open(OWN_NAMESPACE, os.O_RDONLY)
            finally:
                _check(_libc.setns(own.fileno(), CLONE_NEWNET), "setns")
        self.path = f"/proc/{os.getpid()}/fd/{self._namespace}"

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets opened and processes started by this thread meanwhile are the host's, and stay so."""
        with open(OWN_NAMESPACE) as own:
            _check(_libc.setns(self._namespace, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                _check(_libc.setns(own.fileno(), CLONE_NEWNET), "setns")

    def ip(self, *words: str) -> None:
        """Runs iproute2's `ip` on the host; it must succeed."""
        with self.inside():
            done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=GENEROUS_S, check=False)
        if done.returncode:
            raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def close(self) -> None:
        """Lets go of the namespace, which ends with the last process on it."""
        os.close(self._namespace)


class Switch:
    """A bridge and its hosts; one per name, addressed 10.77.0.1 and up."""

    def __init__(self, *hosts: str) -> None:
        self._switch = Host("")
        self._hosts: dict[str, Host] = {}
        self._switch.ip("link", "add", "name", "bridge", "type", "bridge")
        self._switch.ip("link", "set", "dev", "bridge", "up")
        for number, name in enumerate(hosts, start=1):
            self._hosts[name] = Host(f"10.77.0.{number}")
            self._connect(name)

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def cut(self, host: str) -> None:
        """Takes the host off the switch, at the switch: the host keeps its routes, as with a cable pulled out."""
        self._switch.ip("link", "set", "dev", host, "down")

    def restore(self, host: str) -> None:
        """Puts the host back."""
        self._switch.ip("link", "set", "dev", host, "up")

    def close(self) -> None:
        """Takes everything apart."""
        for host in (*self._hosts.values(), self._switch):
            host.close()

    def _connect(self, name: str) -> None:
        host = self._hosts[name]
        peer = ("peer", "name", INTERFACE, "netns", host.path)
        self._switch.ip("link", "add", "name", name, "type", "veth", *peer)
        self._switch.ip("link", "set", "dev", name, "master", "bridge", "up")
        host.ip("address", "add", f"{host.address}/24", "dev", INTERFACE)
        host.ip("link", "set", "dev", "lo", "up")
        host.ip("link", "set", "dev", INTERFACE, "up")
        # There is no default route that would tell the way to a group.
        host.ip("route", "add", MULTICAST, "dev", INTERFACE)


def _check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
