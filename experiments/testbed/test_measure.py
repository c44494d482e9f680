"""Rates, fairness and distributions, by figures that can be checked by hand."""

import random

import pytest

from measure import coarser, jain, mbps, rates_mbps, spread, summed, web_rates_kbps
from scenario import Sizes


@pytest.mark.parametrize(
    ("rates", "index"),
    [
        ([1.0, 1.0, 1.0, 1.0], 1.0),
        ([4.0, 0.0, 0.0, 0.0], 0.25),
        # The paper's example: nine share, one has nothing.
        ([1.0] * 9 + [0.0], 0.9),
        ([1.0, 3.0], 16 / 20),
        ([0.0, 0.0], 0.0),
        ([5.0], 1.0),
    ],
)
def test_jain(rates: list[float], index: float):
    assert jain(rates) == pytest.approx(index)
    assert jain([7 * rate for rate in rates]) == pytest.approx(index)


def test_rates_are_of_whole_windows_in_the_range():
    series = [125_000] * 10 + [250_000] * 10 + [1]
    assert mbps(125_000, 0.1) == pytest.approx(10.0)
    assert rates_mbps(series, 0.1, 1.0, 0.0, 2.1) == pytest.approx([10.0, 20.0])
    assert rates_mbps(series, 0.1, 0.1, 0.9, 1.1) == pytest.approx([10.0, 20.0])
    assert rates_mbps(series, 0.1, 1.0, 1.5, 2.0) == []
    with pytest.raises(ValueError, match="whole number"):
        rates_mbps(series, 0.1, 0.25, 0.0, 1.0)
    with pytest.raises(ValueError, match="whole number"):
        rates_mbps(series, 0.1, 0.05, 0.0, 1.0)


def test_sums_go_to_the_end_of_the_longest():
    assert summed([[1, 2, 3], [10, 20]]) == [11, 22, 3]
    assert summed([]) == []


def test_spread_of_one_value_has_no_deviation():
    assert spread([2.0]) == {"mean": 2.0, "deviation": 0.0, "median": 2.0, "min": 2.0, "max": 2.0}
    assert spread([1.0, 3.0])["deviation"] == pytest.approx(2**0.5)


def test_web_rates_are_harmonic_means_by_size():
    rows = web_rates_kbps([(1_000, 1.0), (1_000, 4.0), (5_000, 1.0), (600_000, 8.0)])
    assert [row["downloads"] for row in rows] == [2, 1, 0, 1]
    assert rows[0]["kbps"] == pytest.approx(2 / (1 / 8 + 1 / 2))
    assert rows[2]["kbps"] is None
    assert rows[3]["kbps"] == pytest.approx(600.0)


def test_coarser_bins_lose_nothing():
    assert coarser([1, 2, 3, 4, 5], 2) == [3, 7, 5]


def test_sizes_keep_their_ends_and_their_mean():
    sizes = Sizes(least_bytes=1_000, most_bytes=10_000, shape=1.1)
    chance = random.Random(1)
    drawn = [sizes.draw(chance) for _ in range(50_000)]
    assert 1_000 <= min(drawn) < 1_010
    assert 9_500 < max(drawn) <= 10_000
    assert sum(drawn) / len(drawn) == pytest.approx(sizes.mean_bytes(), rel=0.02)
    # What table 1 shows of the paper's web traffic: about 1.9 Mbps from 15 requests per second.
    assert 15 * Sizes().mean_bytes() * 8 / 1e6 == pytest.approx(1.9, abs=0.1)
