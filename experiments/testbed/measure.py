"""Figures of a run from bytes that were counted: rates, fairness. Pure arithmetic."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

WEB_CLASSES = ((0, 5_000), (5_000, 50_000), (50_000, 500_000), (500_000, None))
"""Sizes of web objects in bytes, as table 1 groups them."""


def jain(rates: Sequence[float]) -> float:
    """Jain's index of fairness (section 4.1): 1 if all are equal, 1/k if one of k has everything, 0 for none."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 0.0


def mbps(byte_count: float, seconds: float) -> float:
    """Megabits per second."""
    return byte_count * 8 / seconds / 1e6


def rates_mbps(series: Sequence[int], bin_s: float, window_s: float, from_s: float, to_s: float) -> list[float]:
    """Rates over windows one after the other, from bytes per bin. A last window that is not whole does not count.

    A window is a whole number of bins.
    """
    bins = round(window_s / bin_s)
    if bins < 1 or abs(bins * bin_s - window_s) > 1e-9:
        raise ValueError(f"a window of {window_s} s is no whole number of bins of {bin_s} s")
    first, last = round(from_s / bin_s), min(round(to_s / bin_s), len(series))
    return [mbps(sum(series[at : at + bins]), window_s) for at in range(first, last - bins + 1, bins)]


def summed(series: Iterable[Sequence[int]]) -> list[int]:
    """Bin by bin; shorter ones count as 0 at their end."""
    several = list(series)
    longest = max((len(one) for one in several), default=0)
    return [sum(one[at] for one in several if at < len(one)) for at in range(longest)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, deviation of the sample, median and ends."""
    return {
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
    }


def web_rates_kbps(downloads: Iterable[tuple[int, float]]) -> list[dict[str, float | int | None]]:
    """Harmonic mean of the rates of downloads (bytes, seconds), by size as in table 1."""
    known = list(downloads)
    rows: list[dict[str, float | int | None]] = []
    for least, below in WEB_CLASSES:
        of_class = ((size, seconds) for size, seconds in known if least <= size and (below is None or size < below))
        rates = [size * 8 / seconds / 1e3 for size, seconds in of_class]
        mean = statistics.harmonic_mean(rates) if rates else None
        rows.append({"from_bytes": least, "below_bytes": below, "downloads": len(rates), "kbps": mean})
    return rows


def coarser(series: Sequence[int], bins: int) -> list[int]:
    """Sums of so many bins each; the last one may be of fewer."""
    return [sum(series[at : at + bins]) for at in range(0, len(series), bins)]
