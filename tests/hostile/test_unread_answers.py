"""Clients that ask and do not read the answers: what they ask for waits in their sockets, not in its memory."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable

import pytest

from broker import Broker
from deadlines import GENEROUS_S, POLL_INTERVAL_S, wait_until
from raw_protocol import MAGIC, FrameType, sized
from raw_protocol import Connection as Peer
from siege import Force, Siege

PATIENT = b"IDENTIFY\n" + sized(b'{"heartbeat_interval":60000}')
HURRIED = b"IDENTIFY\n" + sized(b'{"heartbeat_interval":1000}')
SUBSCRIBED = b"SUB unread c\n"

ASKED = {
    "FIN": (SUBSCRIBED, b"FIN 0123456789abcdef\n"),
    "REQ": (SUBSCRIBED, b"REQ 0123456789abcdef 0\n"),
    "TOUCH": (SUBSCRIBED, b"TOUCH 0123456789abcdef\n"),
    "IDENTIFY": (b"", b"IDENTIFY\n" + sized(b'{"feature_negotiation":true}')),
    "PUB": (b"", b"PUB unread#ephemeral\n" + sized(b"x")),
    "MPUB": (b"", b"MPUB unread#ephemeral\n" + sized(struct.pack(">i", 1) + sized(b"x"))),
}


class Flooder:
    """A connection that says one thing again and again and never reads."""

    def __init__(self, broker: Broker, begin: bytes, words: bytes) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(GENEROUS_S)
        self.socket.connect(broker.tcp)
        self.socket.sendall(MAGIC + begin)
        self.socket.setblocking(False)
        self.chunk = words * (256 * 1024 // len(words))
        self.rest = self.chunk
        self.said_bytes = 0
        self.is_closed = False

    def speak(self) -> bool:
        """Says as much as fits; whether anything did."""
        try:
            count = self.socket.send(self.rest)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            self.is_closed = True
            return False
        self.said_bytes += count
        self.rest = self.rest[count:] or self.chunk
        return True


def metric(broker: Broker, name: str) -> float:
    """The sum of a series over its labels."""
    text = broker.get("/metrics").body.decode()
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@pytest.mark.parametrize("asked", ASKED)
def test_unread_answers_hold_back_who_does_not_read_them(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, asked: str
) -> None:
    broker = start_broker()
    begin, words = ASKED[asked]
    with siege(broker) as attack:
        flooders = [Flooder(broker, PATIENT + begin, words) for _ in range(force.of(4, 50))]
        ends_s = time.monotonic() + force.of(0, 4)
        is_held_back = False
        while not is_held_back or time.monotonic() < ends_s:
            said = [flooder.speak() for flooder in flooders]
            assert not any(flooder.is_closed for flooder in flooders), "they have a heartbeat interval"
            attack.look()
            if not any(said):
                time.sleep(POLL_INTERVAL_S)
                is_held_back = metric(broker, "srtm_reactor_unread_pauses_total") >= len(flooders)
    for flooder in flooders:
        flooder.socket.close()


@pytest.mark.parametrize("trickle_bytes", [0, 1, 100])
def test_who_hardly_reads_is_closed_and_counted(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], trickle_bytes: int
) -> None:
    broker = start_broker()
    with siege(broker) as attack:
        flooder = Flooder(broker, HURRIED + SUBSCRIBED, b"FIN 0123456789abcdef\n")

        def is_closed() -> bool:
            flooder.speak()
            if trickle_bytes:
                with contextlib.suppress(BlockingIOError, ConnectionResetError):
                    flooder.socket.recv(trickle_bytes)
            return flooder.is_closed

        wait_until(is_closed, "the broker to close it")
        attack.look()
        assert metric(broker, "srtm_reactor_unread_closed_total") == 1
    assert "it read less than an eighth of" in broker.log()


def test_who_reads_at_last_gets_every_answer(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker()
    flooder = Flooder(broker, PATIENT + SUBSCRIBED, b"FIN 0123456789abcdef\n")
    while metric(broker, "srtm_reactor_unread_pauses_total") == 0:
        flooder.speak()
    flooder.socket.setblocking(True)
    flooder.socket.settimeout(GENEROUS_S)
    peer = Peer.__new__(Peer)
    peer.socket, peer.buffered = flooder.socket, b""
    peer.expect_response()
    peer.expect_response()
    for _ in range(flooder.said_bytes // 21):
        frame = peer.read_frame()
        assert frame is not None and frame.type is FrameType.ERROR, frame
    peer.close()


def test_a_consumer_behind_still_finishes(start_broker: Callable[..., Broker], topic: str) -> None:
    """Messages alone fill an output too; what their consumer says of those that it has is heard meanwhile."""
    broker = start_broker()
    body = bytes(10_000)
    with Peer(broker.tcp) as publisher, Peer(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=2000)
        for _ in range(20):
            publisher.publish_batch(topic, *[body] * 100)
        first = consumer.next_message()
        wait_until(
            lambda: broker.channel(topic, "c")["depth"] > 0 or broker.topic(topic)["depth"] > 0,
            "the consumer's output to be full",
        )
        consumer.finish(first)
        wait_until(
            lambda: broker.channel(topic, "c")["clients"][0]["finish_count"] == 1,
            "the FIN to be heard while nothing is read",
        )
        for _ in range(1999):
            consumer.finish(consumer.next_message())
    broker.wait_for_channel(topic, "c", depth=0, in_flight_count=0)
