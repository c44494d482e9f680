"""Reads what `srtm limiter` records: docs/limiter.md names the fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenario import Scenario

# What the last line says besides, as far as results keep it.
KEPT = (
    "late_mean_us",
    "late_max_us",
    "lost_at_bottlenecks",
    "lost_at_links",
    "lost_in_hold",
    "refused_by_devices",
    "unplaced_packets",
    "odd_packets",
    "lines_left_out",
)


class RecordError(Exception):
    """A record that is not whole, or does not fit the scenario."""


@dataclass
class Record:
    """A limiter process's record. Series by limiter, a value per interval, from the traffic's second 0 on."""

    forwarded: list[list[int]]
    dropped_packets: list[int]
    local_limit_mbps: list[list[float]]
    # Delivery of held packets and losses that are no limiter's.
    router: dict[str, Any]
    cpu_s: float


def read_record(path: Path, scenario: Scenario, begin: float) -> Record:
    """The record of a process that has ended; `begin` is the traffic's second 0 on the monotonic clock."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if not lines or lines[0].get("kind") != "start" or lines[-1].get("kind") != "end":
        raise RecordError("the limiter's record is not whole")
    start, end = lines[0], lines[-1]
    if len(start["sites"]) != scenario.limiters:
        raise RecordError(f"the record is of {len(start['sites'])} limiters, not of {scenario.limiters}")
    ahead_s = begin - start["monotonic_ns"] / 1e9
    intervals = [line for line in lines if line["kind"] == "interval"]
    bin_s = scenario.record_ms / 1e3
    bins = round(scenario.seconds / bin_s)
    forwarded = [[0] * bins for _ in start["sites"]]
    limits = [[0.0] * bins for _ in start["sites"]]
    dropped = [0] * len(start["sites"])
    before = -1
    for line in intervals:
        last = round((line["at_s"] - ahead_s) / bin_s) - 1
        covered = [at for at in range(before + 1, last + 1) if 0 <= at < bins]
        before = max(before, last)
        for site, counts in enumerate(zip(line["forwarded_bytes"], line["dropped_packets"], strict=True)):
            for at, part in zip(covered, shares(counts[0], len(covered)), strict=True):
                forwarded[site][at] = part
                limits[site][at] = round((line["local_limit"][site] or 0.0) * 8 / 1e6, 4)
            dropped[site] += counts[1]
    router = {key: end[key] for key in KEPT if key in end}
    return Record(forwarded, dropped, limits, router, end["cpu_s"])


def shares(whole: int, parts: int) -> Iterator[int]:
    """`whole` in equal parts: a busy process may have ended several intervals at once."""
    for at in range(parts):
        yield whole * (at + 1) // parts - whole * at // parts
