"""Sources and sinks in network namespaces of their own, and a limiter between them that gets their packets by TUN.

    sources (any address of 10.16.0.0/12) -- inner -- limiter -- outer -- sinks (any address of 10.32.0.0/12)

The limiter finds sources and sinks by name. The names are links into this process's open files: they lead nowhere once
it has ended, however that came, and such a link goes with the next experiment. The limiter's own namespace has nothing
but a loopback interface, so the gossip addresses of experiments that run at once never meet.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import namespace
from namespace import Namespace
from scenario import SINKS, SOURCES

INNER = "inner"
OUTER = "outer"
TUN = Path("/dev/net/tun")

# Where programs look for namespaces by name.
NAMES = Path("/run/netns")
PREFIX = "srtm-testbed-"

BACKLOG = 16_384


def why_impossible() -> str | None:
    """Why this process cannot make such a network; None if it can."""
    if reason := namespace.why_impossible():
        return reason
    return None if TUN.is_char_device() else f"there is no {TUN}: load the kernel's module tun"


class Network:
    """One experiment's namespaces and devices. `sources_name` and `sinks_name` are what `ip netns` calls those two."""

    def __init__(self, congestion: str) -> None:
        forget_lost_names()
        with contextlib.ExitStack() as made:
            self.sources, self.sinks, self.router = (
                made.enter_context(contextlib.closing(Namespace())) for _ in range(3)
            )
            self.sources_name = made.enter_context(_named(self.sources))
            self.sinks_name = made.enter_context(_named(self.sinks))
            for end, device, own, other in ((self.sources, INNER, SOURCES, SINKS), (self.sinks, OUTER, SINKS, SOURCES)):
                _set_tcp(end, congestion)
                # Every address of the block is local, so flows of hundreds of sites share one pair of devices.
                end.ip(
                    f"tuntap add dev {device} mode tun",
                    f"link set dev {device} mtu 1500 txqueuelen 10000 up",
                    f"route add local {own} dev lo",
                    f"route add {other} dev {device}",
                )
            self._made = made.pop_all()

    def close(self) -> None:
        """Lets go of everything."""
        self._made.close()


def forget_lost_names() -> None:
    """Removes the names that a process left when it was killed."""
    for name in NAMES.glob(f"{PREFIX}*"):
        if name.is_symlink() and not name.exists():
            name.unlink(missing_ok=True)


@contextlib.contextmanager
def _named(end: Namespace) -> Iterator[str]:
    name = f"{PREFIX}{os.getpid()}-{end.descriptor}"
    NAMES.mkdir(parents=True, exist_ok=True)
    (NAMES / name).symlink_to(end.path)
    try:
        yield name
    finally:
        (NAMES / name).unlink(missing_ok=True)


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
