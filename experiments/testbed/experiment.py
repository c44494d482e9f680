"""One run of a scenario: network, limiter, traffic, and the figures of it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import measure
from counts import Counts
from limiter import Limiter
from limiter_record import Record, read_record
from network import Network
from scenario import Bulk, Scenario
from traffic import Traffic

LEAD_S = 1.0
"""The traffic begins so long after the limiter."""

MOST_SERIES = 16
"""From this number of limiters or parts on, a result has totals and no series of each."""

SECOND_S = 1.0


def run(scenario: Scenario, program: Path, *, realtime: bool = True) -> dict[str, Any]:
    """Runs the scenario once; the `result` of its record."""
    scheduling = use_realtime() if realtime else "ordinary"
    network = Network(scenario.congestion)
    try:
        with tempfile.TemporaryDirectory(prefix="srtm-testbed-") as folder:
            return {"scheduling": scheduling, **_run_in(network, scenario, program, Path(folder))}
    finally:
        network.close()


def use_realtime() -> str:
    """Puts this process, and the limiter that it starts, before all ordinary ones, if it may; how it is scheduled then.

    Sources, sinks and limiters stand for machines of their own: what else this one does must not delay their packets.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return "ordinary"
    return "realtime"


def _run_in(network: Network, scenario: Scenario, program: Path, folder: Path) -> dict[str, Any]:
    limiter = Limiter(program, scenario, network, folder, LEAD_S)
    try:
        limiter.wait_until_ready()
        traffic = Traffic(scenario, network.sources, network.sinks)
        try:
            begin = limiter.started + LEAD_S
            late_s = time.monotonic() - begin
            if late_s > 0:
                raise OSError(f"the traffic was ready {late_s:.2f} s late: the machine is too busy")
            time.sleep(-late_s)
            counts = traffic.run(begin)
            limiter.stop()
        finally:
            traffic.close()
        return figures(scenario, counts, read_record(limiter.record_path, scenario, begin))
    finally:
        limiter.close()


def figures(scenario: Scenario, counts: Counts, record: Record) -> dict[str, Any]:
    """What the record of a run keeps of it."""
    return {
        **forwarding(scenario, record),
        **fairness(scenario, counts),
        **web(counts),
        "router": record.router,
        "limiter_cpu_s": round(record.cpu_s, 3),
        "traffic_cpu_s": round(counts.busy_s, 2),
    }


def forwarding(scenario: Scenario, record: Record) -> dict[str, Any]:
    """Rates at the limiters, in IP bytes as the limit counts them."""
    bin_s = scenario.record_ms / 1e3
    together = measure.summed(record.forwarded)
    over = {
        name: measure.spread(measure.rates_mbps(together, bin_s, window_s, scenario.warmup_s, scenario.seconds))
        for name, window_s in (("forwarded_mbps_1s", SECOND_S), ("forwarded_mbps_100ms", max(0.1, bin_s)))
    }
    seconds = scenario.seconds - scenario.warmup_s
    of_each = [
        sum(measure.rates_mbps(series, bin_s, SECOND_S, scenario.warmup_s, scenario.seconds)) / int(seconds)
        for series in record.forwarded
    ]
    series = record.forwarded if scenario.limiters <= MOST_SERIES else [together]
    limits = [of_one[:: round(SECOND_S / bin_s)] for of_one in record.local_limit_mbps]
    return {
        **{name: _rounded(spread) for name, spread in over.items()},
        "dropped_packets": sum(record.dropped_packets),
        "limiter_mbps": [round(rate, 4) for rate in of_each],
        "forwarded": {"bin_s": bin_s, "bytes": series},
        "local_limits": {"bin_s": SECOND_S, "mbps": limits if scenario.limiters <= MOST_SERIES else []},
    }


def fairness(scenario: Scenario, counts: Counts) -> dict[str, Any]:
    """Payload of the bulk flows at the sinks."""
    seconds = scenario.seconds - scenario.warmup_s
    rates: dict[int, list[float]] = {}
    for flow in counts.flows:
        rates.setdefault(flow.part, []).append(flow.bytes_in_window * 8 / seconds / 1e3)
    bulk = [rate for part in rates.values() for rate in part]
    together = measure.summed(counts.parts)
    parts = [together] if len(scenario.traffic) > MOST_SERIES else counts.parts
    whole_bins = slice(round(scenario.seconds / counts.bin_s))
    goodput = [measure.coarser(series[whole_bins], round(SECOND_S / counts.bin_s)) for series in parts]
    total = measure.mbps(sum(together[round(scenario.warmup_s / counts.bin_s) :]), seconds)
    return {
        "jain": round(measure.jain(bulk), 5) if bulk else None,
        "goodput_mbps": round(total, 4),
        "goodput": {"bin_s": SECOND_S, "bytes": goodput},
        "flows_kbps": _flows(scenario, rates),
        "flows_never_connected": sum(1 for flow in counts.flows if flow.connected_s is None),
        "reconnects": counts.reconnects,
    }


def _flows(scenario: Scenario, rates: dict[int, list[float]]) -> list[list[float]]:
    """Rates of the bulk flows by part; one list of all where there are many parts."""
    if len(scenario.traffic) > MOST_SERIES:
        return [[round(rate, 2) for part in rates.values() for rate in part]]
    return [
        [round(rate, 2) for rate in rates.get(number, [])]
        for number, part in enumerate(scenario.traffic)
        if isinstance(part, Bulk)
    ]


def web(counts: Counts) -> dict[str, Any]:
    """Web objects; nothing where there were none."""
    if not counts.downloads_begun:
        return {}
    return {
        "downloads": {
            "begun": counts.downloads_begun,
            "whole": len(counts.downloads),
            "failed": counts.downloads_failed,
            "refused": counts.downloads_refused,
            "rows": measure.web_rates_kbps((one.size_bytes, one.seconds) for one in counts.downloads),
        }
    }


def _rounded(spread: dict[str, float]) -> dict[str, float]:
    return {key: round(value, 4) for key, value in spread.items()}


def summary(scenario: Scenario, result: dict[str, Any]) -> str:
    """One line about a run, for who watches."""
    rate = result["forwarded_mbps_1s"]
    words = [
        f"{rate['mean']:6.2f} of {scenario.limit_mbps:g} Mbps (1 s: {rate['min']:.2f}..{rate['max']:.2f})",
        f"{result['dropped_packets']} dropped",
    ]
    if result["jain"] is not None:
        words.append(f"Jain {result['jain']:.3f}")
    if len(result["limiter_mbps"]) in range(2, 11):
        words.append("limiters " + _mbps_list(result["limiter_mbps"]))
    if "downloads" in result:
        words.append(f"{result['downloads']['whole']} downloads")
    return ", ".join(words)


def _mbps_list(rates: Sequence[float]) -> str:
    return " ".join(f"{rate:.2f}" for rate in rates)
