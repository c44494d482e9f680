"""Sources and sinks in network namespaces of their own, and a limiter between them that gets their packets by TUN.

    sources (any address of 10.16.0.0/12) -- inner -- limiter -- outer -- sinks (any address of 10.32.0.0/12)

The namespaces last as long as this process or one it started in them, however it ends: their names are links into its
open files, and a link that leads nowhere goes with the next experiment. The limiter's own namespace has nothing but a
loopback interface, so the gossip addresses of experiments that run at once never meet.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scenario import SINKS, SOURCES

INNER = "inner"
OUTER = "outer"
TUN = Path("/dev/net/tun")

# Where programs look for namespaces by name.
NAMES = Path("/run/netns")
PREFIX = "srtm-testbed-"

IP_DEADLINE_S = 60.0
BACKLOG = 16_384
OWN_NAMESPACE = "/proc/thread-self/ns/net"
CLONE_NEWNET = 0x40000000
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def why_impossible() -> str | None:
    """Why this process cannot make such a network; None if it can."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    for name, bit in (("CAP_NET_ADMIN", CAP_NET_ADMIN), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN)):
        if not effective >> bit & 1:
            return f"network namespaces need root: this process lacks {name}"
    if not TUN.is_char_device():
        return f"there is no {TUN}: load the kernel's module tun"
    try:
        subprocess.run(["ip", "-V"], capture_output=True, check=True, timeout=IP_DEADLINE_S)
    except OSError:
        return "there is no `ip`: install Debian's iproute2"
    return None


def end_with_parent() -> None:
    """Has this process told to end (SIGTERM) when the one that started it dies, however that happens."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM), "prctl")


class Namespace:
    """A network namespace, with its loopback interface up."""

    def __init__(self) -> None:
        with open(OWN_NAMESPACE) as own:
            _check(_libc.unshare(CLONE_NEWNET), "unshare")
            try:
                self._descriptor = os.open(OWN_NAMESPACE, os.O_RDONLY)
            finally:
                _check(_libc.setns(own.fileno(), CLONE_NEWNET), "setns")
        self.name = f"{PREFIX}{os.getpid()}-{self._descriptor}"
        NAMES.mkdir(parents=True, exist_ok=True)
        (NAMES / self.name).symlink_to(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        self.ip("link set dev lo up")

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Sockets opened and processes started by this thread meanwhile belong to the namespace, and stay so."""
        with open(OWN_NAMESPACE) as own:
            _check(_libc.setns(self._descriptor, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                _check(_libc.setns(own.fileno(), CLONE_NEWNET), "setns")

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
        (NAMES / self.name).unlink(missing_ok=True)
        os.close(self._descriptor)


class Network:
    """One experiment's namespaces and devices."""

    def __init__(self, congestion: str) -> None:
        forget_lost_names()
        self.sources = Namespace()
        self.sinks = Namespace()
        self.router = Namespace()
        for end, device, own, other in ((self.sources, INNER, SOURCES, SINKS), (self.sinks, OUTER, SINKS, SOURCES)):
            _set_tcp(end, congestion)
            # Every address of the block is local, so flows of hundreds of sites share one pair of devices.
            end.ip(
                f"tuntap add dev {device} mode tun",
                f"link set dev {device} mtu 1500 txqueuelen 10000 up",
                f"route add local {own} dev lo",
                f"route add {other} dev {device}",
            )

    def close(self) -> None:
        """Lets go of everything."""
        for namespace in (self.sources, self.sinks, self.router):
            namespace.close()


def forget_lost_names() -> None:
    """Removes the names that a process left when it was killed."""
    for name in NAMES.glob(f"{PREFIX}*"):
        if name.is_symlink() and not name.exists():
            name.unlink(missing_ok=True)


def _set_tcp(end: Namespace, congestion: str) -> None:
    try:
        end.set("ipv4/tcp_congestion_control", congestion)
    except OSError as error:
        raise OSError(f"the kernel has no congestion control {congestion!r}: {error}") from error
    # Or a flow would begin with what an earlier one to the same address has found out.
    end.set("ipv4/tcp_no_metrics_save", 1)
    end.set("ipv4/tcp_sack", 1)
    end.set("ipv4/conf/all/rp_filter", 0)
    # Its neighbour discovery would come to the limiter as packets of no site.
    with contextlib.suppress(FileNotFoundError):
        end.set("ipv6/conf/all/disable_ipv6", 1)
    end.set("ipv4/tcp_max_syn_backlog", BACKLOG)
    end.set("core/somaxconn", BACKLOG)
    end.set("ipv4/ip_local_port_range", "10000 65000")


def _check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
