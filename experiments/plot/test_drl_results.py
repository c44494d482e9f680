"""What pictures show of DRL's runs."""

import json
from pathlib import Path

import pytest

from drl_results import (
    branching_told,
    by_policy,
    mean_and_deviation,
    mean_mbps,
    rates_after_warmup,
    read_runs,
    series_mbps,
    settled_after_s,
    together,
)


def run(policy: str, round_: int, jain: float = 0.9, **work: object) -> dict:
    """A run of 4 s with two limiters, 1 Mbps each at first, then 2 and 3."""
    series = [[12_500] * 20 + [25_000] * 20, [12_500] * 20 + [37_500] * 20]
    workload = {
        "interval_ms": 50.0,
        "sites": 2,
        "limiters": 2,
        "seconds": 4.0,
        "warmup_s": 2.0,
        "limit_mbps": 5.0,
        **work,
    }
    result = {"jain": jain, "forwarded": {"bin_s": 0.1, "bytes": series}}
    head = {"kind": "drl-baseline", "peer": policy, "round": round_, "at_s": 0, "command": ""}
    return {**head, "workload": workload, "result": result}


def test_series_become_rates_over_windows():
    forwarded = run("fps", 1)["result"]["forwarded"]
    (times, rates), (_, others) = series_mbps(forwarded, 1.0)
    assert times == pytest.approx([1.0, 2.0, 3.0, 4.0])
    assert rates == pytest.approx([1.0, 1.0, 2.0, 2.0])
    assert others == pytest.approx([1.0, 1.0, 3.0, 3.0])
    ((_, sums),) = series_mbps(together(forwarded), 2.0)
    assert sums == pytest.approx([2.0, 5.0])


def test_sums_of_series_of_different_length_lose_nothing():
    assert together({"bin_s": 0.1, "bytes": [[1, 2, 3], [10]]}) == {"bin_s": 0.1, "bytes": [[11, 2, 3]]}


def test_only_what_came_after_the_warm_up_counts():
    assert rates_after_warmup([run("fps", 1), run("fps", 2)], 1.0) == pytest.approx([5.0] * 4)


def test_the_newest_run_of_a_scenario_and_round_counts(tmp_path: Path):
    runs = [run("fps", 2), run("fps", 1, jain=0.1), run("ctb", 1), run("fps", 1), run("fps", 1, interval_ms=500.0)]
    path = tmp_path / "drl-baseline.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in runs), encoding="utf-8")
    read = read_runs(tmp_path, "drl-baseline")
    assert [(one["peer"], one["round"], one["result"]["jain"]) for one in read] == [
        ("ctb", 1, 0.9),
        ("fps", 1, 0.9),
        ("fps", 1, 0.9),
        ("fps", 2, 0.9),
    ]
    assert list(by_policy(read)) == ["ctb", "fps"]
    assert read_runs(tmp_path, "drl-join") == []


def test_a_share_has_settled_where_its_mean_stays_near():
    steps = run("fps", 1)
    # 12 s at 1 Mbps, then at 3 Mbps with a second of nothing now and then.
    steps["result"]["forwarded"]["bytes"] = [[12_500] * 120 + ([37_500] * 40 + [50_000] * 5 + [25_000] * 5) * 4]
    assert mean_mbps(steps, 0, 0.0, 12.0) == pytest.approx(1.0)
    assert settled_after_s(steps, 0, 1.0, 0.0, 12.0) == 0.0
    assert settled_after_s(steps, 0, 3.0, 10.0, 30.0) == pytest.approx(1.3, abs=0.1)
    # It was near once, and did not stay.
    assert settled_after_s(steps, 0, 1.0, 0.0, 30.0) is None
    assert settled_after_s(steps, 0, 5.0, 0.0, 30.0) is None


@pytest.mark.parametrize(
    ("work", "told"),
    [
        ({"limiters": 50, "branching": 3}, ", br 3"),
        ({"limiters": 50, "branching": 3, "gossip": "udp"}, ", br 3"),
        ({"limiters": 50, "branching": 3, "gossip": "memory"}, ", exact sums"),
        ({"limiters": 4, "branching": 3}, ""),
        ({"limiters": 1, "branching": 1}, ""),
    ],
)
def test_whom_limiters_tell_is_said_where_it_is_not_everybody(work: dict, told: str):
    assert branching_told(run("fps", 1, **work)) == told


@pytest.mark.parametrize(("values", "said"), [([], "-"), ([2.5], "2.5"), ([1.0, 3.0], "2 ± 1.4")])
def test_values_are_said_with_their_deviation(values: list[float], said: str):
    assert mean_and_deviation(values) == said
