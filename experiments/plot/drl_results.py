"""Reads the runs of DRL's experiments, live and in virtual time, and finds what pictures and tables show of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from live import read_records

POLICIES = ("ctb", "crd", "static", "gtb", "grd", "fps")
NAMES = {
    "ctb": "central token bucket",
    "crd": "central random drop",
    "static": "static 1/N",
    "gtb": "global token bucket",
    "grd": "global random drop",
    "fps": "flow proportional share",
}

HOLD_S = 5.0
"""A mean over less says more about a saw tooth than about a share."""

Run = dict


def read_runs(folder: Path, kind: str) -> list[Run]:
    """The newest run of each scenario and round, ordered by policy and round."""
    newest: dict[tuple, Run] = {}
    for run in read_records(folder / f"{kind}.jsonl"):
        work = run["workload"]
        scenario = (work["interval_ms"], work["sites"], branching_told(run), work["seconds"], run.get("value"))
        place = (run["peer"], *scenario, run.get("varied"), run["round"])
        newest[place] = run
    order = {policy: at for at, policy in enumerate(POLICIES)}
    return sorted(newest.values(), key=lambda run: (order.get(run["peer"], len(order)), run["round"]))


def by_policy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs in the order of the policies."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run["peer"], []).append(run)
    return groups


def branching_told(run: Run) -> str:
    """Whom limiters tell; nothing where there is but one. Live, gossip may be exact sums in place of datagrams."""
    work = run["workload"]
    if work["limiters"] == 1 or run["peer"] == "static":
        return ""
    if work.get("gossip") == "memory":
        return ", exact sums"
    branching = work.get("branching")
    return f", br {branching}" if branching and branching < work["limiters"] - 1 else ""


def series_mbps(series: dict, window_s: float) -> list[tuple[list[float], list[float]]]:
    """Times and rates over windows, for each series of bytes."""
    bins = round(window_s / series["bin_s"])
    drawn = []
    for counted in series["bytes"]:
        starts = range(0, len(counted) - bins + 1, bins)
        rates = [sum(counted[at : at + bins]) * 8 / window_s / 1e6 for at in starts]
        drawn.append(([(at + bins) * series["bin_s"] for at in starts], rates))
    return drawn


def together(series: dict) -> dict:
    """All series of bytes as one."""
    longest = max(len(counted) for counted in series["bytes"])
    whole = [[*counted, *[0] * (longest - len(counted))] for counted in series["bytes"]]
    return {"bin_s": series["bin_s"], "bytes": [[sum(column) for column in zip(*whole, strict=True)]]}


def rates_after_warmup(runs: Sequence[Run], window_s: float) -> list[float]:
    """Rates of all limiters together over windows, of several runs."""
    rates = []
    for run in runs:
        ((times, of_run),) = series_mbps(together(run["result"]["forwarded"]), window_s)
        first_s, last_s = run["workload"]["warmup_s"] + window_s - 1e-6, run["workload"]["seconds"] + 1e-6
        rates += [rate for time_s, rate in zip(times, of_run, strict=True) if first_s <= time_s <= last_s]
    return rates


def mean_mbps(run: Run, limiter: int, from_s: float, to_s: float) -> float:
    """What a limiter forwards on average in a part of a run."""
    forwarded = run["result"]["forwarded"]
    counted = forwarded["bytes"][limiter][round(from_s / forwarded["bin_s"]) : round(to_s / forwarded["bin_s"])]
    return sum(counted) * 8 / (to_s - from_s) / 1e6


def settled_after_s(run: Run, limiter: int, target_mbps: float, from_s: float, to_s: float) -> float | None:
    """Seconds from `from_s` until every mean over HOLD_S up to `to_s` is within a tenth of the target; None if none is.

    A mean, for TCP's saw tooth is wider than any useful tolerance.
    """
    bin_s = run["result"]["forwarded"]["bin_s"]
    settled_s = None
    for step in reversed(range(round((to_s - HOLD_S - from_s) / bin_s) + 1)):
        begin_s = from_s + step * bin_s
        if abs(mean_mbps(run, limiter, begin_s, begin_s + HOLD_S) - target_mbps) > target_mbps / 10:
            break
        settled_s = step * bin_s
    return settled_s


def mean_and_deviation(values: Sequence[float]) -> str:
    """`9.99 ± 0.01`, or the one value."""
    if len(values) < 2:
        return f"{values[0]:.3g}" if values else "-"
    return f"{statistics.fmean(values):.4g} ± {statistics.stdev(values):.2g}"


def of_each(runs: Sequence[Run], figure: Callable[[dict], float | None]) -> list[float]:
    """A figure of each run's result that has it."""
    return [value for run in runs if (value := figure(run["result"])) is not None]
