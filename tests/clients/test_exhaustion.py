"""What a broker does when something runs out: descriptors, connections, a subscriber's patience, room in a queue."""

import contextlib
import http.client
import os
import re
import resource
import socket
from collections.abc import Callable

import pytest

from broker import Broker
from deadlines import GENEROUS_S, wait_until
from raw_protocol import MAGIC, Connection

pytestmark = pytest.mark.srtm_only


def series(page: str, name: str) -> float:
    """The sum of a metric over its labels."""
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))


def test_without_descriptors_accepting_pauses_and_does_not_spin(
    start_broker: Callable[..., Broker], topic: str
) -> None:
    broker = start_broker()
    pid = broker.process.pid
    # A connection from before keeps its descriptor, so that the broker can be asked all the time.
    watcher = http.client.HTTPConnection(*broker.http, timeout=GENEROUS_S)

    def metrics() -> str:
        watcher.request("GET", "/metrics")
        return watcher.getresponse().read().decode()

    metrics()
    room = len(os.listdir(f"/proc/{pid}/fd")) + 4
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (room, room))
    clients = [socket.create_connection(broker.tcp, timeout=GENEROUS_S) for _ in range(20)]

    def backoffs() -> float:
        return series(metrics(), "srtm_reactor_accept_backoffs_total")

    wait_until(lambda: backoffs() >= 2, "the listener backs off")
    before = metrics()
    wait_until(lambda: backoffs() >= series(before, "srtm_reactor_accept_backoffs_total") + 3, "three more pauses")
    after = metrics()

    def grown(name: str) -> float:
        return series(after, name) - series(before, name)

    # Each question of ours costs a turn or two and comes some milliseconds after the last one; a spinning listener
    # makes tens of thousands of turns in the same time.
    assert grown("srtm_reactor_turns_total") < 500 * (grown("srtm_reactor_accept_backoffs_total") + 1)
    for client in clients:
        client.close()
    with Connection(broker.tcp) as connection:
        connection.publish(topic, b"after the storm")
    watcher.close()


def test_one_connection_too_many_is_closed_at_once(start_broker: Callable[..., Broker], topic: str) -> None:
    broker = start_broker("-max-connections=2")
    with Connection(broker.tcp) as first, Connection(broker.tcp) as second:
        for connection in (first, second):
            connection.publish(topic, b"x")
        # Closed with its magic unread or before that was sent: an end or a reset, but no answer.
        resets = contextlib.suppress(ConnectionResetError, BrokenPipeError)
        with resets, socket.create_connection(broker.tcp, timeout=GENEROUS_S) as third:
            third.sendall(MAGIC)
            assert third.recv(1) == b""
        first.publish(topic, b"still here")


def test_a_subscriber_that_stops_reading_is_dropped_and_its_messages_go_on(broker: Broker, topic: str) -> None:
    body = bytes(64 * 1024)
    with Connection(broker.tcp) as stuck:
        stuck.identify(heartbeat_interval=1_000)
        stuck.subscribe(topic, "reader", ready=2_000)
        with Connection(broker.tcp) as publisher:
            for _ in range(200):
                publisher.publish(topic, body)
        # It reads nothing: 12.8 MB fill its sockets, then its output, and a heartbeat interval later it is gone.
        broker.wait_for_channel(topic, "reader", client_count=0, in_flight_count=0)
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=200)
        seen = set()
        while len(seen) < 200:
            message = consumer.next_message()
            assert message.body == body
            seen.add(message.id)
            consumer.finish(message)


def test_a_full_queue_holds_its_publisher_back_until_there_is_room(
    start_broker: Callable[..., Broker], topic: str
) -> None:
    broker = start_broker("-mem-queue-size=10", "-disk-budget=0")
    with Connection(broker.tcp) as publisher, Connection(broker.tcp) as other:
        for number in range(10):
            publisher.publish(topic, b"%d" % number)
        # No channel yet, so ten is all that the topic holds; the next command waits, unanswered.
        publisher.send(b"PUB " + topic.encode() + b"\n" + (2).to_bytes(4, "big") + b"10")
        wait_until(
            lambda: (broker.topic(topic) or {})["srtm"]["held_publishers"] == 1,
            "the publisher is held back",
        )
        other.publish(f"{topic}_other", b"another topic is not held")
        other.subscribe(topic, "reader", ready=100)
        assert publisher.read_frame().data == b"OK"
        bodies = []
        for _ in range(11):
            message = other.next_message()
            bodies.append(message.body)
            other.finish(message)
        assert bodies == [b"%d" % number for number in range(11)]
