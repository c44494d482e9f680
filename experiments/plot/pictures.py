"""How pictures look, how their panels are laid out, and how they are saved: the same for all of them.

What is drawn into the panels is each picture's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PANEL_INCHES = (4.0, 3.0)
MOST_COLUMNS = 2
COLOURS = ("#c44e52", "#4c72b0", "#55a868", "#8172b2", "#ccb974", "#64b5cd")
MARKERS = ("s", "o", "^", "D")
STYLE = {
    # Equal results give equal files.
    "svg.hashsalt": "srtm",
    "font.size": 8,
    "legend.fontsize": 6,
    "legend.framealpha": 0.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def begin(out: Path) -> None:
    """Sets the style of everything that is drawn from here on, and makes the folder of the pictures."""
    plt.rcParams.update(STYLE)
    out.mkdir(parents=True, exist_ok=True)


def panels(rows: int, columns: int, inches: tuple[float, float] = PANEL_INCHES) -> tuple[Figure, list[list[Axes]]]:
    """A picture of panels of that size, and its axes by row."""
    width, height = inches
    picture, axes = plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False)
    return picture, axes.tolist()


def grouped_panels(
    counts: Sequence[int], inches: tuple[float, float] = PANEL_INCHES
) -> tuple[Figure, list[list[Axes]]]:
    """A picture with so many panels for each group, which begins a new row; the axes by group."""
    columns = min(max(counts), MOST_COLUMNS)
    heights = [-(-count // columns) for count in counts]
    picture, rows = panels(sum(heights), columns, inches)
    left = iter(rows)
    grouped = []
    for count, height in zip(counts, heights, strict=True):
        axes = list(itertools.chain(*itertools.islice(left, height)))
        for axis in axes[count:]:
            axis.set_visible(False)
        grouped.append(axes[:count])
    return picture, grouped


def draw_bound(axis: Axes, value: float, label: str | None = None) -> None:
    """A dotted line at what a limit or a promise says."""
    axis.axhline(value, color="black", linestyle=":", linewidth=0.8, label=label)


def save(picture: Figure, out: Path, name: str) -> None:
    """Writes the picture as SVG, says where, and lets go of it."""
    picture.tight_layout()
    target = out / f"{name}.svg"
    picture.savefig(target, metadata={"Date": None})
    plt.close(picture)
    print(target)
