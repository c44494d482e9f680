"""Prints DRL's experiments as Markdown tables.

python experiments/plot/drl_tables.py [--live experiments/results/live] [--virtual experiments/results]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from drl_results import NAMES, Run, branching_told, mean_and_deviation, mean_mbps, of_each, read_runs, settled_after_s
from results import NotResultsError
from tables import line

Cell = Callable[[Sequence[Run]], str]


def main() -> int:
    """Prints every table that has results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Prints DRL's experiments as Markdown tables.")
    parser.add_argument("--live", type=Path, default=Path("experiments/results/live"), help="folder of live results")
    parser.add_argument("--virtual", type=Path, default=Path("experiments/results"), help="folder of simulated ones")
    flags = parser.parse_args()
    try:
        for place, folder in (("live", flags.live), ("virtual", flags.virtual)):
            for kind, cells in TABLES.items():
                runs = read_runs(folder, kind)
                if runs:
                    print(f"\n**{kind}, {place}**\n")
                    print("\n".join(table(runs, cells)))
    except NotResultsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def table(runs: Sequence[Run], cells: dict[str, Cell]) -> list[str]:
    """A row per policy, number of sites and interval."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        work = run["workload"]
        groups.setdefault((run["peer"], work["sites"], branching_told(run), work["interval_ms"]), []).append(run)
    head = ["policy", "sites", "interval", "runs", *cells]
    rows = [line(head), line(["---"] + ["---:"] * (len(head) - 1))]
    for (policy, sites, told, interval_ms), group in groups.items():
        words = [NAMES[policy] + told, str(sites), f"{interval_ms:g} ms", str(len(group))]
        rows.append(line([*words, *(cell(group) for cell in cells.values())]))
    return rows


def figure(find: Callable[[dict], float | None]) -> Cell:
    """A figure with its deviation over runs."""
    return lambda runs: mean_and_deviation(of_each(runs, find))


def ends(window: str) -> Cell:
    """Least and greatest rate over windows, of all runs."""

    def cell(runs: Sequence[Run]) -> str:
        spreads = [run["result"][window] for run in runs if window in run["result"]]
        if not spreads:
            return "-"
        return f"{min(spread['min'] for spread in spreads):.2f}..{max(spread['max'] for spread in spreads):.2f}"

    return cell


def jain_ends(runs: Sequence[Run]) -> str:
    """Jain's index: mean, least, greatest."""
    values = of_each(runs, lambda result: result["jain"])
    return f"{statistics.fmean(values):.3f} ({min(values):.3f}..{max(values):.3f})" if values else "-"


def at_limiters(from_s: float, to_s: float) -> Cell:
    """What the limiters forward in a part of the run, Mbps."""

    def cell(runs: Sequence[Run]) -> str:
        limiters = range(len(runs[0]["result"]["forwarded"]["bytes"]))
        return " : ".join(
            mean_and_deviation([mean_mbps(run, limiter, from_s, to_s) for run in runs]) for limiter in limiters
        )

    return cell


def settled(limiter: int, target_mbps: float, from_s: float, to_s: float) -> Cell:
    """Seconds until a limiter forwards what it should, of each run."""

    def cell(runs: Sequence[Run]) -> str:
        found = [settled_after_s(run, limiter, target_mbps, from_s, to_s) for run in runs]
        return ", ".join("never" if seconds is None else f"{seconds:.1f} s" for seconds in found)

    return cell


def of_part(part: int) -> Cell:
    """Payload of a part of the traffic after warm-up, Mbps."""

    def cell(runs: Sequence[Run]) -> str:
        rates = []
        for run in runs:
            goodput, work = run["result"]["goodput"], run["workload"]
            counted = goodput["bytes"][part][round(work["warmup_s"] / goodput["bin_s"]) :]
            rates.append(sum(counted) * 8 / (work["seconds"] - work["warmup_s"]) / 1e6)
        return mean_and_deviation(rates)

    return cell


def of_flow(part: int) -> Cell:
    """Mean payload rate of a flow of a part, Mbps."""
    return figure(lambda result: statistics.fmean(result["flows_kbps"][part]) / 1e3)


def of_downloads(row: int) -> Cell:
    """Rate of downloads of a class of sizes, kbps."""
    return figure(lambda result: result["downloads"]["rows"][row]["kbps"])


AGGREGATE: dict[str, Cell] = {
    "forwarded, Mbps": figure(lambda result: result["forwarded_mbps_1s"]["mean"]),
    "over 1 s": ends("forwarded_mbps_1s"),
    "over 100 ms": ends("forwarded_mbps_100ms"),
}
FAIR: dict[str, Cell] = {"Jain": jain_ends}
DROPPED: dict[str, Cell] = {"dropped": figure(lambda result: result["dropped_packets"])}

TABLES: dict[str, dict[str, Cell]] = {
    "drl-baseline": {**AGGREGATE, **FAIR, "3 flows": of_part(0), "7 flows": of_part(1), **DROPPED},
    "drl-join": AGGREGATE,
    "drl-web": {
        "bulk, Mbps": of_part(0),
        "web, Mbps": of_part(1),
        "< 5 kB, kbps": of_downloads(0),
        "< 50 kB": of_downloads(1),
        "< 500 kB": of_downloads(2),
        "larger": of_downloads(3),
        **FAIR,
    },
    "drl-bottleneck": {
        "forwarded, Mbps": AGGREGATE["forwarded, Mbps"],
        "limiters at 20..31 s": at_limiters(20.0, 31.0),
        "at 41..60 s": at_limiters(41.0, 60.0),
        "8 of 10 after": settled(0, 8.0, 15.0, 31.0),
        "6 of 10 after": settled(0, 6.0, 31.0, 60.0),
    },
    "drl-rtt": {**AGGREGATE, "short RTT, Mbps per flow": of_flow(1), "long RTT": of_flow(0)},
    "drl-flows": {**AGGREGATE, **FAIR, **DROPPED},
    "drl-limiters": {**AGGREGATE, **FAIR, **DROPPED},
    "drl-service": AGGREGATE,
}


if __name__ == "__main__":
    sys.exit(main())
