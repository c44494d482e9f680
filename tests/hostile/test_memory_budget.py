"""Bytes are bounded, not only messages: large bodies without a consumer, halves of commands, HTTP bodies; and memory
that is not needed any more goes back to the system."""

import contextlib
import socket
from collections.abc import Callable

import pytest

from broker import Broker
from deadlines import GENEROUS_S, wait_until
from raw_protocol import MAGIC, Connection, batch, sized
from siege import Force, Siege, resident_bytes
from test_unread_answers import metric

MIB = 1024 * 1024


def used_bytes(broker: Broker, part: str) -> float:
    """What a part of the budget holds."""
    return of_part(broker, "srtm_memory_used_bytes", part)


def of_part(broker: Broker, name: str, part: str) -> float:
    """The value of a series of a part of the budget."""
    text = broker.get("/metrics").body.decode()
    line = next(line for line in text.splitlines() if line.startswith(f'{name}{{part="{part}"}}'))
    return float(line.rsplit(" ", 1)[1])


class Pusher:
    """A connection that sends as much as is taken, and reads nothing."""

    def __init__(self, broker: Broker, begin: bytes, data: bytes, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(GENEROUS_S)
        if receive_buffer_bytes is not None:
            # Before it connects: a window that shrinks makes the kernels drop what they promised to take, and wait.
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.connect(broker.tcp)
        self.socket.sendall(MAGIC + begin)
        self.socket.setblocking(False)
        self.data = memoryview(data)
        self.sent = 0
        self.is_closed = False

    def push(self) -> bool:
        """Sends some; whether any was taken."""
        if self.is_closed or self.sent == len(self.data):
            return False
        try:
            self.sent += self.socket.send(self.data[self.sent :])
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            self.is_closed = True
            return False
        return True


def test_messages_without_a_consumer_are_bounded_by_bytes(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str
) -> None:
    """The publishers of the topic that fills the memory wait; those of another do not."""
    broker = start_broker("-memory-budget=48MiB", "-disk-budget=0")
    # A first command of that size would have to wait for room among strangers.
    commands = b"NOP\n" + (f"PUB {topic}\n".encode() + sized(bytes(MIB - 1))) * force.of(30, 100)
    with siege(broker) as attack:
        pushers = [Pusher(broker, b"", commands) for _ in range(force.of(4, 40))]
        while of_part(broker, "srtm_memory_waits_total", "bodies") == 0 or any([each.push() for each in pushers]):
            for pusher in pushers:
                pusher.push()
            attack.look()
        assert used_bytes(broker, "bodies") <= 25 * MIB
        with Connection(broker.tcp) as other:
            other.publish(f"{topic}_small", *[bytes(1000)] * 50)
        stored = broker.topic(topic)["message_count"]
        with Connection(broker.tcp) as consumer:
            consumer.subscribe(topic, "c", ready=1)
            for _ in range(stored + 4):
                consumer.finish(consumer.next_message())
        attack.look()
    assert not any(pusher.is_closed for pusher in pushers)
    for pusher in pushers:
        pusher.socket.close()


def test_halves_of_commands_are_bounded(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str
) -> None:
    broker = start_broker("-memory-budget=64MiB")
    whole = f"MPUB {topic}\n".encode() + sized(batch(*[bytes(MIB - 100)] * 5))
    half = whole[:-10]
    hurried = b"IDENTIFY\n" + sized(b'{"heartbeat_interval":1000}')
    with siege(broker) as attack:
        pushers = [Pusher(broker, hurried, half) for _ in range(force.of(40, 300))]
        while not all(pusher.is_closed for pusher in pushers[:2]):
            for pusher in pushers:
                pusher.push()
                with contextlib.suppress(BlockingIOError, ConnectionResetError):
                    if pusher.sent == len(half):
                        pusher.is_closed = pusher.is_closed or not pusher.socket.recv(4096)
            attack.look()
            assert used_bytes(broker, "input") + used_bytes(broker, "pieces") <= 17 * MIB
        assert of_part(broker, "srtm_memory_waits_total", "input") > 0
        assert metric(broker, "srtm_reactor_half_closed_total") >= 2
        for pusher in pushers:
            pusher.socket.close()
        with Connection(broker.tcp) as good:
            good.publish_batch(topic, *[bytes(MIB - 100)] * 4)
    wait_until(lambda: used_bytes(broker, "input") + used_bytes(broker, "pieces") == 0, "the halves to be forgotten")


def test_outputs_are_full_earlier_where_many_are_not_read(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force
) -> None:
    broker = start_broker("-memory-budget=40MiB")
    with siege(broker) as attack:
        peers = force.of(30, 60)
        asked = (b"IDENTIFY\n" + sized(b'{"feature_negotiation":true}')) * 250_000
        pushers = [Pusher(broker, b"", asked, receive_buffer_bytes=4096) for _ in range(peers)]
        while metric(broker, "srtm_reactor_unread_pauses_total") < peers:
            for pusher in pushers:
                pusher.push()
            attack.look()
        assert used_bytes(broker, "output") <= (8 + peers * 64 / 1024) * MIB
    for pusher in pushers:
        pusher.socket.close()
    wait_until(lambda: used_bytes(broker, "output") == 0, "the outputs to be forgotten")


def test_http_bodies_count_too(start_broker: Callable[..., Broker], topic: str) -> None:
    broker = start_broker("-memory-budget=48MiB")
    head = f"POST /mpub?topic={topic} HTTP/1.1\r\nHost: x\r\nContent-Length: {5 * MIB}\r\n\r\n".encode()
    halves = [socket.create_connection(broker.http, timeout=GENEROUS_S) for _ in range(3)]
    for each in halves:
        each.sendall(head)
    answers = []
    for each in halves:
        each.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            answers.append(each.recv(4096))
    assert any(b"503" in answer and b"BUSY" in answer for answer in answers), answers
    for each in halves:
        each.close()
    wait_until(lambda: used_bytes(broker, "input") == 0, "the halves to be forgotten")
    broker.post("/mpub", b"x\ny", topic=topic)


def test_memory_goes_back_to_the_system(start_broker: Callable[..., Broker], force: Force, topic: str) -> None:
    broker = start_broker("-mem-queue-size=1000000", "-memory-budget=2GiB", "-disk-budget=0")
    before = resident_bytes(broker.process.pid)
    messages, body = force.of(60_000, 300_000), bytes(2000)
    with Connection(broker.tcp) as publisher:
        for _ in range(messages // 1000):
            publisher.publish_batch(topic, *[body] * 1000)
    full = resident_bytes(broker.process.pid)
    assert full - before > messages * 2000
    broker.post("/topic/empty", topic=topic)
    wait_until(
        lambda: resident_bytes(broker.process.pid) - before < (full - before) / 5,
        "the memory to go back to the system",
    )
    assert used_bytes(broker, "bodies") < 4 * MIB


def test_a_budget_that_holds_no_command_is_refused(start_broker: Callable[..., Broker]) -> None:
    for budget, text in (("1MiB", "eight times --max-body-size"), ("much", "`much` is not a size; use 512MiB")):
        with pytest.raises(AssertionError, match=text):
            start_broker(f"-memory-budget={budget}")


def test_a_batch_as_large_as_allowed_still_passes(start_broker: Callable[..., Broker], topic: str) -> None:
    broker = start_broker("-memory-budget=40MiB")
    with Connection(broker.tcp) as publisher:
        publisher.send(f"MPUB {topic}\n".encode() + sized(batch(*[bytes(MIB - 100)] * 4)))
        publisher.expect_response()
