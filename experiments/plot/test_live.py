"""Which records count, and what the pictures show of them."""

import json
from pathlib import Path

import pytest

from live import curves, distribution, last_command, read_records
from results import NotResultsError


def record(kind: str, peer: str, round_: int, rate: float | None, **result: object) -> dict:
    """A record as the bench writes it, with the keys that matter here."""
    workload = {"topics": 1, "rate_per_publisher": rate}
    delays = {"mean_us": 1500.0, "rows": [{"up_to_us": 1000.0, "messages": 3}]}
    figures = {"received_per_second": 10.0, "delays": delays, **result}
    return {
        "kind": kind,
        "peer": peer,
        "round": round_,
        "at_s": 1,
        "command": "bench tempo rate",
        "workload": workload,
        "result": figures,
    }


def test_only_the_last_command_counts():
    first = [record("tempo-rate", "nsqd", 1, 1000.0, received_per_second=1.0)]
    second = [record("tempo-rate", "nsqd", round_, 1000.0, received_per_second=2.0) for round_ in (1, 2)]
    other = [record("tempo-topics", "nsqd", 1, 1000.0)]
    assert last_command([*first, *other, *second], "tempo-rate") == second
    assert last_command(first, "neighbour") == []


def test_another_command_line_begins_anew():
    short = record("tempo-rate", "nsqd", 1, 1000.0) | {"command": "bench tempo rate --rates 1000"}
    assert last_command([short, record("tempo-rate", "nsqd", 1, 2000.0)], "tempo-rate")[0]["workload"][
        "rate_per_publisher"
    ] == pytest.approx(2000.0)


def test_curves_are_medians_and_leave_out_what_has_no_place():
    records = [record("tempo-rate", "nsqd", round_, 1000.0, received_per_second=float(round_)) for round_ in (1, 2, 9)]
    records.append(record("tempo-rate", "nsqd", 1, None))
    drawn = curves(
        records, lambda one: one["workload"]["rate_per_publisher"], lambda result: result["received_per_second"]
    )
    assert drawn == {"nsqd": [(1000.0, 2.0)]}


def test_rows_of_a_distribution_are_added_up():
    records = [record("tempo-distribution", "srtm-peer", round_, 1000.0) for round_ in (1, 2)]
    assert distribution(records) == [(1000.0, 6)]


@pytest.mark.parametrize(("text", "said"), [("nonsense\n", "line 1"), ("{}\n", "line 1: at_s"), ("[]\n", "line 1")])
def test_files_that_are_not_results_are_named(tmp_path: Path, text: str, said: str):
    path = tmp_path / "tempo.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotResultsError, match=said):
        read_records(path)


def test_whole_files_are_read_and_missing_ones_are_empty(tmp_path: Path):
    path = tmp_path / "tempo.jsonl"
    records = [record("tempo-rate", "nsqd", 1, 1000.0)]
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    assert read_records(path) == records
    assert read_records(tmp_path / "none.jsonl") == []
