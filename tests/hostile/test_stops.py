"""A stop tells the truth: where nothing goes to disk, consumers that work get everything, and what is lost is told."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from broker import LOST, Broker
from controller_with_brokers import Cluster
from deadlines import GENEROUS_S, wait_until
from raw_protocol import Connection, FrameType, sized
from siege import Force

StartBroker = Callable[..., Broker]

IN_MEMORY = "-disk-budget=0"
"""Messages are in memory only."""


def publish_all(broker: Broker, topic: str, count: int) -> None:
    """Publishes so many messages; all are acknowledged when it returns."""
    with Connection(broker.tcp) as publisher:
        for first in range(0, count, 500):
            publisher.publish_batch(topic, *(b"%d" % number for number in range(first, min(first + 500, count))))


def finish_until_the_end(consumer: Connection, pause_s: float = 0.0) -> set[bytes]:
    """Finishes messages until the broker hangs up; the bodies."""
    bodies = set()
    while (frame := consumer.next_frame()) is not None:
        assert frame.type is FrameType.MESSAGE, frame
        time.sleep(pause_s)
        bodies.add(frame.data[26:])
        consumer.send(b"FIN " + frame.data[10:26] + b"\n")
    return bodies


def test_what_nobody_consumes_is_lost_and_said_so(start_broker: StartBroker, force: Force, topic: str) -> None:
    count = force.of(5_000, 1_000_000)
    broker = start_broker(f"-mem-queue-size={count}", IN_MEMORY)
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="archive")
    publish_all(broker, topic, count)
    publish_all(broker, f"{topic}_b", 7)
    publish_all(broker, f"{topic}_c#ephemeral", 7)
    assert broker.stop() == LOST
    lines = [line.partition("ERROR: ")[2] for line in broker.log().splitlines() if "ERROR: " in line]
    assert lines == [
        f"topic {topic}, channel archive: {count} messages are lost ({count} waited, 0 were deferred, 0 in flight)",
        f"topic {topic}_b: 7 messages are lost that no channel had yet",
        f"{count + 7} messages in all are lost: they were in memory only",
    ]
    assert f"the stop lost {count + 7} messages" in broker.log()


def test_a_stop_with_nothing_queued_succeeds(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-drain-timeout=1h")
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as idle:
        consumer.subscribe(topic, "c", ready=10)
        publish_all(broker, topic, 10)
        for _ in range(10):
            consumer.finish(consumer.next_message())
        broker.wait_for_channel(topic, "c", depth=0, in_flight_count=0)
        broker.terminate()
        consumer.expect_closed()
        idle.expect_closed()
    assert broker.stop() == 0
    assert "ERROR" not in broker.log()


def test_a_slow_consumer_is_drained_to_the_end(start_broker: StartBroker, force: Force, topic: str) -> None:
    count = force.of(1_000, 10_000)
    broker = start_broker("-drain-timeout=500ms", IN_MEMORY)
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c")
        publish_all(broker, topic, count)
        consumer.send(b"RDY 20\n")
        broker.terminate()
        bodies = finish_until_the_end(consumer, pause_s=0.001)
    assert bodies == {b"%d" % number for number in range(count)}
    assert broker.stop() == 0


def test_what_hangs_at_a_stalled_consumer_goes_to_a_good_one(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-drain-timeout=500ms", IN_MEMORY)
    with Connection(broker.tcp) as stalled, Connection(broker.tcp) as good:
        stalled.subscribe(topic, "c", ready=2_500)
        publish_all(broker, topic, 2_500)
        broker.wait_for_channel(topic, "c", in_flight_count=2_500)
        good.subscribe(topic, "c", ready=100)
        publish_all(broker, topic, 5_000)
        broker.terminate()
        assert len(finish_until_the_end(good)) == 5_000
    assert broker.stop() == 0


def test_a_stalled_channel_costs_nobody_else_anything(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-drain-timeout=500ms", "-mem-queue-size=1000", IN_MEMORY)
    with Connection(broker.tcp) as stalled, Connection(broker.tcp) as good:
        stalled.subscribe(topic, "stalled")
        good.subscribe(topic, "good", ready=100)
        # Half of them wait in the topic, behind the full channel.
        publish_all(broker, topic, 2_000)
        broker.terminate()
        assert len(finish_until_the_end(good)) == 2_000
    assert broker.stop() == LOST
    assert f"topic {topic}, channel stalled: 2000 messages are lost" in broker.log()


def test_nothing_is_acknowledged_any_more(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-drain-timeout=1h", "-mem-queue-size=10", IN_MEMORY)
    message = f"PUB {topic}\n".encode() + sized(b"too late")
    with Connection(broker.tcp) as held, Connection(broker.tcp) as both, Connection(broker.tcp) as idle:
        publish_all(broker, topic, 10)
        held.send(message)
        both.subscribe(f"{topic}_other", "c", ready=1)
        publish_all(broker, f"{topic}_other", 1)
        unfinished = both.next_message()
        wait_until(lambda: broker.topic(topic)["srtm"]["held_publishers"] == 1, "the publisher is held back")
        broker.terminate()
        # Held back until now, it hears that it was in vain.
        held.expect_error(b"E_PUB_FAILED PUB failed exiting")
        held.expect_closed()
        # Who consumes as well is refused and may finish what it has.
        both.send(message)
        both.expect_error(b"E_PUB_FAILED PUB failed exiting")
        idle.send(message)
        both.finish(unfinished)
        both.expect_closed()
        idle.expect_closed()
    assert broker.stop() == LOST
    assert "10 messages in all are lost" in broker.log()


def test_up_says_that_its_brokers_have_lost_messages(tmp_path: Path, topic: str) -> None:
    cluster = Cluster(tmp_path / "up")
    with Connection(cluster.tcp("b1")) as publisher:
        publisher.publish(topic, b"a", b"b")
    assert cluster.stop() == LOST
    log = cluster.log()
    assert f"topic {topic}: 2 messages are lost that no channel had yet" in log
    assert "broker b1 lost messages when it ended" in log


def test_a_second_signal_ends_up_and_its_brokers_at_once(tmp_path: Path, topic: str) -> None:
    cluster = Cluster(tmp_path / "up", "--drain-timeout", "1h", brokers=1)
    tasks = Path(f"/proc/{cluster.process.pid}/task").glob("*/children")
    brokers = [pid for task in tasks for pid in task.read_text().split()]
    assert len(brokers) == 1
    with Connection(cluster.tcp("b1")) as stalled, Connection(cluster.tcp("b1")) as publisher:
        stalled.subscribe(topic, "c")
        publisher.publish(topic, b"a")
        cluster.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping: consumers get queued messages" in cluster.log(), "the broker drains")
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(GENEROUS_S) == 130
    wait_until(lambda: not Path(f"/proc/{brokers[0]}").exists(), "the broker has ended")
