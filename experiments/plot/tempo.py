"""Draws the live measurements of Tempo: rate, distribution, topics; and of a flood's neighbour.

    python experiments/plot/tempo.py [--results bench/results] [--out docs/pictures]

Only the last command of each kind counts. A picture without results is skipped and said so.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from live import curves, distribution, last_command, read_records
from results import NotResultsError

PANEL_INCHES = (4.0, 3.0)
COLOURS = ("#c44e52", "#4c72b0", "#55a868", "#8172b2")
MARKERS = ("s", "o", "^", "D")
SITUATIONS = ("alone", "at-share", "flood")


def main() -> int:
    """Draws all pictures that have results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Draws the live measurements of Tempo.")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the JSON lines")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder of the pictures")
    flags = parser.parse_args()
    # Equal results give equal files.
    plt.rcParams.update({"svg.hashsalt": "srtm", "font.size": 8, "axes.grid": True, "grid.alpha": 0.3})
    flags.out.mkdir(parents=True, exist_ok=True)
    try:
        records = read_records(flags.results / "tempo.jsonl")
        records += read_records(flags.results / "neighbour.jsonl")
    except NotResultsError as error:
        print(error, file=sys.stderr)
        return 1
    pictures = {
        "tempo-rate": draw_rate,
        "tempo-distribution": draw_distribution,
        "tempo-topics": draw_topics,
        "neighbour": draw_neighbour,
    }
    for kind, draw in pictures.items():
        last = last_command(records, kind)
        if not last:
            print(f"{kind}: no results in {flags.results}", file=sys.stderr)
            continue
        picture = draw(last)
        picture.tight_layout()
        target = flags.out / f"{kind}.svg"
        picture.savefig(target, metadata={"Date": None})
        plt.close(picture)
        print(target)
    return 0


def rate_of(record: dict) -> float | None:
    """Messages per second of a publisher; none where it sent as fast as it could."""
    return record["workload"]["rate_per_publisher"]


def topics_of(record: dict) -> float:
    """Topics, each with a publisher."""
    return record["workload"]["topics"]


def situation_of(record: dict) -> float:
    """The place of what the other topic did."""
    return SITUATIONS.index(record["result"]["situation"])


def received_of(result: dict) -> float:
    """Messages per second, all topics together."""
    return result["received_per_second"]


def mean_ms_of(result: dict) -> float:
    """The mean delay of the sample."""
    return result["delays"]["mean_us"] / 1e3


def draw_rate(records: list[dict]) -> plt.Figure:
    """Throughput and mean delay against the rate."""
    picture, axes = plt.subplots(1, 2, figsize=(2 * PANEL_INCHES[0], PANEL_INCHES[1]))
    throughput = curves(records, rate_of, received_of)
    draw_curves(axes[0], throughput, "messages sent per second", "messages received per second")
    delay = curves(records, rate_of, mean_ms_of)
    draw_curves(axes[1], delay, "messages sent per second", "mean delay, ms")
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
    return picture


def draw_topics(records: list[dict]) -> plt.Figure:
    """Cumulative throughput and mean delay against the number of topics."""
    picture, axes = plt.subplots(1, 2, figsize=(2 * PANEL_INCHES[0], PANEL_INCHES[1]))
    throughput = curves(records, topics_of, received_of)
    draw_curves(axes[0], throughput, "topics", "messages received per second")
    axes[0].set_ylim(bottom=0)
    delay = curves(records, topics_of, mean_ms_of)
    draw_curves(axes[1], delay, "topics", "mean delay, ms")
    axes[1].set_yscale("log")
    return picture


def draw_distribution(records: list[dict]) -> plt.Figure:
    """The delays at each rate, a panel each, a step line for each row."""
    rates = sorted({rate_of(record) for record in records})
    width, height = PANEL_INCHES
    picture, axes = plt.subplots(1, len(rates), figsize=(width * len(rates), height), squeeze=False)
    for axis, rate in zip(axes.flat, rates, strict=True):
        at_rate = [record for record in records if rate_of(record) == rate]
        names = list(dict.fromkeys(record["peer"] for record in at_rate))
        for name, colour in zip(names, COLOURS, strict=False):
            rows = distribution([record for record in at_rate if record["peer"] == name])
            x, y = [edge_us / 1e3 for edge_us, _ in rows], [messages for _, messages in rows]
            axis.step(x, y, where="pre", color=colour, label=name, linewidth=1)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(f"{rate:,.0f} msg/s")
        axis.set_xlabel("delay, ms")
        axis.set_ylabel("messages of the sample")
        axis.legend(fontsize=6, framealpha=0.5)
    return picture


def draw_neighbour(records: list[dict]) -> plt.Figure:
    """The neighbour's p99 in each situation."""
    picture, axis = plt.subplots(figsize=PANEL_INCHES)
    p99 = curves(records, situation_of, lambda result: result["latency"]["p99_us"] / 1e3)
    draw_curves(axis, p99, "the other topic", "p99 of the neighbour, ms")
    axis.set_xticks(range(len(SITUATIONS)), ["silent", "at its share", "floods"])
    axis.set_yscale("log")
    return picture


def draw_curves(axis: plt.Axes, drawn: dict[str, list[tuple[float, float]]], x_label: str, y_label: str) -> None:
    """A line with markers for each row."""
    for (name, points), colour, marker in zip(drawn.items(), COLOURS, MARKERS, strict=False):
        x, y = zip(*points, strict=True)
        axis.plot(x, y, color=colour, marker=marker, markersize=3.5, linewidth=1, label=name)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.legend(fontsize=6, framealpha=0.5)


if __name__ == "__main__":
    sys.exit(main())
