"""A stop with a data folder loses nothing and lasts no longer than the drain and the writing, whoever is connected."""

import time
from collections.abc import Callable

import pytest

from broker import Broker
from raw_protocol import Connection
from siege import Force

StartBroker = Callable[..., Broker]

IN_FLIGHT = 200
"""Messages that a stalled consumer has and never finishes."""


def publish_numbers(broker: Broker, topic: str, count: int) -> None:
    """Publishes so many messages; all are acknowledged when it returns."""
    with Connection(broker.tcp) as publisher:
        for first in range(0, count, 1_000):
            publisher.publish_batch(topic, *(b"%d" % number for number in range(first, min(first + 1_000, count))))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_million_queued_and_a_thousand_clients(
    start_broker: StartBroker, force: Force, topic: str, threads: int
) -> None:
    count, clients = force.of(100_000, 1_000_000), force.of(100, 1_000)
    drain_s = force.of(1, 5)
    flags = (f"-threads={threads}", f"-mem-queue-size={2 * count}", f"-drain-timeout={drain_s}s")
    broker = start_broker(*flags)
    for name in (topic, f"{topic}_stalled"):
        broker.post("/topic/create", topic=name)
        broker.post("/channel/create", topic=name, channel="c")
    publish_numbers(broker, topic, count)
    publish_numbers(broker, f"{topic}_stalled", 2 * IN_FLIGHT)
    # Nothing is on disk yet: all of it is written by the stop.
    assert broker.channel(topic, "c")["backend_depth"] == 0
    connected = [Connection(broker.tcp) for _ in range(clients)]
    for number, client in enumerate(connected):
        match number % 4:
            case 0:
                name, ready = (f"{topic}_stalled", IN_FLIGHT) if number == 0 else (topic, 0)
                client.subscribe(name, "c", ready=ready)
            case 1:
                client.publish(f"{topic}_small", b"x")
            case 2:
                client.subscribe(f"{topic}_idle", "c", ready=1)
            case _:
                client.identify()
    broker.wait_for_channel(f"{topic}_stalled", "c", in_flight_count=IN_FLIGHT, depth=IN_FLIGHT)
    broker.wait_for_channel(topic, "c", depth=count)
    began_s = time.monotonic()
    assert broker.stop() == 0
    print(f"\nthe stop took {time.monotonic() - began_s:.1f} s: {count} messages, {clients} clients, drain {drain_s} s")
    assert "ERROR" not in broker.log()
    for client in connected:
        client.close()

    again = start_broker(*flags)
    small = (clients + 2) // 4
    again.wait_for_channel(topic, "c", depth=count)
    assert again.topic(f"{topic}_small")["depth"] == small
    # In their order, the ones that were in flight first.
    with Connection(again.tcp) as consumer:
        consumer.subscribe(f"{topic}_stalled", "c", ready=100)
        for number in range(2 * IN_FLIGHT):
            message = consumer.next_message()
            assert message.body == b"%d" % number
            consumer.finish(message)


def test_consumers_that_go_on_do_not_keep_a_stop_that_loses_nothing(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-drain-timeout=500ms", "-mem-queue-size=5000")
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=2_500)
        publish_numbers(broker, topic, 2_500)
        broker.wait_for_channel(topic, "c", in_flight_count=2_500)
        broker.terminate()
        finished = 0
        # 250 s at this pace, with a message finished long before the drain's time is over.
        while broker.process.poll() is None and finished < 2_500:
            consumer.finish(consumer.next_message())
            finished += 1
            time.sleep(0.1)
    assert broker.stop() == 0
    assert finished < 2_500
    again = start_broker()
    kept = again.channel(topic, "c")["depth"]
    # A FIN that crossed the end has not counted; none of the others comes again.
    assert 2_500 - finished <= kept < 2_500
