"""A short run through `srtm limiter`: nothing is measured for keeps, only that the parts fit."""

import os
from pathlib import Path

import pytest

import experiment
import run
from network import why_impossible
from scenario import Bulk, Scenario


@pytest.fixture
def program() -> Path:
    """The program under test: SRTM's value, or what was built last."""
    if reason := why_impossible():
        pytest.skip(reason)
    found = Path(os.environ["SRTM"]) if "SRTM" in os.environ else run.program_built()
    if found is None or not found.is_file():
        pytest.skip("there is no srtm: build it (cargo build -p srtm) or set SRTM")
    return found


@pytest.mark.parametrize("policy", ["ctb", "fps"])
def test_flows_share_the_limit(program: Path, policy: str):
    scenario = Scenario("smoke", policy, 2, (Bulk(0, 1), Bulk(1, 2)), seconds=10.0, warmup_s=4.0)
    result = experiment.run(scenario, program, realtime=False)
    # Wide, for the machine may be busy: what has no limit forwards ten times as much.
    assert 7.0 < result["forwarded_mbps_1s"]["mean"] < 11.0
    assert result["dropped_packets"] > 50
    assert len(result["forwarded"]["bytes"]) == len(result["limiter_mbps"]) == scenario.limiters
    assert result["flows_never_connected"] == 0
    assert [len(part) for part in result["flows_kbps"]] == [1, 2]
    assert result["router"]["unplaced_packets"] == 0
    # Every flow gets something; how much is for experiments to say.
    assert result["jain"] > 0.4
