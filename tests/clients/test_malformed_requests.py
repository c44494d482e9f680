"""Malformed HTTP: the right status and message, nothing published, and nobody else disturbed."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from broker import Broker
from deadlines import GENEROUS_S
from malformed_commands import MAX_MSG_BYTES
from malformed_requests import ROWS, BadRequest
from neighbour import Neighbour
from raw_protocol import MAGIC


@pytest.fixture(scope="module")
def target_topic(broker: Broker) -> Iterator[str]:
    """A topic with a channel that every malformed request may name."""
    broker.post("/topic/create", topic="malformed_requests")
    broker.post("/channel/create", topic="malformed_requests", channel="reader")
    yield "malformed_requests"
    entry = broker.topic("malformed_requests")
    assert entry is not None
    assert (entry["message_count"], entry["paused"]) == (0, False)


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
def test_malformed_request(broker: Broker, neighbour: Neighbour, target_topic: str, row: BadRequest) -> None:
    headers = None if row.declared_bytes is None else {"Content-Length": str(row.declared_bytes)}
    body = row.body if row.declared_bytes is None else None
    answer = broker.request(row.method, row.target.replace("{topic}", target_topic), body, headers)
    assert (answer.status, answer.message()) == (row.status, row.message)
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"
    neighbour.still_works()


def raw_exchange(broker: Broker, request: bytes, *, end_sending: bool = False) -> bytes:
    """Sends bytes to the HTTP port and returns everything until the broker closes."""
    with socket.create_connection(broker.http, timeout=GENEROUS_S) as connection:
        received = b""
        # A broker that hangs up early may reset the connection; what it has answered counts.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        with contextlib.suppress(ConnectionResetError):
            if end_sending:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                received += chunk
        return received


@pytest.mark.parametrize("garbage", [b"GARBAGE\r\n\r\n", b"GET /ping\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"])
def test_not_http(broker: Broker, neighbour: Neighbour, garbage: bytes) -> None:
    assert raw_exchange(broker, garbage).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    neighbour.still_works()


@pytest.mark.srtm_only
@pytest.mark.parametrize("handshake", [MAGIC, MAGIC + b"IDENTIFY\n\0\0\0\2{}", MAGIC + b"SUB t c\n"])
def test_nsq_handshake_on_the_http_port(broker: Broker, neighbour: Neighbour, handshake: bytes) -> None:
    """nsqd waits in silence for the end of the request line."""
    assert raw_exchange(broker, handshake).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    neighbour.still_works()


def test_chunked_body_too_big(broker: Broker, neighbour: Neighbour, target_topic: str) -> None:
    """A body without a declared length is bounded while it is read."""
    head = (
        f"POST /pub?topic={target_topic} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n" % (MAX_MSG_BYTES + 1) + b"x" * (MAX_MSG_BYTES + 1) + b"\r\n0\r\n\r\n"
    answer = raw_exchange(broker, head.encode() + chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b'{"message":"MSG_TOO_BIG"}')
    neighbour.still_works()


def test_body_shorter_than_declared(broker: Broker, neighbour: Neighbour, target_topic: str) -> None:
    head = f"POST /pub?topic={target_topic} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n\r\n"
    answer = raw_exchange(broker, head.encode() + b"short", end_sending=True)
    assert not answer.startswith(b"HTTP/1.1 200")
    neighbour.still_works()


def test_pipelined_requests_are_answered_in_order(broker: Broker, target_topic: str) -> None:
    first = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    second = b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = raw_exchange(broker, first + second)
    assert answer.index(b"HTTP/1.1 200 OK") < answer.index(b"HTTP/1.1 404 Not Found")
