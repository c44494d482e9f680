"""A process that has no descriptors left: it costs little, tells how it fares, and goes on once there are some."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker import Address, Broker
from crowd import OTHER, STRANGER, Crowd, ask, metric, summed
from daemons import Controller, cpu_s, descriptors, leave_descriptors
from deadlines import wait_until
from lookup_service import Nsqlookupd, Peer, identify
from raw_protocol import MAGIC, Connection
from siege import Force

LEFT = 40
"""Descriptors that a process may still open when the attack begins."""

CROWD = 100

CORE_MAX = 0.1
"""Part of a core that a process without descriptors may use, when nobody asks it anything."""


def used_of_a_core(pid: int, force: Force) -> float:
    """The part of a core that a process uses."""
    began_s, began_cpu_s = time.monotonic(), cpu_s(pid)
    time.sleep(force.of(2, 10))
    return (cpu_s(pid) - began_cpu_s) / (time.monotonic() - began_s)


def all_are_taken(pid: int, limit: int) -> None:
    """Waits until a process has as many descriptors as it may."""
    wait_until(lambda: descriptors(pid) >= limit, f"{limit} descriptors are open")


def judge(pid: int, http: Address, force: Force, vital: tuple[str, ...], other: str) -> None:
    """Without descriptors it is at rest and tells how it fares."""
    used = used_of_a_core(pid, force)
    assert used <= CORE_MAX * force.of(2, 1), f"{used:.2f} of a core"
    for source in OTHER, STRANGER:
        for path in vital:
            answer = ask(http, "GET", path, source)
            assert answer.status == 200, (source, path, answer)
    assert ask(http, "GET", other, OTHER).status == 503


@pytest.mark.parametrize("threads", [1, 2])
def test_a_broker_without_descriptors(
    start_broker: Callable[..., Broker], force: Force, topic: str, threads: int
) -> None:
    broker = start_broker(f"-threads={threads}")
    pid = broker.process.pid
    with Connection(broker.tcp) as before:
        before.publish(topic, b"x")
        catalog = broker.data_path / "srtm.catalog.json"
        wait_until(lambda: catalog.exists() and topic in catalog.read_text(), "the topic is kept")
        limit = descriptors(pid) + LEFT
        leave_descriptors(pid, LEFT)
        with Crowd(broker.tcp, OTHER) as crowd:
            # These have said who they are, so nobody lets them go.
            crowd.grow(CROWD, MAGIC + b"NOP\n")
            all_are_taken(pid, limit)
            judge(pid, broker.http, force, ("/ping", "/metrics"), "/stats")
            # Who is there is served, who comes waits.
            before.publish(topic, b"x")
            assert summed(broker.http, "srtm_reactor_accept_backoffs_total") > 0
            assert metric(broker.http, "http_exhausted_total") > 0
            late = Connection(broker.tcp)
        # The first attempt is served.
        late.publish(topic, b"x")
        late.close()
        wait_until(lambda: ask(broker.http, "GET", "/stats").status == 200, "everything is answered again")
        before.publish(topic, b"x")
    assert broker.topic(topic)["message_count"] == 4


def test_a_crowd_at_the_http_port_of_a_broker_without_descriptors(
    start_broker: Callable[..., Broker], force: Force
) -> None:
    broker = start_broker()
    pid = broker.process.pid
    limit = descriptors(pid) + LEFT
    leave_descriptors(pid, LEFT)
    with Crowd(broker.http, OTHER) as crowd:
        crowd.grow(CROWD, b"")
        all_are_taken(pid, limit)
        for source in OTHER, STRANGER:
            for _ in range(force.of(3, 30)):
                assert ask(broker.http, "GET", "/ping", source).body == b"OK"
        assert metric(broker.http, "http_exhausted_total") > 0
    wait_until(lambda: ask(broker.http, "GET", "/stats").status == 200, "everything is answered again")


def test_a_controller_without_descriptors(controller: Controller, force: Force) -> None:
    pid = controller.process.pid
    limit = descriptors(pid) + LEFT
    leave_descriptors(pid, LEFT)
    at = controller.ports["api"]
    with Crowd(controller.ports["lookup_tcp"], OTHER) as crowd:
        crowd.grow(CROWD, b"  V1" + identify())
        all_are_taken(pid, limit)
        judge(pid, at, force, ("/ping", "/metrics"), "/v1/topics")
        assert metric(at, "http_exhausted_total", "srtm_control") > 0
    wait_until(lambda: ask(at, "GET", "/v1/topics").status == 200, "everything is answered again")
    with Peer(controller.ports["lookup_tcp"]) as peer:
        peer.identify()


def test_a_lookup_without_descriptors(tmp_path: Path, force: Force) -> None:
    lookup = Nsqlookupd(tmp_path)
    pid = lookup.process.pid
    try:
        limit = descriptors(pid) + LEFT
        leave_descriptors(pid, LEFT)
        with Crowd(lookup.tcp, OTHER) as crowd:
            crowd.grow(CROWD, b"  V1" + identify())
            all_are_taken(pid, limit)
            judge(pid, lookup.http, force, ("/ping",), "/topics")
        wait_until(lambda: ask(lookup.http, "GET", "/topics").status == 200, "everything is answered again")
        with Peer(lookup.tcp) as peer:
            peer.identify()
    finally:
        lookup.stop()
