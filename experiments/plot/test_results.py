"""Aggregation and the refusal of files that are not whole."""

import json
from pathlib import Path

import pytest

from results import NotResultsError, Spread, aggregate, mean_rounds, read_rows
from tables import table


def row(series: str, x: float, repeat: int, p99_us: float, k: int = 1) -> dict:
    """A row with the keys that matter here."""
    latencies = {"p50_us": p99_us / 4, "p95_us": p99_us / 2, "p99_us": p99_us, "worst_p99_us": 2 * p99_us}
    return {"series": series, "x": x, "repeat": repeat, "k": k, "slo_us": 1000.0, **latencies}


def test_a_spread_is_mean_sample_deviation_and_median():
    assert Spread.of([1.0, 2.0, 3.0]) == Spread(2.0, 1.0, 2.0)
    assert Spread.of([5.0]) == Spread(5.0, 0.0, 5.0)


def test_repeats_become_points_and_series_curves_sorted_by_x():
    rows = [row("LB", 2000, 1, 900.0, 6), row("LB", 1000, 1, 1000.0, 6), row("LB", 1000, 2, 3000.0, 6)]
    curves = aggregate([*rows, row("Conc", 1000, 1, 500.0, 1), row("Conc", 1000, 2, 500.0, 2)])
    assert [point.x for point in curves["LB"]] == [1000, 2000]
    first = curves["LB"][0]
    assert first.latency_ms["p99_us"].mean == 2.0
    assert first.latency_ms["p99_us"].deviation == pytest.approx(2**0.5)
    assert first.latency_ms["worst_p99_us"].mean == 4.0
    assert (first.brokers_label(), curves["Conc"][0].brokers_label()) == ("6", "1.5")
    assert first.slo_ms == 1.0
    assert not first.is_quick
    assert (first.kept, curves["Conc"][0].kept) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rows"),
        ("{}\n", "line 1: k, p50_us"),
        ("nonsense\n", "line 1"),
        ("[]\n", "line 1"),
        (json.dumps(row("LB", 1, 1, 1.0)) + '\n{"ser', "not whole"),
    ],
)
def test_files_that_are_not_results_are_named(tmp_path: Path, text: str, said: str):
    path = tmp_path / "fig7a.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotResultsError, match=said):
        read_rows(path)


def test_whole_files_are_read(tmp_path: Path):
    path = tmp_path / "fig7a.jsonl"
    rows = [row("LB", 1, repeat, 1.0) for repeat in (1, 2)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert read_rows(path) == rows


def test_iterations_that_some_repeats_lack_count_as_none():
    assert mean_rounds([[3, 1], [5, 4, 1], []]) == pytest.approx([8 / 3, 5 / 3, 1 / 3])


def test_a_table_has_a_row_per_x():
    curves = aggregate([row("LB", x, 1, 1000.0 * x, 6) for x in (1, 2)] + [row("Conc", x, 1, 500.0) for x in (1, 2)])
    lines = table("fig7", {"label": "publishers", "key": "publishers.count"}, curves)
    assert lines[0] == "| publishers | LB | Conc |"
    assert lines[2:] == ["| 1 | 2.00 ± 0.00 (6) | 1.00 ± 0.00 (1) ✓ |", "| 2 | 4.00 ± 0.00 (6) | 1.00 ± 0.00 (1) ✓ |"]
