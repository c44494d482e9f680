"""Reads rows of results and aggregates them over repeats."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

PERCENTILES = ("p50_us", "p95_us", "p99_us", "worst_p99_us")


class NotResultsError(Exception):
    """A file that holds no rows of results."""


@dataclass(frozen=True)
class Spread:
    """Mean, sample deviation and median over repeats."""

    mean: float
    deviation: float
    median: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Deviation is 0 for a single value."""
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), deviation, statistics.median(values))


@dataclass(frozen=True)
class Point:
    """One point of a curve; latencies in milliseconds."""

    series: str
    x: float
    latency_ms: dict[str, Spread]
    brokers: Spread
    rounds: list[float]
    fit_seconds: Spread
    slo_ms: float
    kept: float
    is_quick: bool

    def brokers_label(self) -> str:
        """`4`, or `3.6` where repeats differ."""
        return f"{self.brokers.mean:.0f}" if self.brokers.deviation == 0 else f"{self.brokers.mean:.1f}"


def definitions(folder: Path) -> list[Path]:
    """The SRTM paper's figures in a folder of definitions; drl.py draws the others."""
    return [path for path in sorted(folder.glob("*.toml")) if not path.stem.startswith("drl-")]


def read_rows(path: Path) -> list[dict]:
    """The rows of a finished file; a line that is none is named."""
    text = path.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        raise NotResultsError(f"{path}: the last line has no end; the file is not whole")
    rows = parse_lines(path, text, {"series", "x", "k", "slo_us", *PERCENTILES})
    if not rows:
        raise NotResultsError(f"{path}: no rows")
    return rows


def parse_lines(path: Path, text: str, keys: set[str]) -> list[dict]:
    """The objects of JSON lines that each have these keys; a line that does not is named, as one of `path`."""
    objects = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            parsed = json.loads(line)
            missing = keys - parsed.keys()
        except (json.JSONDecodeError, AttributeError) as error:
            raise NotResultsError(f"{path}, line {number}: {error}") from error
        if missing:
            raise NotResultsError(f"{path}, line {number}: {', '.join(sorted(missing))} missing")
        objects.append(parsed)
    return objects


def mean_rounds(repeats: list[list[int]]) -> list[float]:
    """Windows of each iteration, in the mean over all repeats; one that was over before counts as 0."""
    longest = max((len(rounds) for rounds in repeats), default=0)
    return [sum(rounds[at] for rounds in repeats if at < len(rounds)) / len(repeats) for at in range(longest)]


def aggregate(rows: list[dict]) -> dict[str, list[Point]]:
    """Curves by series, in the order of the rows; points by x."""
    groups: dict[tuple[str, float], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["series"], row["x"]), []).append(row)
    curves: dict[str, list[Point]] = {}
    for (series, x), repeats in groups.items():
        point = Point(
            series=series,
            x=x,
            latency_ms={key: Spread.of([row[key] / 1e3 for row in repeats]) for key in PERCENTILES},
            brokers=Spread.of([row["k"] for row in repeats]),
            rounds=mean_rounds([row.get("rounds", []) for row in repeats]),
            fit_seconds=Spread.of([row.get("fit_seconds", 0) for row in repeats]),
            slo_ms=repeats[0]["slo_us"] / 1e3,
            kept=statistics.fmean(row["worst_p99_us"] <= row["slo_us"] for row in repeats),
            is_quick=any(row.get("quick", False) for row in repeats),
        )
        curves.setdefault(series, []).append(point)
    for curve in curves.values():
        curve.sort(key=lambda point: point.x)
    return curves
