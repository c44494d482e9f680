"""Deliveries: RDY, who may answer, clients that leave, sampling, queues that are full, names that end in #ephemeral."""

from collections.abc import Callable

from broker import Broker
from deadlines import wait_until
from raw_protocol import Connection, sized


def test_messages_of_a_client_that_leaves_go_to_the_next(broker: Broker, topic: str) -> None:
    """At once or when they time out: nsqd waits for the timeout."""
    with Connection(broker.tcp) as leaving:
        leaving.identify(msg_timeout=1_000)
        leaving.subscribe(topic, "reader", ready=10)
        broker.post("/mpub", b"1\n2\n3", topic=topic)
        ids = {leaving.next_message().id for _ in range(3)}
    broker.wait_for_channel(topic, "reader", client_count=0)
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=10)
        messages = [consumer.next_message() for _ in range(3)]
    assert {message.id for message in messages} == ids
    assert {message.attempts for message in messages} == {2}


def test_cls_lets_messages_in_flight_be_finished(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/mpub", b"1\n2", topic=topic)
        message = consumer.next_message()
        consumer.send(b"CLS\n")
        consumer.expect_response(b"CLOSE_WAIT")
        consumer.touch(message)
        consumer.finish(message)
        broker.wait_for_channel(topic, "reader", in_flight_count=0, depth=1, requeue_count=0)


def test_only_the_owner_may_answer(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as owner, Connection(broker.tcp) as stranger:
        owner.subscribe(topic, "reader", ready=1)
        stranger.subscribe(topic, "reader")
        broker.post("/pub", b"x", topic=topic)
        message = owner.next_message()
        for command, code in ((stranger.finish, b"FIN"), (stranger.touch, b"TOUCH")):
            command(message)
            stranger.expect_error(b"E_%s_FAILED %s %s failed client does not own message" % (code, code, message.id))
        stranger.requeue(message, 0)
        stranger.expect_error(b"E_REQ_FAILED REQ %s failed client does not own message" % message.id)
        owner.finish(message)
        broker.wait_for_channel(topic, "reader", in_flight_count=0, depth=0)


def test_rdy_is_respected(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader")
        broker.post("/mpub", b"1\n2\n3\n4", topic=topic)
        broker.wait_for_channel(topic, "reader", depth=4, in_flight_count=0)
        consumer.send(b"RDY 2\n")
        first = consumer.next_message()
        consumer.next_message()
        broker.wait_for_channel(topic, "reader", depth=2, in_flight_count=2)
        consumer.finish(first)
        consumer.next_message()
        broker.wait_for_channel(topic, "reader", depth=1, in_flight_count=2)


def test_rdy_0_stops_deliveries(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/pub", b"1", topic=topic)
        consumer.finish(consumer.next_message())
        consumer.send(b"RDY 0\n")

        def stopped() -> bool:
            entry = broker.channel(topic, "reader")
            return entry is not None and entry["clients"][0]["ready_count"] == 0

        wait_until(stopped, "RDY 0 in /stats")
        broker.post("/pub", b"2", topic=topic)
        broker.wait_for_channel(topic, "reader", depth=1, in_flight_count=0)
        consumer.send(b"RDY 1\n")
        assert consumer.next_message().body == b"2"


def test_sample_rate(broker: Broker, topic: str) -> None:
    """A sampling consumer gets about its share; the rest is dropped from the channel, not kept."""
    with Connection(broker.tcp) as consumer:
        consumer.identify(sample_rate=50)
        consumer.subscribe(topic, "reader", ready=2_500)
        broker.post("/mpub", b"\n".join(b"%d" % i for i in range(2_000)), topic=topic)
        entry = broker.wait_for_channel(topic, "reader", depth=0, message_count=2_000)
        # 2,000 draws at one half: ten standard deviations to either side.
        assert 776 <= entry["in_flight_count"] <= 1_264
        assert entry["clients"][0]["sample_rate"] == 50


def test_an_ephemeral_channel_goes_with_its_last_client(broker: Broker, topic: str) -> None:
    first = Connection(broker.tcp)
    second = Connection(broker.tcp)
    first.subscribe(topic, "reader#ephemeral", ready=1)
    second.subscribe(topic, "reader#ephemeral", ready=1)
    first.close()
    broker.wait_for_channel(topic, "reader#ephemeral", client_count=1)
    second.close()
    wait_until(lambda: broker.channel(topic, "reader#ephemeral") is None, "the ephemeral channel gone")
    assert broker.topic(topic) is not None


def test_an_ephemeral_topic_goes_with_its_last_channel(broker: Broker, topic: str) -> None:
    name = f"{topic}#ephemeral"
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(name, "reader#ephemeral", ready=1)
        assert broker.topic(name) is not None
    wait_until(lambda: broker.topic(name) is None, "the ephemeral topic gone")


def test_a_requeue_delay_beyond_the_maximum_is_clamped(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/pub", b"x", topic=topic)
        consumer.requeue(consumer.next_message(), 99_999_999)
        broker.wait_for_channel(topic, "reader", deferred_count=1, requeue_count=1)


def test_a_full_queue_loses_nothing(start_broker: Callable[..., Broker]) -> None:
    """What a queue of 10 cannot hold is on disk, and comes."""
    own = start_broker("-mem-queue-size=10")
    bodies = {b"%d" % i for i in range(300)}
    with Connection(own.tcp) as publisher, Connection(own.tcp) as other, Connection(own.tcp) as consumer:
        own.post("/topic/create", topic="full")
        own.post("/channel/create", topic="full", channel="reader")
        publisher.send(b"".join(b"PUB full\n" + sized(body) for body in sorted(bodies)))
        wait_until(lambda: (own.channel("full", "reader") or {"depth": 0})["depth"] >= 10, "a full queue")
        # Another topic does not wait.
        other.publish("other", b"x")
        consumer.subscribe("full", "reader", ready=5)
        received = set()
        for _ in bodies:
            message = consumer.next_message()
            assert message.attempts == 1
            received.add(message.body)
            consumer.finish(message)
        assert received == bodies
        for _ in bodies:
            publisher.expect_response()
        own.wait_for_channel("full", "reader", depth=0, in_flight_count=0, message_count=300)
