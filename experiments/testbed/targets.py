"""The experiments of the paper's evaluation (section 5) as scenarios, and which figure needs which of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass

from scenario import Bottleneck, Bulk, Part, Scenario, Sessions, Web

# 60 ms of the limit, as the paper's 75,000 bytes are of 10 Mbps.
DEPTH_BYTES_PER_MBPS = 7_500


@dataclass(frozen=True)
class Target:
    """A figure or table: the experiment that it shows, under which policies, and how often."""

    figure: str
    kind: str
    policies: tuple[str, ...]
    runs: int
    build: Callable[[str], list[Scenario]]
    # What one machine does at once.
    parallel: int = 5


def baseline(policy: str) -> list[Scenario]:
    """Section 5.1: 3 flows and 7 flows."""
    return [Scenario("baseline", policy, 2, (Bulk(0, 3), Bulk(1, 7)))]


def join(policy: str) -> list[Scenario]:
    """Section 5.2: every 10 seconds a flow joins at an unused limiter; then they depart in the same order."""
    traffic = tuple(Bulk(site, 1, start_s=10.0 * site, stop_s=60.0 + 10 * site) for site in range(5))
    made = Scenario("join", policy, 5, traffic, seconds=100.0)
    intervals_ms = (50.0,) if made.is_central else (500.0, 50.0)
    return [dataclasses.replace(made, interval_ms=interval_ms) for interval_ms in intervals_ms]


def web(policy: str) -> list[Scenario]:
    """Section 5.3: 10 bulk flows at one limiter, web requests at the other."""
    return [Scenario("web", policy, 2, (Bulk(0, 10), Web(1, 15.0)))]


def bottleneck(policy: str) -> list[Scenario]:
    """Section 5.4: the 7 flows get a bottleneck of 2 Mbps at 15 s; at 31 s one flow without any joins them."""
    traffic = (Bulk(0, 3), Bulk(1, 7, bottleneck=Bottleneck(2.0, 15.0)), Bulk(1, 1, start_s=31.0))
    return [Scenario("bottleneck", policy, 2, traffic)]


def round_trips(policy: str) -> list[Scenario]:
    """Section 5.5: 3 long flows (100 ms) and 7 short ones (10 ms)."""
    return [Scenario("rtt", policy, 2, (Bulk(0, 3, rtt_ms=100.0), Bulk(1, 7, rtt_ms=10.0)))]


def many_flows(policy: str) -> list[Scenario]:
    """Section 5.6: 1,500 and 3,500 flows under 50 Mbps."""
    traffic = (Bulk(0, 1_500), Bulk(1, 3_500))
    return [
        Scenario(
            "flows",
            policy,
            2,
            traffic,
            limit_mbps=50.0,
            depth_bytes=50 * DEPTH_BYTES_PER_MBPS,
            warmup_s=15.0,
            stagger_s=0.002,
        )
    ]


def many_limiters(policy: str, limiters: int = 490, branching: int = 3, seconds: float = 75.0) -> Scenario:
    """Section 5.6: 0 to 5 flows at each limiter under 50 Mbps, started in random order."""
    chance = random.Random(f"flows at {limiters} limiters")
    parts = [Bulk(site, flows) for site in range(limiters) if (flows := chance.randint(0, 5))]
    return Scenario(
        "limiters",
        policy,
        limiters,
        tuple(parts),
        limit_mbps=50.0,
        depth_bytes=50 * DEPTH_BYTES_PER_MBPS,
        seconds=seconds,
        warmup_s=min(35.0, seconds / 2),
        branching=branching,
        # The paper starts one per 100 ms, which takes two minutes.
        stagger_s=0.015,
    )


def several_limiters(policy: str) -> list[Scenario]:
    """Figure 8, thinned out: numbers of limiters with branching factor 3, and other factors at the largest."""
    if policy in ("ctb", "static"):
        return [many_limiters(policy)]
    return [many_limiters(policy, limiters) for limiters in (50, 490)]


def service(policy: str) -> list[Scenario]:
    """Section 5.7: 10 sites with 3 requests at once each; every other 30 s the same load comes to 4 of them."""
    traffic: list[Part] = []
    for start_s in range(0, 120, 60):
        traffic += [Sessions(site, 3, start_s=start_s, stop_s=start_s + 30) for site in range(10)]
        for site, clients in enumerate((8, 8, 7, 7)):
            traffic.append(Sessions(site, clients, start_s=start_s + 30, stop_s=start_s + 60))
    return [
        Scenario(
            "service",
            policy,
            10,
            tuple(traffic),
            limit_mbps=5.0,
            depth_bytes=5 * DEPTH_BYTES_PER_MBPS,
            seconds=120.0,
            interval_ms=100.0,
            branching=4,
            gossip_loss=0.0047,
        )
    ]


ALL_POLICIES = ("ctb", "gtb", "grd", "fps", "crd")
COMPARED = ("ctb", "grd", "fps")

TARGETS = {
    target.figure: target
    for target in (
        Target("drl-fig3", "drl-baseline", ALL_POLICIES[:4], 1, baseline),
        Target("drl-fig4", "drl-baseline", ALL_POLICIES[:4], 10, baseline, parallel=10),
        Target("drl-fig5", "drl-baseline", ALL_POLICIES, 10, baseline, parallel=10),
        Target("drl-fig6", "drl-join", COMPARED, 1, join),
        Target("drl-table1", "drl-web", COMPARED, 10, web, parallel=10),
        Target("drl-fig7", "drl-bottleneck", ("fps",), 3, bottleneck),
        Target("drl-table2", "drl-rtt", COMPARED, 5, round_trips),
        Target("drl-scale", "drl-flows", COMPARED, 1, many_flows, parallel=1),
        Target("drl-fig8", "drl-limiters", COMPARED, 1, several_limiters, parallel=1),
        Target("drl-fig9", "drl-service", ("static", "fps"), 1, service, parallel=2),
    )
}
