"""The places of an HTTP port: no address takes them from the others, and /ping and /metrics find one always."""

import contextlib
import http.client
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Address, Broker, HttpAnswer
from controller_with_brokers import address, program
from deadlines import wait_until
from lookup_service import Nsqlookupd
from siege import Force, Siege

STRANGER, OTHER = "127.0.0.1", "127.0.0.2"

PATIENCE_S = 20.0
"""Less than a silent connection may stay where nobody needs its place: an answer that waits for that comes too late."""

PLACES = 1024
EVENT_STREAMS = 64


def ask(at: Address, method: str, path: str, source: str = STRANGER, body: bytes | None = None) -> HttpAnswer:
    """One exchange from an address of this machine."""
    connection = http.client.HTTPConnection(*at, timeout=PATIENCE_S, source_address=(source, 0))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class Crowd(contextlib.ExitStack):
    """Connections of one address that each begin the same and then say no more."""

    def __init__(self, at: Address, source: str = STRANGER) -> None:
        super().__init__()
        self.at, self.source = at, source

    def connect(self) -> socket.socket:
        """One more."""
        made = socket.create_connection(self.at, timeout=PATIENCE_S, source_address=(self.source, 0))
        return self.enter_context(made)

    def grow(self, count: int, beginning: bytes) -> list[socket.socket]:
        """So many more; one that had to give way meanwhile is no error here."""
        made = []
        for _ in range(count):
            connection = self.connect()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(beginning)
            made.append(connection)
        return made


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


def test_half_bodies_do_not_take_the_room_for_bodies(
    start_broker: Callable[..., Broker], controller: dict[str, Address], force: Force, topic: str
) -> None:
    broker = start_broker()
    with Crowd(broker.http) as crowd:
        # A size that divides the room, so that nothing of it is left.
        half_bodies(crowd, force.of(40, 400), f"/mpub?topic={topic}", 4 * 1024 * 1024)
        for source in STRANGER, OTHER:
            assert ask(broker.http, "POST", f"/pub?topic={topic}", source, b"x").status == 200, source
    with Crowd(controller["api"]) as crowd:
        half_bodies(crowd, force.of(40, 400), f"/v1/topics/{topic}/publishers", 16 * 1024 * 1024)
        contract = b'{"limit":{"rate":10,"burst":5}}'
        for source in STRANGER, OTHER:
            assert ask(controller["api"], "PUT", f"/v1/topics/{topic}", source, contract).status == 200, source


def metric(at: Address, name: str, prefix: str = "srtm") -> int:
    """A number of /metrics that has no labels."""
    lines = ask(at, "GET", "/metrics").body.decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"{prefix}_{name} ")]
    return int(float(value))


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


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[dict[str, Address]]:
    """Where a controller of the test's own answers HTTP: its API and its lookup."""
    ports = ["--http", "--link-address", "--lookup-tcp-address", "--lookup-http-address"]
    command = [program(), "controller", *(f"{port}=127.0.0.1:0" for port in ports)]
    log_path = tmp_path / "controller.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)

    def bound() -> dict[str, Address] | None:
        assert process.poll() is None, log_path.read_text()
        words = log_path.read_text().replace(",", "").split()
        if "(TCP)" not in words or "(HTTP)" not in words:
            return None
        api = words[words.index("HTTP") + 2]
        lookup = words[words.index("(HTTP)") - 1]
        return {"api": address(api), "lookup": address(lookup)}

    try:
        yield wait_until(bound, "the controller's addresses")
    finally:
        process.kill()
        process.wait()


EVENTS = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_event_streams_are_few_and_leave_the_api_alone(controller: dict[str, Address], force: Force) -> None:
    with Crowd(controller["api"]) as crowd, Crowd(controller["api"], OTHER) as others:
        count = force.of(200, 2000)
        statuses = [stream.recv(12) for stream in crowd.grow(count, EVENTS)]
        assert statuses.count(b"HTTP/1.1 200") == EVENT_STREAMS // 2
        assert statuses.count(b"HTTP/1.1 503") == count - EVENT_STREAMS // 2
        assert others.grow(1, EVENTS)[0].recv(12) == b"HTTP/1.1 200"
        assert metric(controller["api"], "event_streams", "srtm_control") == EVENT_STREAMS // 2 + 1
        for path in "/ping", "/metrics", "/v1/topics":
            assert ask(controller["api"], "GET", path).status == 200
    # Places of streams that have ended are free again.
    with Crowd(controller["api"]) as crowd:
        wait_until(lambda: crowd.grow(1, EVENTS)[0].recv(12) == b"HTTP/1.1 200", "a stream")


@pytest.mark.parametrize("port", ["api", "lookup"])
def test_who_keeps_a_controller_waiting_gives_way(controller: dict[str, Address], force: Force, port: str) -> None:
    at = controller[port]
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
