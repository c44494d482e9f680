"""Draws DRL's experiments: live ones, and beside them those in virtual time where there are any.

    python experiments/plot/drl.py [--live experiments/results/live] [--virtual experiments/results] [--out FOLDER]

A picture without results is skipped and said so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import arange, linspace, quantile

from drl_results import NAMES, Run, branching_told, by_policy, rates_after_warmup, read_runs, series_mbps, together
from pictures import COLOURS, begin, draw_bound, grouped_panels, panels, save
from results import NotResultsError

PANEL_INCHES = (4.0, 2.4)
OF_POLICY = {
    "ctb": "#333333",
    "crd": "#999999",
    "static": "#ccb974",
    "gtb": "#c44e52",
    "grd": "#4c72b0",
    "fps": "#55a868",
}
MARKERS = {"crd": "d", "gtb": "s", "grd": "o", "fps": "^", "ctb": "x", "static": "v"}
MOST_LINES = 6
EXACT_SUMS = ", exact sums"
PAPERS_BRANCHING = 3
PAPERS_INTERVAL_MS = 50
# Policies with less than this part of the reference's fairness are far from it.
NEAR = 0.9

Runs = dict[str, list[Run]]
"""Runs by where they ran: `live`, `virtual`."""


def main() -> int:
    """Draws all pictures that have results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Draws DRL's experiments.")
    parser.add_argument("--live", type=Path, default=Path("experiments/results/live"), help="folder of live results")
    parser.add_argument("--virtual", type=Path, default=Path("experiments/results"), help="folder of simulated ones")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder of the pictures")
    flags = parser.parse_args()
    begin(flags.out)
    pictures: dict[str, tuple[str, Callable[[Runs], Figure]]] = {
        "drl-fig3": ("drl-baseline", draw_series),
        "drl-fig4": ("drl-baseline", draw_rates),
        "drl-fig5": ("drl-baseline", draw_fairness),
        "drl-fig6": ("drl-join", draw_series),
        "drl-fig7": ("drl-bottleneck", draw_series),
        "drl-fig8": ("drl-limiters", draw_scale),
        "drl-fig9": ("drl-service", draw_service),
        "drl-cut": ("drl-cut", draw_series),
    }
    for name, (kind, draw) in pictures.items():
        try:
            runs = {
                place: read_runs(folder, kind) for place, folder in (("live", flags.live), ("virtual", flags.virtual))
            }
        except NotResultsError as error:
            print(error, file=sys.stderr)
            return 1
        runs = {place: found for place, found in runs.items() if found}
        if not runs:
            print(f"{name}: no results of {kind}", file=sys.stderr)
            continue
        save(draw(runs), flags.out, name)
    return 0


def first_runs(runs: list[Run]) -> list[Run]:
    """The first run of each scenario."""
    first: dict[tuple, Run] = {}
    for run in runs:
        first.setdefault((run["peer"], run["workload"]["interval_ms"]), run)
    return list(first.values())


def draw_series(runs: Runs) -> Figure:
    """Forwarding rate of each limiter and of all, a panel per scenario, the live ones first."""
    shown = {place: first_runs([run for run in found if run["peer"] != "crd"]) for place, found in runs.items()}
    picture, rows = grouped_panels([len(found) for found in shown.values()], PANEL_INCHES)
    for (place, found), axes in zip(shown.items(), rows, strict=True):
        for axis, run in zip(axes, found, strict=True):
            draw_limiters(axis, run, 1.0)
            interval = f", {run['workload']['interval_ms']:g} ms" if intervals_differ(found) else ""
            axis.set_title(f"{NAMES[run['peer']]}{interval} ({place})")
    return picture


def intervals_differ(runs: list[Run]) -> bool:
    """Whether the estimate interval tells runs apart."""
    distributed = [run for run in runs if run["workload"]["limiters"] > 1]
    return len({run["workload"]["interval_ms"] for run in distributed}) > 1


def draw_limiters(axis: Axes, run: Run, window_s: float) -> None:
    """A line per limiter and one for all together, Mbps; where one limiter sees all, payload by part of the traffic."""
    forwarded, limit = run["result"]["forwarded"], run["workload"]["limit_mbps"]
    shown, word = forwarded, "limiter" if run["workload"]["limiters"] > 1 else "site"
    if len(forwarded["bytes"]) == 1:
        shown, word = run["result"].get("goodput"), "payload"
    if shown and 1 < len(shown["bytes"]) <= MOST_LINES:
        for number, ((times, rates), colour) in enumerate(zip(series_mbps(shown, window_s), COLOURS, strict=False)):
            axis.plot(times, rates, color=colour, linewidth=0.9, label=f"{word} {number + 1}")
    ((times, rates),) = series_mbps(together(forwarded), window_s)
    axis.plot(times, rates, color="black", linewidth=0.9, label="together")
    draw_bound(axis, limit)
    axis.set_ylim(0, 1.6 * limit)
    axis.set_xlabel("seconds")
    axis.set_ylabel("Mbps over 1 s")
    axis.legend(loc="upper right", ncols=2)


def draw_rates(runs: Runs) -> Figure:
    """Histograms of the forwarding rate of all limiters together, at 1 s and 100 ms."""
    windows_s = {1.0: 0.1, 0.1: 0.4}
    picture, axes = panels(len(runs), len(windows_s), PANEL_INCHES)
    for row, (place, found) in zip(axes, runs.items(), strict=True):
        for axis, (window_s, width_mbps) in zip(row, windows_s.items(), strict=True):
            for policy, group in by_policy(found).items():
                rates = rates_after_warmup(group, window_s)
                limit = group[0]["workload"]["limit_mbps"]
                bars = arange(0, 2.5 * limit, width_mbps)
                style = {"histtype": "step", "color": OF_POLICY[policy], "linewidth": 1}
                axis.hist(rates, bars, weights=[1 / len(rates)] * len(rates), label=NAMES[policy], **style)
            axis.set_xlim(0.5 * limit if window_s == 1.0 else 0, 1.5 * limit if window_s == 1.0 else 2.5 * limit)
            axis.set_title(f"over {window_s:g} s ({place})")
            axis.set_xlabel("forwarded together, Mbps")
            axis.set_ylabel(f"part of the windows, per {width_mbps:g} Mbps")
            axis.legend()
    return picture


def draw_fairness(runs: Runs) -> Figure:
    """Quantiles of Jain's index against those of the central token bucket: all, and those that are near it."""
    picture, axes = panels(len(runs), 2, PANEL_INCHES)
    for row, (place, found) in zip(axes, runs.items(), strict=True):
        groups = {policy: [run["result"]["jain"] for run in group] for policy, group in by_policy(found).items()}
        reference = groups.pop("ctb", [])
        near = {policy: values for policy, values in groups.items() if min(values) > NEAR * min(reference, default=1)}
        for axis, drawn in zip(row, (groups, near), strict=True):
            draw_quantiles(axis, reference, drawn)
            axis.set_title(f"Jain's index, quantiles ({place})")
    return picture


def draw_quantiles(axis: Axes, reference: list[float], groups: dict[str, list[float]]) -> None:
    """A line per policy; above the diagonal is fairer."""
    for policy, values in groups.items():
        parts = linspace(0, 1, min(len(values), len(reference)))
        x, y = quantile(reference, parts), quantile(values, parts)
        style = {"color": OF_POLICY[policy], "marker": MARKERS[policy], "markersize": 4, "linewidth": 0.5}
        axis.plot(x, y, label=NAMES[policy], **style)
    ends = (min(reference, default=0), max(reference, default=1))
    axis.plot(ends, ends, color="black", linestyle=":", linewidth=0.8)
    axis.set_xlabel(NAMES["ctb"])
    axis.set_ylabel("policy")
    axis.legend()


def draw_scale(runs: Runs) -> Figure:
    """Rate and fairness against the number of limiters: a line per policy, branching factor and interval."""
    picture, axes = panels(len(runs), 2, PANEL_INCHES)
    for row, (place, found) in zip(axes, runs.items(), strict=True):
        groups: dict[tuple[str, object, str, float], list[Run]] = {}
        for run in found:
            work = run["workload"]
            told = branching_told(run)
            branching = work.get("branching") if told and told != EXACT_SUMS else None
            groups.setdefault((run["peer"], branching, told, work["interval_ms"]), []).append(run)
        tells_intervals = intervals_differ(found)
        for (policy, branching, branches, interval_ms), group in groups.items():
            label = policy.upper() + branches
            label += f", {interval_ms:g} ms" if tells_intervals and branching else ""
            style = {
                "color": OF_POLICY[policy],
                "marker": MARKERS[policy],
                "markersize": 4,
                "linewidth": 1,
                "linestyle": "-." if branches == EXACT_SUMS else line_style(branching, interval_ms),
            }
            sites = sorted({run["workload"]["sites"] for run in group})
            for axis, figure in (
                (row[0], lambda result: result["jain"]),
                (row[1], lambda result: result["forwarded_mbps_1s"]["mean"]),
            ):
                medians = [
                    median(figure(run["result"]) for run in group if run["workload"]["sites"] == count)
                    for count in sites
                ]
                axis.plot(sites, medians, label=label, **style)
        limit = found[0]["workload"]["limit_mbps"]
        draw_bound(row[1], limit)
        # What lets much more through than the limit leaves the picture.
        row[1].set_ylim(0, 2 * limit)
        row[0].set_ylim(0, 1)
        row[0].set_ylabel("Jain's index")
        row[1].set_ylabel("forwarded together, Mbps")
        for axis in row:
            axis.set_title(place)
            axis.set_xlabel("limiters")
        row[1].legend(fontsize=5, ncols=3, loc="upper left")
    return picture


def line_style(branching: int | None, interval_ms: float) -> str:
    """Tells settings of one policy apart: solid is what the paper recommends."""
    if branching is None or (branching == PAPERS_BRANCHING and interval_ms == PAPERS_INTERVAL_MS):
        return "-"
    if interval_ms != PAPERS_INTERVAL_MS:
        return "-."
    return ":" if branching < PAPERS_BRANCHING else "--"


def draw_service(runs: Runs) -> Figure:
    """What each site forwards, one above the other, a panel per policy."""
    shown = {place: first_runs(found) for place, found in runs.items()}
    picture, rows = grouped_panels([len(found) for found in shown.values()], PANEL_INCHES)
    for (place, found), axes in zip(shown.items(), rows, strict=True):
        for axis, run in zip(axes, found, strict=True):
            series = series_mbps(run["result"]["forwarded"], 1.0)
            axis.stackplot(series[0][0], [rates for _, rates in series], linewidth=0)
            draw_bound(axis, run["workload"]["limit_mbps"])
            axis.set_ylim(0, 1.6 * run["workload"]["limit_mbps"])
            axis.set_title(f"{NAMES[run['peer']]} ({place})")
            axis.set_xlabel("seconds")
            axis.set_ylabel("forwarded by 10 sites, Mbps")
    return picture


if __name__ == "__main__":
    sys.exit(main())
