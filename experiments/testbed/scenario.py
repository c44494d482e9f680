"""What an experiment is: a limit, the sites that share it, and the traffic through them. Data; no clock, no sockets.

Every part of the traffic has addresses of its own, so a network can treat it apart (round trip, bottleneck upstream).
Where the limit is central all traffic passes one limiter, whatever site it belongs to.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import random
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

CENTRAL = {"ctb": "ctb", "crd": "grd"}
"""Policies with one limiter for all traffic, and what it does: the paper's reference, and its "central random drop"."""

DISTRIBUTED = ("static", "gtb", "grd", "fps")

SOURCES = ipaddress.IPv4Network("10.16.0.0/12")
SINKS = ipaddress.IPv4Network("10.32.0.0/12")
SITE_ADDRESSES = 256
MOST_SITES = SOURCES.num_addresses // SITE_ADDRESSES
MOST_PARTS_PER_SITE = 250


@dataclass(frozen=True)
class Sizes:
    """Sizes of web objects: a Pareto distribution cut off at both ends.

    Stands for the paper's trace, which is not to be had. Shape and ends are chosen for a mean of 16 kB: 15 requests per
    second then ask for the 1.9 Mbps that table 1 shows.
    """

    least_bytes: int = 2_750
    most_bytes: int = 5_000_000
    shape: float = 1.1

    def draw(self, chance: random.Random) -> int:
        """One size."""
        cut = 1 - (self.least_bytes / self.most_bytes) ** self.shape
        return round(self.least_bytes * (1 - cut * chance.random()) ** (-1 / self.shape))

    def mean_bytes(self) -> float:
        """The mean of the distribution."""
        ratio = self.least_bytes / self.most_bytes
        scale = self.shape / (self.shape - 1) * self.least_bytes
        return scale * (1 - ratio ** (self.shape - 1)) / (1 - ratio**self.shape)


@dataclass(frozen=True)
class Bottleneck:
    """A narrow link upstream of the limiter, from `from_s` on; a full queue drops the newest packet."""

    mbps: float
    from_s: float
    queue_bytes: int = 15_000


@dataclass(frozen=True)
class Part:
    """A part of the traffic: where and when it is, and the network that it alone has."""

    site: int
    _: KW_ONLY
    start_s: float = 0.0
    stop_s: float | None = None
    rtt_ms: float = 40.0
    bottleneck: Bottleneck | None = None


@dataclass(frozen=True)
class Bulk(Part):
    """Flows that always have something to send."""

    flows: int


@dataclass(frozen=True)
class Web(Part):
    """Requests that arrive at random (Poisson), each for one object over a connection of its own."""

    per_second: float
    sizes: Sizes = Sizes()


@dataclass(frozen=True)
class Sessions(Part):
    """Clients that fetch one object after the other, each over a connection of its own."""

    clients: int
    sizes: Sizes = Sizes()


@dataclass(frozen=True)
class Scenario:
    """One experiment. `policy` is one of CENTRAL or DISTRIBUTED."""

    name: str
    policy: str
    sites: int
    traffic: tuple[Part, ...]
    limit_mbps: float = 10.0
    depth_bytes: int = 75_000
    seconds: float = 60.0
    # Fairness and rates are measured from here on.
    warmup_s: float = 5.0
    interval_ms: float = 50.0
    ewma: float = 0.1
    # None is a mesh.
    branching: int | None = None
    # Real datagrams, or "memory": exact sums after the delay.
    gossip: str = "udp"
    gossip_delay_ms: float = 20.0
    gossip_loss: float = 0.0
    link_mbps: float = 100.0
    congestion: str = "reno"
    # Flows of the same start begin so far apart, in random order.
    stagger_s: float = 0.02
    record_ms: float = 100.0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.policy not in (*CENTRAL, *DISTRIBUTED):
            known = ", ".join((*CENTRAL, *DISTRIBUTED))
            raise ValueError(f"{self.name}: there is no policy {self.policy!r}; use one of {known}")
        if not 1 <= self.sites <= MOST_SITES:
            raise ValueError(f"{self.name}: {self.sites} sites; possible are 1 to {MOST_SITES}")
        for part in self.traffic:
            if not 0 <= part.site < self.sites:
                raise ValueError(f"{self.name}: traffic at site {part.site}; there are 0 to {self.sites - 1}")
        if not 0 <= self.warmup_s < self.seconds:
            raise ValueError(f"{self.name}: a warm-up of {self.warmup_s} s leaves nothing of {self.seconds} s")

    @property
    def is_central(self) -> bool:
        """Whether one limiter sees all traffic."""
        return self.policy in CENTRAL

    @property
    def limiters(self) -> int:
        """Number of limiters that run."""
        return 1 if self.is_central else self.sites

    @property
    def limiter_policy(self) -> str:
        """What each limiter does."""
        return CENTRAL.get(self.policy, self.policy)

    @property
    def mesh_or_branching(self) -> int:
        """Whom a limiter tells in each interval; everybody in a mesh."""
        everybody = max(self.limiters - 1, 1)
        return min(self.branching or everybody, everybody)

    def source_of(self, part: int) -> str:
        """The address that the part's data come from."""
        return str(self._address(SOURCES, part))

    def sink_of(self, part: int) -> str:
        """The address that the part's data go to."""
        return str(self._address(SINKS, part))

    def sinks_of(self, limiter: int) -> str:
        """The destinations that a limiter stands for."""
        if self.is_central:
            return str(SINKS)
        return f"{SINKS.network_address + limiter * SITE_ADDRESSES}/24"

    def bulk_starts(self) -> Iterator[tuple[float, float, int]]:
        """Start and stop in seconds, and the part, of every bulk flow, in the order of their starts."""
        chance = random.Random(f"starts {self.seed}")
        begun: dict[float, list[int]] = {}
        for number, part in enumerate(self.traffic):
            if isinstance(part, Bulk):
                begun.setdefault(part.start_s, []).extend([number] * part.flows)
        for start_s in sorted(begun):
            parts = begun[start_s]
            # All flows of one site first would give them the limit before the others come.
            chance.shuffle(parts)
            for order, number in enumerate(parts):
                yield start_s + order * self.stagger_s, self.stop_of(number), number

    def stop_of(self, part: int) -> float:
        """When the part's traffic ends, in seconds."""
        stop_s = self.traffic[part].stop_s
        return self.seconds if stop_s is None else min(stop_s, self.seconds)

    def described(self) -> dict[str, Any]:
        """The scenario as a record has it. Parts that differ by their site only stand together."""
        described = {key: value for key, value in dataclasses.asdict(self).items() if value is not None}
        described["limiters"] = self.limiters
        described["branching"] = self.mesh_or_branching
        described["traffic"] = list(_described_parts(self.traffic))
        return described

    def _address(self, block: ipaddress.IPv4Network, part: int) -> ipaddress.IPv4Address:
        site = self.traffic[part].site
        place = sum(1 for earlier in self.traffic[:part] if earlier.site == site)
        if place >= MOST_PARTS_PER_SITE:
            raise ValueError(f"{self.name}: more than {MOST_PARTS_PER_SITE} parts of traffic at site {site}")
        return block.network_address + site * SITE_ADDRESSES + 1 + place


def _described_parts(parts: tuple[Part, ...]) -> Iterator[dict[str, Any]]:
    together: dict[Part, list[int]] = {}
    for part in parts:
        together.setdefault(dataclasses.replace(part, site=0), []).append(part.site)
    for part, sites in together.items():
        values = {key: value for key, value in dataclasses.asdict(part).items() if value is not None}
        values["kind"] = type(part).__name__.lower()
        values["site"] = sites[0] if len(sites) == 1 else sites
        yield values
