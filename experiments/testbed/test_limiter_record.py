"""A record becomes series that begin with the traffic."""

import json
from pathlib import Path

import pytest

from limiter_record import RecordError, read_record
from scenario import Bulk, Scenario

SCENARIO = Scenario("test", "fps", 2, (Bulk(0, 1),), seconds=0.4, warmup_s=0.1)


def interval(at_s: float, *forwarded: int) -> dict:
    """A line of the record."""
    return {
        "kind": "interval",
        "at_s": at_s,
        "class": "all",
        "forwarded_bytes": list(forwarded),
        "dropped_packets": [1] * len(forwarded),
        "local_limit": [125_000.0, None][: len(forwarded)],
    }


def written(path: Path, *lines: dict) -> Path:
    """The lines as a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


START = {"kind": "start", "monotonic_ns": 50_000_000_000, "sites": ["limiter-1", "limiter-2"]}
END = {"kind": "end", "cpu_s": 0.5, "late_mean_us": 12.0, "other": 1}


def test_series_begin_with_the_traffic_and_know_no_gaps(tmp_path: Path):
    # The traffic begins a second behind the limiter; one line is late and stands for two intervals.
    lines = [interval(0.9, 5, 5), interval(1.0, 7, 7), interval(1.1001, 10, 20), interval(1.31, 31, 40)]
    lines += [interval(1.4, 50, 60), interval(1.5, 70, 80)]
    record = read_record(written(tmp_path / "record.jsonl", START, *lines, END), SCENARIO, 51.0)
    assert record.forwarded == [[10, 15, 16, 50], [20, 20, 20, 60]]
    assert record.local_limit_mbps == [[1.0] * 4, [0.0] * 4]
    assert record.dropped_packets == [6, 6]
    assert record.router == {"late_mean_us": 12.0}
    assert record.cpu_s == 0.5


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "not whole"),
        ([START, interval(0.1, 1, 1)], "not whole"),
        ([START | {"sites": ["limiter-1"]}, END], "of 1 limiters, not of 2"),
    ],
)
def test_records_that_are_not_whole_are_refused(tmp_path: Path, lines: list[dict], said: str):
    with pytest.raises(RecordError, match=said):
        read_record(written(tmp_path / "record.jsonl", *lines), SCENARIO, 51.0)
