"""Scenarios are refused where they cannot be, and say the same to limiter, network and record."""

import argparse
import dataclasses
import ipaddress
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import run
from limiter import settings
from scenario import SINKS, SOURCES, Bottleneck, Bulk, Scenario, Sessions
from targets import TARGETS, many_limiters

NETWORK = SimpleNamespace(sources_name="in", sinks_name="out")


def of(policy: str, *traffic: Bulk, sites: int = 2, **changed: object) -> Scenario:
    return Scenario("test", policy, sites, traffic, **changed)


def file_of(scenario: Scenario) -> dict:
    """The limiter's settings."""
    return tomllib.loads(settings(scenario, NETWORK, Path("record.jsonl"), 1.0))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policy": "fsp"}, "no policy 'fsp'"),
        ({"sites": 0}, "0 sites"),
        ({"sites": 5_000}, "5000 sites"),
        ({"traffic": (Bulk(2, 1),)}, "site 2"),
        ({"warmup_s": 60.0}, "warm-up"),
    ],
)
def test_scenarios_that_cannot_be_are_refused(changed: dict, said: str):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(of("fps", Bulk(0, 1)), **changed)


def test_every_part_has_addresses_of_its_own_within_those_of_its_limiter():
    scenario = of("fps", Bulk(0, 1), Bulk(1, 1), Bulk(0, 1), Bulk(299, 1), sites=300)
    sinks = [ipaddress.IPv4Address(scenario.sink_of(part)) for part in range(4)]
    sources = [ipaddress.IPv4Address(scenario.source_of(part)) for part in range(4)]
    assert len({*sinks, *sources}) == 8
    assert all(address in SINKS for address in sinks)
    assert all(address in SOURCES for address in sources)
    for part, sink in enumerate(sinks):
        homes = [site for site in range(300) if sink in ipaddress.IPv4Network(scenario.sinks_of(site))]
        assert homes == [scenario.traffic[part].site]


def test_a_central_limiter_stands_for_everything():
    scenario = of("crd", Bulk(0, 3), Bulk(1, 7))
    file = file_of(scenario)
    assert scenario.limiters == 1
    assert [site["destinations"] for site in file["site"]] == [[str(SINKS)]]
    assert file["class"][0]["limit"] == {"rate": "10.0 Mbps", "burst_bytes": 75_000, "policy": "grd"}


def test_settings_tell_the_network_of_the_parts_that_differ():
    traffic = (Bulk(0, 3, rtt_ms=100.0), Bulk(1, 7, rtt_ms=10.0, bottleneck=Bottleneck(2.0, 15.0)))
    file = file_of(of("fps", *traffic, gossip_loss=0.01))
    emulated = file["emulate"]
    assert emulated["delay_us"] == 5_000
    assert emulated["path"] == [{"destination": "10.32.0.1/32", "delay_us": 50_000}]
    assert emulated["bottleneck"] == [
        {"source": "10.16.1.1/32", "rate": "2.0 Mbps", "queue_bytes": 15_000, "at_s": 16.0}
    ]
    assert (emulated["gossip_delay_us"], emulated["gossip_loss"]) == (20_000, 0.01)
    assert len({site["gossip"] for site in file["site"]}) == 2


@pytest.mark.parametrize(("branching", "said"), [(None, "mesh"), (3, 3), (9, "mesh"), (50, "mesh")])
def test_telling_everybody_is_a_mesh(branching: int | None, said: object):
    scenario = of("fps", Bulk(0, 1), sites=10, branching=branching)
    assert file_of(scenario)["gossip"]["branches"] == said


def test_flows_of_a_start_begin_apart_and_in_mixed_order():
    scenario = of("fps", Bulk(0, 20), Bulk(1, 20), Bulk(1, 1, start_s=30.0, stop_s=99.0), stagger_s=0.01)
    starts = list(scenario.bulk_starts())
    assert [start_s for start_s, _, _ in starts] == pytest.approx([at * 0.01 for at in range(40)] + [30.0])
    assert starts[-1][1:] == (60.0, 2)
    first_half = [part for _, _, part in starts[:20]]
    assert 5 <= first_half.count(0) <= 15
    assert starts == list(scenario.bulk_starts())
    assert starts != list(dataclasses.replace(scenario, seed=2).bulk_starts())


def test_every_target_builds_and_can_be_recorded():
    for target in TARGETS.values():
        for policy in target.policies:
            for scenario in target.build(policy):
                described = json.loads(json.dumps(scenario.described(), allow_nan=False))
                assert described["policy"] == policy
                assert len(described["traffic"]) <= 7
                assert file_of(scenario)["class"][0]["limit"]["policy"] == scenario.limiter_policy
                assert list(scenario.bulk_starts()) or any(isinstance(part, Sessions) for part in scenario.traffic)


def test_flows_at_many_limiters_are_as_many_as_the_papers():
    flows = sum(part.flows for part in many_limiters("fps").traffic)
    assert 1_100 < flows < 1_350
    assert many_limiters("fps").traffic == many_limiters("ctb").traffic


def flags(*words: str) -> argparse.Namespace:
    return run.parse(["drl-fig5", *words])


def test_plans_run_the_policies_of_a_round_side_by_side():
    planned = list(run.plan(TARGETS["drl-fig5"], flags("--runs", "2", "--policies", "ctb,fps", "--seconds", "20")))
    assert [(round_, scenario.policy, scenario.seed) for round_, scenario in planned] == [
        (1, "ctb", 1),
        (1, "fps", 1),
        (2, "ctb", 2),
        (2, "fps", 2),
    ]
    assert {scenario.seconds for _, scenario in planned} == {20.0}


def test_recorded_commands_have_no_paths():
    said = run.command("drl-fig5", flags("--runs", "2", "--srtm", "/somewhere/srtm", "--results", "/elsewhere"))
    assert said == "experiments/testbed/run.py drl-fig5 --runs 2"


@pytest.mark.parametrize("words", [["--runs", "0"], ["--seconds", "-1"], ["--parallel", "x"]])
def test_flags_that_cannot_be_are_refused(words: list[str]):
    with pytest.raises(SystemExit):
        flags(*words)


def test_unknown_policies_are_named():
    with pytest.raises(ValueError, match="no policy 'abc'"):
        list(run.plan(TARGETS["drl-fig5"], flags("--policies", "abc")))
