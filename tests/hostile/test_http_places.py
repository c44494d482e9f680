"""The places of an HTTP port: no address takes them from the others, and /ping and /metrics find one always."""

import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker import Broker, HttpAnswer
from crowd import OTHER, PATIENCE_S, STRANGER, Crowd, ask, metric
from daemons import Controller
from deadlines import wait_until
from lookup_service import Nsqlookupd
from siege import Force, Siege

PLACES = 1024
EVENT_STREAMS = 64


BEGINNINGS = {
    "nothing at all": b"",
    "half a head": b"GET /stats HTTP/1.1\r\nHost: localhost\r\nX-Half",
    "a body by the byte": b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
    "an unread answer, then idle": b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_who_keeps_a_broker_waiting_gives_way(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str, beginning: bytes
) -> None:
    broker = start_broker()
    with siege(broker) as attack, Crowd(broker.http) as crowd:
        crowd.grow(force.of(1500, 5000), beginning)
        attack.look()
        for source in STRANGER, OTHER:
            for path in "/ping", "/metrics", "/stats":
                assert ask(broker.http, "GET", path, source).status == 200, (path, source)
            assert ask(broker.http, "POST", f"/topic/create?topic={topic}", source).status == 200, source
        assert metric(broker.http, "http_gave_way_total") > 0


def half_bodies(crowd: Crowd, count: int, path: str, length: int) -> None:
    """Requests whose bodies never come, until one of them has been refused: the room for bodies is full."""
    request = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\nx"
    made = crowd.grow(count, request.encode())
    wait_until(lambda: select.select(made, [], [], 0)[0], "a body that is refused")


def is_taken(*request: Any) -> bool:
    """Whether a body is accepted at once, or soon: it may be refused while bodies of a crowd are still coming."""
    return any(ask(*request).status == 200 for _ in range(3))


def test_half_bodies_do_not_take_the_room_for_bodies(
    start_broker: Callable[..., Broker], controller: Controller, force: Force, topic: str
) -> None:
    broker = start_broker()
    with Crowd(broker.http) as crowd:
        # A size that divides the room, so that nothing of it is left.
        half_bodies(crowd, force.of(40, 400), f"/mpub?topic={topic}", 4 * 1024 * 1024)
        for source in STRANGER, OTHER:
            assert is_taken(broker.http, "POST", f"/pub?topic={topic}", source, b"x"), source
    with Crowd(controller.ports["api"]) as crowd:
        half_bodies(crowd, force.of(40, 400), f"/v1/topics/{topic}/publishers", 16 * 1024 * 1024)
        contract = b'{"limit":{"rate":10,"burst":5}}'
        for source in STRANGER, OTHER:
            assert is_taken(controller.ports["api"], "PUT", f"/v1/topics/{topic}", source, contract), source


def test_a_request_that_arrives_by_the_byte_is_served_while_places_are_free(
    start_broker: Callable[..., Broker],
) -> None:
    with socket.create_connection(start_broker().http, timeout=PATIENCE_S) as connection:
        for byte in b"POST /pub?topic=t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab":
            connection.sendall(bytes([byte]))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def hold_all_places(broker: Broker, topic: str, crowd: Crowd) -> HttpAnswer:
    """Takes all places that one address may have by requests that the broker itself keeps waiting, as their topic is
    full and paused; returns how a question that is not vital is refused then."""
    broker.post("/topic/create", topic=topic)
    broker.post("/topic/pause", topic=topic)
    broker.post("/pub", b"x", topic=topic)
    publish = f"POST /pub?topic={topic} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx".encode()
    crowd.grow(PLACES // 2, publish)

    def refusal() -> HttpAnswer | None:
        answer = ask(broker.http, "GET", "/stats")
        if answer.status == 503:
            return answer
        # The question took the place of a publish that was not held yet.
        crowd.grow(1, publish)
        return None

    return wait_until(refusal, "a refusal")


def test_a_reserve_answers_ping_and_metrics_when_all_places_are_served(
    start_broker: Callable[..., Broker], topic: str
) -> None:
    broker = start_broker("-mem-queue-size=1", "-disk-budget=0")
    with Crowd(broker.http) as served, Crowd(broker.http) as strangers:
        refused = hold_all_places(broker, topic, served)
        assert "/ping and /metrics" in refused.message()
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        # The reserve is no place to stay in either.
        strangers.grow(500, BEGINNINGS["half a head"])
        assert ask(broker.http, "GET", "/ping").body == b"OK"
        assert ask(broker.http, "GET", "/metrics").status == 200
        assert ask(broker.http, "POST", f"/topic/create?topic={topic}").status == 503
        assert metric(broker.http, "http_refused_total") >= 2
        assert metric(broker.http, "http_connections") >= PLACES // 2
        # The other half is for others.
        assert ask(broker.http, "GET", "/stats", OTHER).status == 200


EVENTS = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_event_streams_are_few_and_leave_the_api_alone(controller: Controller, force: Force) -> None:
    with Crowd(controller.ports["api"]) as crowd, Crowd(controller.ports["api"], OTHER) as others:
        count = force.of(200, 2000)
        statuses = [stream.recv(12) for stream in crowd.grow(count, EVENTS)]
        assert statuses.count(b"HTTP/1.1 200") == EVENT_STREAMS // 2
        assert statuses.count(b"HTTP/1.1 503") == count - EVENT_STREAMS // 2
        assert others.grow(1, EVENTS)[0].recv(12) == b"HTTP/1.1 200"
        assert metric(controller.ports["api"], "event_streams", "srtm_control") == EVENT_STREAMS // 2 + 1
        for path in "/ping", "/metrics", "/v1/topics":
            assert ask(controller.ports["api"], "GET", path).status == 200
    # Places of streams that have ended are free again.
    with Crowd(controller.ports["api"]) as crowd:
        wait_until(lambda: crowd.grow(1, EVENTS)[0].recv(12) == b"HTTP/1.1 200", "a stream")


@pytest.mark.parametrize("port", ["api", "lookup"])
def test_who_keeps_a_controller_waiting_gives_way(controller: Controller, force: Force, port: str) -> None:
    at = controller.ports[port]
    with Crowd(at) as crowd:
        crowd.grow(force.of(1500, 5000), BEGINNINGS["half a head"])
        for source in STRANGER, OTHER:
            assert ask(at, "GET", "/ping", source).status == 200, source
            assert ask(at, "GET", {"api": "/v1/topics", "lookup": "/topics"}[port], source).status == 200, source


def test_who_keeps_a_lookup_waiting_gives_way(tmp_path: Path, force: Force) -> None:
    lookup = Nsqlookupd(tmp_path)
    try:
        with Crowd(lookup.http) as crowd:
            crowd.grow(force.of(1500, 5000), BEGINNINGS["half a head"])
            for source in STRANGER, OTHER:
                assert ask(lookup.http, "GET", "/topics", source).status == 200, source
    finally:
        lookup.stop()
