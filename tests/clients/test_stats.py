"""/stats: the fields, their order and their meaning, as nsqadmin and exporters read them."""

import re

from broker import Broker, stock_fields
from raw_protocol import Connection

TOP_FIELDS = ["version", "health", "start_time", "topics", "memory", "producers"]
TOPIC_FIELDS = [
    "topic_name",
    "channels",
    "depth",
    "backend_depth",
    "message_count",
    "message_bytes",
    "paused",
    "e2e_processing_latency",
]
CHANNEL_FIELDS = [
    "channel_name",
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "message_count",
    "requeue_count",
    "timeout_count",
    "client_count",
    "clients",
    "paused",
    "e2e_processing_latency",
]
CLIENT_FIELDS = [
    "client_id",
    "hostname",
    "version",
    "remote_address",
    "state",
    "ready_count",
    "in_flight_count",
    "message_count",
    "finish_count",
    "requeue_count",
    "connect_ts",
    "sample_rate",
    "deflate",
    "snappy",
    "user_agent",
    "tls",
    "tls_cipher_suite",
    "tls_version",
    "tls_negotiated_protocol",
    "tls_negotiated_protocol_is_mutual",
]


def test_fields_and_their_order(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as publisher:
        consumer.identify(client_id="me", hostname="here", user_agent="suite/1")
        consumer.subscribe(topic, "reader", ready=3)
        publisher.publish(topic, b"abc", b"de")
        consumer.finish(consumer.next_message())
        broker.wait_for_channel(topic, "reader", in_flight_count=1)

        stats = broker.stats()
        assert stock_fields(stats) == TOP_FIELDS
        assert stats["health"] == "OK"
        entry = broker.topic(topic)
        assert entry is not None
        assert stock_fields(entry) == TOPIC_FIELDS
        assert (entry["depth"], entry["backend_depth"], entry["message_count"], entry["message_bytes"]) == (0, 0, 2, 5)
        assert entry["e2e_processing_latency"] == {"count": 0, "percentiles": None}
        (channel,) = entry["channels"]
        assert stock_fields(channel) == CHANNEL_FIELDS
        assert channel["message_count"] == 2
        assert channel["client_count"] == 1
        (client,) = channel["clients"]
        assert stock_fields(client) == CLIENT_FIELDS
        assert (client["client_id"], client["hostname"], client["user_agent"]) == ("me", "here", "suite/1")
        assert (client["version"], client["state"], client["ready_count"]) == ("V2", 3, 3)
        assert (client["in_flight_count"], client["message_count"], client["finish_count"]) == (1, 2, 1)


def test_producers(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as publisher:
        publisher.identify(client_id="producer", hostname="here")
        publisher.publish(topic, b"a", b"b")
        publisher.publish_batch(topic, b"c", b"d", b"e")
        (producer,) = [p for p in broker.stats(topic=topic)["producers"] if p["client_id"] == "producer"]
        assert producer["pub_counts"] == [{"topic": topic, "count": 5}]


def test_filters(broker: Broker, topic: str) -> None:
    other = f"{topic}_other"
    for name in (topic, other):
        broker.post("/topic/create", topic=name)
        for channel in ("a", "b"):
            broker.post("/channel/create", topic=name, channel=channel)
    named = {entry["topic_name"] for entry in broker.stats()["topics"]}
    assert {topic, other} <= named
    (entry,) = broker.stats(topic=topic)["topics"]
    assert [channel["channel_name"] for channel in entry["channels"]] == ["a", "b"]
    (entry,) = broker.stats(topic=topic, channel="b")["topics"]
    assert [channel["channel_name"] for channel in entry["channels"]] == ["b"]
    assert not broker.stats(topic="none_such")["topics"]
    assert broker.stats(topic=topic, channel="none_such")["topics"] == []


def test_topics_are_sorted(broker: Broker, topic: str) -> None:
    for suffix in ("z", "a", "m"):
        broker.post("/topic/create", topic=f"{topic}_{suffix}")
    names = [entry["topic_name"] for entry in broker.stats()["topics"]]
    assert names == sorted(names)


def test_leaving_out_clients_and_memory(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader")
        for word in ("false", "0"):
            stats = broker.stats(topic=topic, include_clients=word, include_mem=word)
            assert stock_fields(stats) == [field for field in TOP_FIELDS if field != "memory"]
            (channel,) = stats["topics"][0]["channels"]
            assert (channel["client_count"], channel["clients"]) == (1, None)


def test_requeues_and_deferrals_are_counted(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/pub", b"x", topic=topic)
        consumer.requeue(consumer.next_message(), 0)
        again = consumer.next_message()
        assert again.attempts == 2
        consumer.requeue(again, 3_000_000)
        broker.wait_for_channel(topic, "reader", requeue_count=2, deferred_count=1, in_flight_count=0, depth=0)


def test_text(broker: Broker, topic: str) -> None:
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="reader")
    broker.post("/mpub", b"1\n2", topic=topic)
    broker.wait_for_channel(topic, "reader", depth=2)
    answer = broker.get("/stats", topic=topic)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    text = answer.body.decode()
    assert re.match(r"nsqd v1\.3\.0 .*\nstart_time \d{4}-\d\d-\d\dT\S+\nuptime \S+\n\nHealth: OK\n", text)
    assert "\nMemory:\n" in text
    assert re.search(rf"\n   \[{topic} *\] depth: 0     be-depth: 0     msgs: 2        e2e%: ", text)
    counts = "depth: 2     be-depth: 0     inflt: 0    def: 0    re-q: 0     timeout: 0     msgs: 2        e2e%: "
    assert re.search(rf"\n      \[reader {{19}}\] {counts}", text)
    assert "\nProducers: None\n" in text
    without_memory = broker.get("/stats", topic=topic, include_mem="false").body.decode()
    assert "Memory:" not in without_memory
