"""Hosts on a switch, made of network namespaces: each has an interface of its own, and a bridge joins them.

The bridge is in a namespace as well, so nothing of the machine's own network is seen or changed. Names carry the process's
id; everything ends with `close`, and a host's processes are the test's to end before.
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


def ip(*words: str) -> None:
    """Runs iproute2's `ip`, which must succeed."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=GENEROUS_S, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Host:
    """A network namespace with one interface at the switch."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace = namespace
        self.address = address

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets opened and processes started by this thread meanwhile are the host's, and stay so."""
        with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{self.namespace}") as other:
            _enter(other.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())


class Switch:
    """A bridge and its hosts; one per name, addressed 10.77.0.1 and up."""

    def __init__(self, *hosts: str) -> None:
        self._prefix = f"srtm{os.getpid()}"
        self._namespace = f"{self._prefix}-switch"
        self._namespaces: list[str] = []
        self._hosts: dict[str, Host] = {}
        try:
            self._add_namespace(self._namespace)
            # A bridge that snoops on multicast passes a group's datagrams on only to where it was asked for, and ages what it
            # knows by a querier, which is not here. That would be a test of the bridge; without it, it is a plain switch.
            self._ip("link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
            self._ip("link", "set", "bridge", "up")
            for number, name in enumerate(hosts, start=1):
                self._hosts[name] = self._connect(name, f"10.77.0.{number}")
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def cut(self, host: str) -> None:
        """Takes the host off the switch. On the switch's side: the host keeps its routes, as with a cable pulled out."""
        self._ip("link", "set", host, "down")

    def restore(self, host: str) -> None:
        """Puts the host back."""
        self._ip("link", "set", host, "up")

    def close(self) -> None:
        """Removes everything that was made, and with the namespaces what is in them."""
        while self._namespaces:
            ip("netns", "del", self._namespaces.pop())

    def _add_namespace(self, namespace: str) -> None:
        ip("netns", "add", namespace)
        self._namespaces.append(namespace)

    def _connect(self, name: str, address: str) -> Host:
        host = Host(f"{self._prefix}-{name}", address)
        self._add_namespace(host.namespace)
        self._ip("link", "add", name, "type", "veth", "peer", "name", INTERFACE, "netns", host.namespace)
        self._ip("link", "set", name, "master", "bridge", "up")
        ip("-n", host.namespace, "address", "add", f"{address}/24", "dev", INTERFACE)
        ip("-n", host.namespace, "link", "set", "lo", "up")
        ip("-n", host.namespace, "link", "set", INTERFACE, "up")
        # There is no default route that would tell the way to a group.
        ip("-n", host.namespace, "route", "add", MULTICAST, "dev", INTERFACE)
        return host

    def _ip(self, *words: str) -> None:
        ip("-n", self._namespace, *words)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
