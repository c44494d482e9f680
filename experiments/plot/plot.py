"""Draws the figures from results: one picture per figure, a panel each, as the paper lays them out.

    python experiments/plot/plot.py [--definitions experiments] [--results experiments/results] [--out docs/pictures]

A panel without results is left out; a figure without any is skipped and said so.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from matplotlib import ticker
from matplotlib.axes import Axes

from pictures import COLOURS, MARKERS, begin, draw_bound, grouped_panels, save
from results import NotResultsError, Point, Spread, aggregate, definitions, read_rows

# From this ratio of the largest to the least mean on, the axis is logarithmic.
LOGARITHMIC_FROM = 8
PERCENTILE_NAMES = {"p50_us": "median", "p95_us": "p95", "p99_us": "p99"}


def main() -> int:
    """Draws all figures that have results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Draws the figures from results.")
    parser.add_argument("--definitions", type=Path, default=Path("experiments"), help="folder of the TOML files")
    parser.add_argument("--results", type=Path, default=Path("experiments/results"), help="folder of the JSON lines")
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"), help="folder of the pictures")
    flags = parser.parse_args()
    begin(flags.out)
    try:
        for path in definitions(flags.definitions):
            draw_figure(path, flags.results, flags.out)
    except NotResultsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def draw_figure(definition: Path, results: Path, out: Path) -> None:
    """One picture with the panels that have results."""
    figure = tomllib.loads(definition.read_text(encoding="utf-8"))
    name = definition.stem
    panels = figure.get("panel") or [{"name": "", "title": figure["experiment"]["title"]}]
    drawn = []
    for panel in panels:
        path = results / f"{name}{panel['name']}.jsonl"
        if path.exists():
            drawn.append((panel, aggregate(read_rows(path))))
    if not drawn:
        print(f"{name}: no results in {results}", file=sys.stderr)
        return
    picture, (axes,) = grouped_panels([len(drawn)])
    for axis, (panel, curves) in zip(axes, drawn, strict=True):
        letter = f"({panel['name']}) " if panel["name"] else ""
        axis.set_title(letter + panel["title"])
        axis.set_xlabel(figure["x"]["label"])
        draw_panel(axis, name, figure["x"]["key"], curves)
    save(picture, out, name)


def draw_panel(axis: Axes, figure: str, key: str, curves: dict[str, list[Point]]) -> None:
    """The kind of panel that the figure has."""
    if figure.startswith("table"):
        draw_fit(axis, curves)
    elif key == "k":
        draw_percentiles(axis, curves)
    else:
        draw_curves(axis, curves)
    axis.legend()


def draw_curves(axis: Axes, curves: dict[str, list[Point]]) -> None:
    """The worst broker's p99 with its deviation, and the number of brokers beside each point."""
    draw_brokers(axis, curves, lambda point: point.latency_ms["worst_p99_us"])
    points = [point for curve in curves.values() for point in curve]
    promise = points[0].slo_ms
    draw_bound(axis, promise, f"promise, {promise:g} ms")
    label_latency(
        axis, [point.latency_ms["worst_p99_us"].mean for point in points], "p99 of the worst broker, ms", points
    )


def draw_percentiles(axis: Axes, curves: dict[str, list[Point]]) -> None:
    """Median, p95 and p99 of all messages."""
    means = []
    points = [point for curve in curves.values() for point in curve]
    for (key, name), colour, marker in zip(PERCENTILE_NAMES.items(), COLOURS, MARKERS, strict=False):
        latencies = [point.latency_ms[key] for point in points]
        draw_line(axis, [point.x for point in points], latencies, label=name, color=colour, marker=marker)
        means += [latency.mean for latency in latencies]
    label_latency(axis, means, "latency, ms", points)


def draw_fit(axis: Axes, curves: dict[str, list[Point]]) -> None:
    """Seconds until fitted, and the number of brokers beside each point."""
    draw_brokers(axis, curves, lambda point: point.fit_seconds)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("seconds until fitted")


def draw_brokers(axis: Axes, curves: dict[str, list[Point]], value: Callable[[Point], Spread]) -> None:
    """A line per series, with the number of brokers beside each point."""
    for (series, points), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        values = [value(point) for point in points]
        draw_line(axis, [point.x for point in points], values, label=series, color=colour, marker=marker)
        for point, spread in zip(points, values, strict=True):
            place = (point.x, spread.mean)
            axis.annotate(
                point.brokers_label(), place, (0, 4), textcoords="offset points", fontsize=6, color=colour, ha="center"
            )


def draw_line(axis: Axes, x: list[float], values: list[Spread], **style: str) -> None:
    """Means with error bars of one standard deviation; medians dotted, since one run may be far off."""
    axis.plot(x, [value.median for value in values], color=style["color"], linestyle=":", linewidth=1)
    axis.errorbar(
        x,
        [value.mean for value in values],
        yerr=[value.deviation for value in values],
        **style,
        markersize=3.5,
        linewidth=1,
        capsize=2,
    )


def label_latency(axis: Axes, means: list[float], label: str, points: list[Point]) -> None:
    """A logarithmic axis where the range asks for it; quick results are marked as such."""
    if max(means) > LOGARITHMIC_FROM * min(means):
        axis.set_yscale("log")
        axis.set_ylim(bottom=min(means) / 2)
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axis.set_ylim(bottom=0)
    quick = " (quick)" if any(point.is_quick for point in points) else ""
    axis.set_ylabel(label + quick)


if __name__ == "__main__":
    sys.exit(main())
