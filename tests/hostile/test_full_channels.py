"""A channel that is full, or whose messages are all deferred, does not stop its topic for everybody else."""

import json
import re
from collections.abc import Callable
from typing import Any

from broker import Broker
from deadlines import wait_until
from raw_protocol import Connection, Frame, FrameType, sized
from siege import Force, Siege

StartBroker = Callable[..., Broker]
LayFor = Callable[[Broker], Siege]

TEN_MINUTES_MS = 600_000


def publish_all(publisher: Connection, topic: str, count: int) -> None:
    """Publishes so many messages, a hundred at a time, each batch acknowledged."""
    for first in range(0, count, 100):
        publisher.publish_batch(topic, *(b"%d" % number for number in range(first, first + 100)))


def consume(consumer: Connection, count: int) -> None:
    """Takes and finishes so many messages."""
    for _ in range(count):
        consumer.finish(consumer.next_message())


def answer_to(publisher: Connection, command: bytes) -> Frame:
    """Sends a command; the answer."""
    publisher.send(command)
    frame = publisher.next_frame()
    assert frame is not None
    return frame


def counts(broker: Broker, topic: str, channel: str) -> dict[str, Any]:
    """What `/stats` tells of a channel beyond nsqd's fields."""
    entry = broker.channel(topic, channel)
    assert entry is not None
    return entry["srtm"]


def series(broker: Broker, name: str, topic: str, channel: str) -> float:
    """A channel's sample in `/metrics`."""
    page = broker.get("/metrics").body.decode()
    found = re.search(rf'^{name}{{topic="{topic}",channel="{channel}"}} (\S+)$', page, re.MULTILINE)
    assert found, f"no {name} of {topic}/{channel}"
    return float(found[1])


def test_a_channel_that_nobody_consumes_stops_nobody(
    start_broker: StartBroker, siege: LayFor, force: Force, topic: str
) -> None:
    broker = start_broker("-mem-queue-size=1000", "-abandoned-after=500ms", "-disk-budget=0")
    messages = force.of(5_000, 100_000)
    with siege(broker) as attack, Connection(broker.tcp) as publisher, Connection(broker.tcp) as consumer:
        broker.post("/topic/create", topic=topic)
        broker.post("/channel/create", topic=topic, channel="nobody")
        consumer.subscribe(topic, "used", ready=2_500)
        for _ in range(messages // 1_000):
            publish_all(publisher, topic, 1_000)
            consume(consumer, 1_000)
            attack.look()
        shown = counts(broker, topic, "nobody")
        assert shown["full"] == "drops_oldest"
        assert shown["dropped_oldest_count"] == messages - 1_000
        assert series(broker, "srtm_channel_dropped_oldest_total", topic, "nobody") == messages - 1_000
        listed = broker.get("/v1/topics").json()["topics"]
        assert next(each for each in listed if each["name"] == topic)["full"] == {"nobody": "drops_oldest"}
        assert broker.log().count(f"channel nobody of topic {topic} is full with 1000 messages and has had no") == 1
        # What it has kept is the newest.
        with Connection(broker.tcp) as late:
            late.subscribe(topic, "nobody", ready=1)
            assert late.next_message().body == b"0"


def test_a_consumer_that_defers_everything_stops_nobody(
    start_broker: StartBroker, siege: LayFor, force: Force, topic: str
) -> None:
    broker = start_broker("-mem-queue-size=1000")
    messages = force.of(3_000, 20_000)
    with siege(broker) as attack, Connection(broker.tcp) as publisher, Connection(broker.tcp) as consumer:
        with Connection(broker.tcp) as defers:
            defers.subscribe(topic, "c", ready=2_500)
            for _ in range(messages // 1_000):
                publish_all(publisher, topic, 1_000)
                for _ in range(1_000):
                    defers.requeue(defers.next_message(), TEN_MINUTES_MS)
                attack.look()
            broker.wait_for_channel(topic, "c", deferred_count=messages)
        consumer.subscribe(topic, "c", ready=2_500)
        publish_all(publisher, topic, 2_000)
        consume(consumer, 2_000)
    broker.wait_for_channel(topic, "c", deferred_count=messages, depth=0)


def test_delayed_messages_beyond_the_bound_are_refused_and_fresh_ones_flow(
    start_broker: StartBroker, siege: LayFor, topic: str
) -> None:
    broker = start_broker("-mem-queue-size=100", "-max-deferred=200")
    with siege(broker), Connection(broker.tcp) as publisher, Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=100)
        delayed = f"DPUB {topic} {TEN_MINUTES_MS}\n".encode() + sized(b"later")
        with Connection(broker.tcp) as floods:
            accepted = 0
            while (frame := answer_to(floods, delayed)).type is FrameType.RESPONSE:
                accepted += 1
            # What waits in the topic's queue is not counted yet.
            assert 200 <= accepted <= 300
            assert frame.data.startswith(b"E_DPUB_FAILED") and b"channel c are deferred (limit 200)" in frame.data
            floods.expect_closed()
        refused = broker.request("POST", "/pub", b"later", topic=topic, defer=TEN_MINUTES_MS)
        assert (refused.status, "are deferred" in refused.message()) == (429, True)
        for _ in range(10):
            publish_all(publisher, topic, 100)
            consume(consumer, 100)
    entry = broker.wait_for_channel(topic, "c", deferred_count=accepted, depth=0)
    assert entry["message_count"] == 1_000 + accepted


def test_a_requeue_beyond_the_bound_leaves_the_message_in_flight(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-max-deferred=2")
    with Connection(broker.tcp) as publisher, Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=10)
        publisher.publish(topic, b"a", b"b", b"c")
        messages = [consumer.next_message() for _ in range(3)]
        for message in messages:
            consumer.requeue(message, TEN_MINUTES_MS)
        text = b"E_REQ_FAILED REQ " + messages[2].id + b" failed too many messages are deferred"
        frame = consumer.next_frame()
        assert frame is not None and frame.type is FrameType.ERROR and frame.data.startswith(text), frame
        entry = broker.wait_for_channel(topic, "c", deferred_count=2, in_flight_count=1)
        assert entry["srtm"]["refused_requeue_count"] == 1
        consumer.finish(messages[2])
        broker.wait_for_channel(topic, "c", deferred_count=2, in_flight_count=0, depth=0)


def declare(broker: Broker, topic: str, on_full: str) -> None:
    """Puts a contract into force."""
    answer = broker.request("PUT", f"/v1/topics/{topic}", json.dumps({"on_full": on_full}).encode())
    assert (answer.status, answer.json()["on_full"]) == (200, on_full)


def test_a_contract_lets_a_stalled_consumer_stop_nobody(start_broker: StartBroker, siege: LayFor, topic: str) -> None:
    broker = start_broker("-mem-queue-size=100", "-disk-budget=0")
    with siege(broker), Connection(broker.tcp) as publisher, Connection(broker.tcp) as stalled:
        stalled.subscribe(topic, "stalled")
        # By default it blocks: a channel and a topic full, then nobody is answered any more.
        publish_all(publisher, topic, 200)
        publisher.send(f"PUB {topic}\n".encode() + sized(b"waits"))
        wait_until(lambda: (broker.topic(topic) or {})["srtm"]["held_publishers"] == 1, "the publisher is held back")
        assert counts(broker, topic, "stalled")["full"] == "blocks"
        assert series(broker, "srtm_channel_blocking", topic, "stalled") == 1
        declare(broker, topic, "drop_oldest")
        publisher.expect_response()
        publish_all(publisher, topic, 1_000)
        wait_until(
            lambda: counts(broker, topic, "stalled")["dropped_oldest_count"] == 1_101, "all but the newest are gone"
        )
        assert counts(broker, topic, "stalled")["full"] == "drops_oldest"
        assert broker.topic(topic)["srtm"]["on_full"] == "drop_oldest"
    broker.stop()
    again = start_broker("-mem-queue-size=100", "-disk-budget=0")
    assert again.get(f"/v1/topics/{topic}").json()["on_full"] == "drop_oldest"
    unknown = again.request("PUT", f"/v1/topics/{topic}", b'{"on_full":"disk"}')
    assert (unknown.status, "one of block, drop_oldest" in unknown.json()["error"]) == (400, True)
    taken_back = again.request("DELETE", f"/v1/topics/{topic}")
    assert (taken_back.status, "on_full" in taken_back.json()) == (200, False)
