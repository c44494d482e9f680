"""Prints the results as Markdown tables, as docs/experiments.md has them.

python experiments/plot/tables.py [--definitions experiments] [--results experiments/results] [NAME ...]
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from results import NotResultsError, Point, Spread, aggregate, definitions, read_rows

# A mean so many times the median is that of a few runs.
FAR_OFF = 1.2


def main() -> int:
    """Prints every panel that has results; exit code 1 if a file of results is none."""
    parser = argparse.ArgumentParser(description="Prints the results as Markdown tables.")
    parser.add_argument("--definitions", type=Path, default=Path("experiments"), help="folder of the TOML files")
    parser.add_argument("--results", type=Path, default=Path("experiments/results"), help="folder of the JSON lines")
    parser.add_argument("names", nargs="*", help="figures; without any all of them")
    flags = parser.parse_args()
    try:
        for path in definitions(flags.definitions):
            if not flags.names or path.stem in flags.names:
                print_figure(path, flags.results)
    except NotResultsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def print_figure(definition: Path, results: Path) -> None:
    """One table per panel."""
    figure = tomllib.loads(definition.read_text(encoding="utf-8"))
    for panel in figure.get("panel") or [{"name": "", "title": figure["experiment"]["title"]}]:
        path = results / f"{definition.stem}{panel['name']}.jsonl"
        if path.exists():
            print(f"\n**{path.stem}**: {panel['title']}\n")
            print("\n".join(table(definition.stem, figure["x"], aggregate(read_rows(path)))))


def table(figure: str, axis: dict, curves: dict[str, list[Point]]) -> list[str]:
    """The lines of a panel's table: a row per x."""
    if figure.startswith("table"):
        cells = {f"{name}: {what}": column for name in curves for what, column in fit_columns(curves[name]).items()}
    elif axis["key"] == "k":
        (points,) = curves.values()
        names = {"p50_us": "median", "p95_us": "p95", "p99_us": "p99", "worst_p99_us": "worst broker's p99"}
        cells = {name: [latency(point.latency_ms[key]) for point in points] for key, name in names.items()}
    else:
        cells = {name: [worst(point) for point in points] for name, points in curves.items()}
    xs = [f"{point.x:g}" for point in next(iter(curves.values()))]
    rows = [[x, *row] for x, row in zip(xs, zip(*cells.values(), strict=True), strict=True)]
    head = [axis["label"], *cells]
    return [line(head), line(["---:"] * len(head)), *map(line, rows)]


def fit_columns(points: list[Point]) -> dict[str, list[str]]:
    """Windows of each iteration, seconds, brokers."""
    return {
        "windows": [" + ".join(f"{rounds:.1f}" for rounds in point.rounds) for point in points],
        "seconds": [f"{point.fit_seconds.mean:.0f}" for point in points],
        "brokers": [point.brokers_label() for point in points],
    }


def worst(point: Point) -> str:
    """The worst broker's p99 (the median too where a few runs make the mean), brokers, runs that kept the promise."""
    spread = point.latency_ms["worst_p99_us"]
    median = f", median {number(spread.median)}" if spread.mean > FAR_OFF * spread.median else ""
    kept = {1.0: " ✓", 0.0: ""}.get(point.kept, f" {point.kept:.0%}")
    return f"{latency(spread)}{median} ({point.brokers_label()}){kept}"


def latency(spread: Spread) -> str:
    """Mean and deviation."""
    return f"{number(spread.mean)} ± {number(spread.deviation)}"


def number(value: float) -> str:
    """As many digits as say something."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def line(cells: list[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
