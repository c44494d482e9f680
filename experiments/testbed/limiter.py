"""`srtm limiter` as the router of one experiment: its file of settings, its process, its record."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from libc import end_with_parent
from network import INNER, OUTER, Network
from scenario import Scenario

GOSSIP_PORT = 4700
CLASS = "all"

READY_DEADLINE_S = 30.0
END_DEADLINE_S = 20.0
POLL_S = 0.02


class LimiterError(Exception):
    """The limiter did not start, or ended by itself; says what it said last."""


def settings(scenario: Scenario, network: Network, record: Path, lead_s: float) -> str:
    """The limiter's TOML file. Its time runs `lead_s` ahead of the traffic's."""
    every = scenario.mesh_or_branching
    lines = [
        f"record = {_text(record)}",
        f"record_interval_ms = {scenario.record_ms:.0f}",
        "[[tun]]",
        f"inner = {{ name = {_text(INNER)}, netns = {_text(network.sources_name)} }}",
        f"outer = {{ name = {_text(OUTER)}, netns = {_text(network.sinks_name)} }}",
        "[[class]]",
        f"name = {_text(CLASS)}",
        f'limit = {{ rate = "{scenario.limit_mbps} Mbps", burst_bytes = {scenario.depth_bytes}, '
        f"policy = {_text(scenario.limiter_policy)} }}",
        "[gossip]",
        f"transport = {_text(scenario.gossip)}",
        f"branches = {every if every < scenario.limiters - 1 else _text('mesh')}",
        f"interval_ms = {scenario.interval_ms:.0f}",
        f"ewma_1s = {scenario.ewma}",
        f"seed = {scenario.seed}",
        "[emulate]",
        f'link = "{scenario.link_mbps} Mbps"',
        f"delay_us = {_each_way_us(min(part.rtt_ms for part in scenario.traffic))}",
        f"gossip_delay_us = {scenario.gossip_delay_ms * 1e3:.0f}",
        f"gossip_loss = {scenario.gossip_loss}",
    ]
    return "\n".join((*lines, *_sites(scenario), *_parts(scenario, lead_s))) + "\n"


def _sites(scenario: Scenario) -> Iterator[str]:
    for limiter in range(scenario.limiters):
        yield "[[site]]"
        yield f"name = {_text(site_name(limiter))}"
        yield f"destinations = [{_text(scenario.sinks_of(limiter))}]"
        yield f"gossip = {_text(f'127.1.{limiter // 256}.{limiter % 256}:{GOSSIP_PORT}')}"


def _parts(scenario: Scenario, lead_s: float) -> Iterator[str]:
    """What is the network's for some parts of the traffic and not for others."""
    usual_ms = min(part.rtt_ms for part in scenario.traffic)
    for number, part in enumerate(scenario.traffic):
        if part.rtt_ms != usual_ms:
            yield "[[emulate.path]]"
            yield f"destination = {_text(scenario.sink_of(number) + '/32')}"
            yield f"delay_us = {_each_way_us(part.rtt_ms)}"
        if part.bottleneck:
            yield "[[emulate.bottleneck]]"
            yield f"source = {_text(scenario.source_of(number) + '/32')}"
            yield f'rate = "{part.bottleneck.mbps} Mbps"'
            yield f"queue_bytes = {part.bottleneck.queue_bytes}"
            yield f"at_s = {part.bottleneck.from_s + lead_s}"


def site_name(limiter: int) -> str:
    """What a limiter is called in settings and record."""
    return f"limiter-{limiter + 1}"


def _text(value: object) -> str:
    return json.dumps(str(value))


def _each_way_us(rtt_ms: float) -> int:
    return round(rtt_ms * 1e3 / 2)


class Limiter:
    """The process, in the router's namespace."""

    def __init__(self, program: Path, scenario: Scenario, network: Network, folder: Path, lead_s: float) -> None:
        self.record_path = folder / "record.jsonl"
        self._said = folder / "limiter.txt"
        file = folder / "limiter.toml"
        file.write_text(settings(scenario, network, self.record_path, lead_s), encoding="utf-8")
        with self._said.open("wb") as said, network.router.inside():
            self._process = subprocess.Popen(
                [str(program), "limiter", "--config", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )
        self.started = time.monotonic()

    def wait_until_ready(self) -> None:
        """Waits until packets pass."""
        end = self.started + READY_DEADLINE_S
        while "ready" not in self._said.read_text(errors="replace"):
            self.check()
            if time.monotonic() > end:
                raise LimiterError(f"srtm limiter is not ready after {READY_DEADLINE_S:.0f} s: {self._last_words()}")
            time.sleep(POLL_S)

    def check(self) -> None:
        """Fails if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise LimiterError(f"srtm limiter ended with {code}: {self._last_words()}")

    def stop(self) -> None:
        """Ends it, so that its record is whole."""
        self.check()
        self._process.terminate()
        try:
            code = self._process.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.close()
            raise LimiterError(f"srtm limiter does not end: {self._last_words()}") from None
        if code not in (0, -signal.SIGTERM):
            raise LimiterError(f"srtm limiter ended with {code}: {self._last_words()}")

    def close(self) -> None:
        """Ends it whatever happens."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _last_words(self) -> str:
        return self._said.read_text(errors="replace").strip()[-2_000:]
