"""nsqadmin in front of the broker: what it shows and what its buttons do."""

import contextlib
import http.client
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from broker import Address, Broker
from deadlines import GENEROUS_S, wait_until
from raw_protocol import Connection


class Nsqadmin:
    """A running nsqadmin; actions are the requests that its pages send."""

    def __init__(self, address: Address) -> None:
        self.address = address

    def request(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        """One request, which must succeed without a warning about the broker."""
        connection = http.client.HTTPConnection(*self.address, timeout=GENEROUS_S)
        try:
            connection.request(method, path, body=None if document is None else json.dumps(document))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, body
        shown = json.loads(body)
        assert shown["message"] == "", body
        return shown

    def get(self, path: str) -> dict[str, Any]:
        """What a page shows."""
        return self.request("GET", path)

    def act(self, path: str, action: str) -> None:
        """What a button does."""
        self.request("POST", path, {"action": action})


@contextlib.contextmanager
def nsqadmin_of(broker: Broker, folder: Path) -> Iterator[Nsqadmin]:
    """A nsqadmin in front of one broker."""
    flags = ["-http-address=127.0.0.1:0", f"-nsqd-http-address={broker.http_text}"]
    with tools.running(folder, "nsqadmin", *flags) as program:
        bound = wait_until(lambda: re.search(r"HTTP: listening on (\S+):(\d+)", program.log()), "nsqadmin's address")
        yield Nsqadmin((bound[1], int(bound[2])))


@pytest.fixture(scope="module")
def nsqadmin(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nsqadmin]:
    with nsqadmin_of(broker, tmp_path_factory.mktemp("nsqadmin")) as admin:
        yield admin


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic with three messages waiting in the channel `reader`."""
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="reader")
    broker.post("/mpub", b"1\n2\n3", topic=topic)
    broker.wait_for_channel(topic, "reader", depth=3)
    return topic


def test_topics_are_listed(nsqadmin: Nsqadmin, filled: str) -> None:
    assert filled in nsqadmin.get("/api/topics")["topics"]


def test_a_topic_is_shown(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    shown = nsqadmin.get(f"/api/topics/{filled}")
    assert (shown["topic_name"], shown["message_count"], shown["depth"]) == (filled, 3, 0)
    (node,) = shown["nodes"]
    assert node["node"] == broker.http_text
    (channel,) = shown["channels"]
    assert (channel["channel_name"], channel["depth"], channel["message_count"]) == ("reader", 3, 3)


def test_a_channel_and_its_clients_are_shown(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    with Connection(broker.tcp) as consumer:
        consumer.identify(client_id="me", hostname="here", user_agent="suite/1")
        consumer.subscribe(filled, "reader", ready=1)
        consumer.next_message()
        broker.wait_for_channel(filled, "reader", in_flight_count=1)
        shown = nsqadmin.get(f"/api/topics/{filled}/reader")
        assert (shown["depth"], shown["in_flight_count"], shown["client_count"]) == (2, 1, 1)
        (client,) = shown["clients"]
        assert (client["client_id"], client["hostname"], client["user_agent"]) == ("me", "here", "suite/1")
        assert (client["ready_count"], client["in_flight_count"], client["message_count"]) == (1, 1, 1)


def test_percentiles_until_messages_are_finished_are_shown(
    start_broker: Callable[..., Broker], topic: str, tmp_path: Path
) -> None:
    broker = start_broker("-e2e-processing-latency-percentile=1.0,0.5")
    with Connection(broker.tcp) as consumer, nsqadmin_of(broker, tmp_path) as admin:
        consumer.subscribe(topic, "c", ready=1)
        broker.post("/pub", b"x", topic=topic)
        consumer.finish(consumer.next_message())
        broker.wait_for_channel(topic, "c", in_flight_count=0)
        for path in (f"/api/topics/{topic}", f"/api/topics/{topic}/c"):
            told = admin.get(path)["e2e_processing_latency"]
            shown = {each["quantile"]: each["average"] for each in told["percentiles"]}
            assert shown.keys() == {1, 0.5}
            assert min(shown.values()) > 0


def test_the_node_is_shown(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    (node,) = nsqadmin.get("/api/nodes")["nodes"]
    info = broker.get("/info").json()
    assert (node["broadcast_address"], node["tcp_port"], node["http_port"]) == (
        "127.0.0.1",
        broker.tcp[1],
        broker.http[1],
    )
    assert (node["version"], node["hostname"]) == (info["version"], info["hostname"])
    assert filled in [entry["topic"] for entry in node["topics"]]
    shown = nsqadmin.get(f"/api/nodes/{broker.http_text}")
    (entry,) = [entry for entry in shown["topics"] if entry["topic_name"] == filled]
    assert entry["message_count"] == 3


def test_messages_are_counted(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    stats = nsqadmin.get("/api/counter")["stats"]
    assert stats[f"{filled}:reader:{broker.http_text}"]["message_count"] == 3


def test_topic_buttons(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    def entry() -> dict[str, Any]:
        shown = broker.topic(filled)
        assert shown is not None
        return shown

    nsqadmin.act(f"/api/topics/{filled}", "pause")
    assert entry()["paused"] is True
    assert nsqadmin.get(f"/api/topics/{filled}")["paused"] is True
    broker.post("/pub", b"4", topic=filled)
    assert entry()["depth"] == 1
    nsqadmin.act(f"/api/topics/{filled}", "empty")
    assert entry()["depth"] == 0
    nsqadmin.act(f"/api/topics/{filled}", "unpause")
    assert entry()["paused"] is False
    nsqadmin.request("DELETE", f"/api/topics/{filled}")
    assert broker.topic(filled) is None


def test_channel_buttons(nsqadmin: Nsqadmin, broker: Broker, filled: str) -> None:
    nsqadmin.act(f"/api/topics/{filled}/reader", "pause")
    broker.wait_for_channel(filled, "reader", paused=True, depth=3)
    nsqadmin.act(f"/api/topics/{filled}/reader", "unpause")
    broker.wait_for_channel(filled, "reader", paused=False)
    nsqadmin.act(f"/api/topics/{filled}/reader", "empty")
    broker.wait_for_channel(filled, "reader", depth=0)
    nsqadmin.request("DELETE", f"/api/topics/{filled}/reader")
    assert broker.channel(filled, "reader") is None
