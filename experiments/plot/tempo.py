"""Draws the live measurements of Tempo: rate, distribution, topics; and of a flood's neighbour.

    python experiments/plot/tempo.py [--results bench/results] [--out docs/pictures]

Only the last command of each kind counts. A picture without results is skipped and said so.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from live import curves, distribution, last_command, read_records
from pictures import COLOURS, MARKERS, begin, panels, save
from results import NotResultsError

SITUATIONS = ("alone", "at-share", "flood")


def main() -> int:
    """Draws all pictures that have results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Draws the live measurements of Tempo.")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the JSON lines")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder of the pictures")
    flags = parser.parse_args()
    begin(flags.out)
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
        save(draw(last), flags.out, kind)
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


def draw_rate(records: list[dict]) -> Figure:
    """Throughput and mean delay against the rate."""
    picture, (axes,) = panels(1, 2)
    throughput = curves(records, rate_of, received_of)
    draw_curves(axes[0], throughput, "messages sent per second", "messages received per second")
    delay = curves(records, rate_of, mean_ms_of)
    draw_curves(axes[1], delay, "messages sent per second", "mean delay, ms")
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
    return picture


def draw_topics(records: list[dict]) -> Figure:
    """Cumulative throughput and mean delay against the number of topics."""
    picture, (axes,) = panels(1, 2)
    throughput = curves(records, topics_of, received_of)
    draw_curves(axes[0], throughput, "topics", "messages received per second")
    axes[0].set_ylim(bottom=0)
    delay = curves(records, topics_of, mean_ms_of)
    draw_curves(axes[1], delay, "topics", "mean delay, ms")
    axes[1].set_yscale("log")
    return picture


def draw_distribution(records: list[dict]) -> Figure:
    """The delays at each rate, a panel each, a step line for each row."""
    rates = sorted({rate_of(record) for record in records})
    picture, (axes,) = panels(1, len(rates))
    for axis, rate in zip(axes, rates, strict=True):
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
        axis.legend()
    return picture


def draw_neighbour(records: list[dict]) -> Figure:
    """The neighbour's p99 in each situation."""
    picture, ((axis,),) = panels(1, 1)
    p99 = curves(records, situation_of, lambda result: result["latency"]["p99_us"] / 1e3)
    draw_curves(axis, p99, "the other topic", "p99 of the neighbour, ms")
    axis.set_xticks(range(len(SITUATIONS)), ["silent", "at its share", "floods"])
    axis.set_yscale("log")
    return picture


def draw_curves(axis: Axes, drawn: dict[str, list[tuple[float, float]]], x_label: str, y_label: str) -> None:
    """A line with markers for each row."""
    for (name, points), colour, marker in zip(drawn.items(), COLOURS, MARKERS, strict=False):
        x, y = zip(*points, strict=True)
        axis.plot(x, y, color=colour, marker=marker, markersize=3.5, linewidth=1, label=name)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.legend()


if __name__ == "__main__":
    sys.exit(main())
