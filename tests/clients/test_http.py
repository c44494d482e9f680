"""nsqd's HTTP surface: what scripts, dashboards and nsqadmin rely on."""

import http.client
import json
import re
import time

import pytest

from broker import Broker, stock_fields
from deadlines import GENEROUS_S
from raw_protocol import Connection, batch


def bodies_in(broker: Broker, topic: str, channel: str, count: int) -> list[bytes]:
    """Consumes that many messages."""
    bodies = []
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, channel, ready=1)
        for _ in range(count):
            message = consumer.next_message()
            consumer.finish(message)
            bodies.append(message.body)
        broker.wait_for_channel(topic, channel, depth=0, in_flight_count=0)
    return bodies


def make_channel(broker: Broker, topic: str, channel: str = "reader") -> None:
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel=channel)


def test_ping(broker: Broker) -> None:
    answer = broker.get("/ping")
    assert (answer.status, answer.body) == (200, b"OK")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_info(broker: Broker) -> None:
    answer = broker.get("/info")
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    info = answer.json()
    assert stock_fields(info) == [
        "version",
        "broadcast_address",
        "hostname",
        "http_port",
        "tcp_port",
        "start_time",
        "max_heartbeat_interval",
        "max_output_buffer_size",
        "max_output_buffer_timeout",
        "max_deflate_level",
    ]
    assert (info["broadcast_address"], info["tcp_port"], info["http_port"]) == (
        "127.0.0.1",
        broker.tcp[1],
        broker.http[1],
    )
    # Clients decide by this version what a broker can do.
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", info["version"])
    assert info["max_heartbeat_interval"] == 60_000_000_000


def test_pub(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    answer = broker.post("/pub", b"from http \0\xff", topic=topic)
    assert answer.body == b"OK"
    assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"
    assert bodies_in(broker, topic, "reader", 1) == [b"from http \0\xff"]


def test_pub_makes_the_topic(broker: Broker, topic: str) -> None:
    broker.post("/pub", b"x", topic=topic)
    entry = broker.topic(topic)
    assert entry is not None
    assert (entry["depth"], entry["message_count"], entry["message_bytes"]) == (1, 1, 1)


def test_pub_of_the_largest_message(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    largest = bytes(range(256)) * 4096
    broker.post("/pub", largest, topic=topic)
    assert bodies_in(broker, topic, "reader", 1) == [largest]


def test_pub_deferred(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    start = time.monotonic()
    broker.post("/pub", b"later", topic=topic, defer=700)
    broker.wait_for_channel(topic, "reader", deferred_count=1, depth=0)
    assert bodies_in(broker, topic, "reader", 1) == [b"later"]
    assert time.monotonic() - start >= 0.7


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (b"one\ntwo\nthree", [b"one", b"two", b"three"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"\n\none\n\n", [b"one"]),
        (b"with\r\nreturn", [b"with\r", b"return"]),
        (b"single", [b"single"]),
    ],
)
def test_mpub_of_lines(broker: Broker, topic: str, body: bytes, messages: list[bytes]) -> None:
    make_channel(broker, topic)
    assert broker.post("/mpub", body, topic=topic).body == b"OK"
    assert sorted(bodies_in(broker, topic, "reader", len(messages))) == sorted(messages)


@pytest.mark.parametrize("binary", ["true", "1", "yes"])
def test_mpub_binary(broker: Broker, topic: str, binary: str) -> None:
    make_channel(broker, topic)
    broker.post("/mpub", batch(b"a\nb", b"\0", b"c"), topic=topic, binary=binary)
    assert sorted(bodies_in(broker, topic, "reader", 3)) == [b"\0", b"a\nb", b"c"]


@pytest.mark.parametrize("binary", ["false", "0"])
def test_mpub_not_binary(broker: Broker, topic: str, binary: str) -> None:
    make_channel(broker, topic)
    broker.post("/mpub", b"a\nb", topic=topic, binary=binary)
    assert sorted(bodies_in(broker, topic, "reader", 2)) == [b"a", b"b"]


def test_mpub_of_nothing_publishes_nothing(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    broker.post("/mpub", b"\n\n", topic=topic)
    entry = broker.topic(topic)
    assert entry is not None
    assert entry["message_count"] == 0


def test_topic_and_channel_live_and_die(broker: Broker, topic: str) -> None:
    answer = broker.post("/topic/create", topic=topic)
    assert (answer.body, answer.headers["x-nsq-content-type"]) == (b"", "nsq; version=1.0")
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="a")
    broker.post("/channel/create", topic=topic, channel="a")
    broker.post("/channel/create", topic=topic, channel="b")
    entry = broker.topic(topic)
    assert entry is not None
    assert [channel["channel_name"] for channel in entry["channels"]] == ["a", "b"]
    broker.post("/channel/delete", topic=topic, channel="a")
    assert broker.channel(topic, "a") is None
    broker.post("/topic/delete", topic=topic)
    assert broker.topic(topic) is None


def test_deleting_a_channel_closes_its_consumers(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/channel/delete", topic=topic, channel="reader")
        consumer.expect_closed()


def test_every_channel_gets_every_message(broker: Broker, topic: str) -> None:
    make_channel(broker, topic, "a")
    make_channel(broker, topic, "b")
    broker.post("/mpub", b"1\n2\n3", topic=topic)
    assert sorted(bodies_in(broker, topic, "a", 3)) == [b"1", b"2", b"3"]
    assert sorted(bodies_in(broker, topic, "b", 3)) == [b"1", b"2", b"3"]


def test_messages_before_the_first_channel_are_its(broker: Broker, topic: str) -> None:
    broker.post("/mpub", b"1\n2", topic=topic)
    assert sorted(bodies_in(broker, topic, "first", 2)) == [b"1", b"2"]


def test_empty(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    broker.post("/mpub", b"1\n2\n3", topic=topic)
    broker.wait_for_channel(topic, "reader", depth=3)
    broker.post("/channel/empty", topic=topic, channel="reader")
    broker.wait_for_channel(topic, "reader", depth=0, message_count=3)
    broker.post("/topic/pause", topic=topic)
    broker.post("/mpub", b"4\n5", topic=topic)
    broker.post("/topic/empty", topic=topic)
    entry = broker.topic(topic)
    assert entry is not None
    assert entry["depth"] == 0
    broker.post("/topic/unpause", topic=topic)
    broker.post("/pub", b"6", topic=topic)
    assert bodies_in(broker, topic, "reader", 1) == [b"6"]


def test_emptying_a_channel_takes_back_what_is_in_flight(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        broker.post("/pub", b"1", topic=topic)
        dropped = consumer.next_message()
        broker.wait_for_channel(topic, "reader", in_flight_count=1)
        broker.post("/channel/empty", topic=topic, channel="reader")
        broker.wait_for_channel(topic, "reader", in_flight_count=0)
        consumer.finish(dropped)
        consumer.expect_error(b"E_FIN_FAILED FIN " + dropped.id + b" failed ID not in flight")
        broker.post("/pub", b"2", topic=topic)
        assert consumer.next_message().body == b"2"


def test_a_paused_channel_holds_its_messages(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=10)
        broker.post("/channel/pause", topic=topic, channel="reader")
        entry = broker.wait_for_channel(topic, "reader", paused=True)
        assert entry["client_count"] == 1
        broker.post("/pub", b"held", topic=topic)
        broker.wait_for_channel(topic, "reader", depth=1, in_flight_count=0)
        broker.post("/channel/unpause", topic=topic, channel="reader")
        assert consumer.next_message().body == b"held"
        broker.wait_for_channel(topic, "reader", paused=False, depth=0)


def test_a_paused_topic_holds_its_messages(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=10)
        broker.post("/topic/pause", topic=topic)
        broker.post("/pub", b"held", topic=topic)
        entry = broker.topic(topic)
        assert entry is not None
        assert (entry["paused"], entry["depth"], entry["channels"][0]["depth"]) == (True, 1, 0)
        broker.post("/topic/unpause", topic=topic)
        assert consumer.next_message().body == b"held"


def test_config(broker: Broker) -> None:
    assert broker.get("/config/nsqlookupd_tcp_addresses").json() == []
    assert broker.get("/config/mem_queue_size").json() == 10_000
    assert broker.get("/config/max_msg_size").json() == 1024 * 1024
    assert broker.get("/config/msg_timeout").json() == 60_000_000_000
    before = broker.get("/config/log_level")
    assert before.status == 200
    changed = broker.request("PUT", "/config/log_level", b"warn")
    assert (changed.status, changed.body) == (200, broker.get("/config/log_level").body)
    assert changed.body != before.body
    assert broker.request("PUT", "/config/log_level", b"info").body == before.body


def test_keep_alive(broker: Broker) -> None:
    """Two requests on one connection, the second after an error."""
    connection = http.client.HTTPConnection(*broker.http, timeout=GENEROUS_S)
    connection.request("POST", "/pub?topic=a/b", body=b"x")
    assert connection.getresponse().read() == json.dumps({"message": "INVALID_TOPIC"}, separators=(",", ":")).encode()
    connection.request("GET", "/ping")
    assert connection.getresponse().read() == b"OK"
    connection.close()
