"""The broker registers with nsqlookupds and learns from them which channels a new topic has, as nsqd does.

Tests run with the lookup service under test and with nsqlookupd itself, and pass with nsqd in the broker's place.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tools
from broker import Broker
from deadlines import GENEROUS_S, wait_until
from lookup_service import IDENTITY, PRODUCER_FIELDS, STOCK_VERSION, Nsqd, Nsqlookupd, Peer, post, text
from raw_protocol import sized

LINES = [f"line {i}" for i in range(100)]
MANY = "\n".join(LINES).encode()

StartBroker = Callable[..., Broker]


@pytest.fixture(params=["under test", "nsqlookupd"])
def lookup(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nsqlookupd]:
    """The lookup service under test, and the original."""
    program = tools.tool("nsqlookupd") if request.param == "nsqlookupd" else None
    service = Nsqlookupd(tmp_path / "lookup", program=program)
    yield service
    service.stop()


def registered(start: StartBroker, *services: Nsqlookupd) -> Broker:
    """A broker that is registered with all of these."""
    broker = start(*(f"-lookupd-tcp-address={text(service.tcp)}" for service in services))
    for service in services:
        wait_until(lambda service=service: service.node(tcp_port=broker.tcp[1]), "the broker in /nodes")
    return broker


def channels(service: Nsqlookupd, topic: str) -> list[str]:
    """Channels of a topic that the service knows."""
    return sorted(service.get("/channels", topic=topic)["channels"])


def test_what_comes_and_goes_is_told(lookup: Nsqlookupd, start_broker: StartBroker, topic: str) -> None:
    broker = registered(start_broker, lookup)
    broker.post("/topic/create", topic=topic)
    (producer,) = wait_until(lambda: lookup.producers(topic), "the topic")
    assert producer.keys() == PRODUCER_FIELDS
    address = ("127.0.0.1", broker.tcp[1], broker.http[1], STOCK_VERSION)
    assert tuple(producer[name] for name in ["broadcast_address", "tcp_port", "http_port", "version"]) == address
    for channel in ["c", "d"]:
        broker.post("/channel/create", topic=topic, channel=channel)
    wait_until(lambda: channels(lookup, topic) == ["c", "d"], "both channels")
    broker.post("/channel/delete", topic=topic, channel="c")
    # The service remembers the name; who has it is in /debug only.
    wait_until(lambda: not lookup.get("/debug").get(f"channel:{topic}:c"), "nobody with the channel")
    assert lookup.get("/debug")[f"channel:{topic}:d"]
    broker.post("/topic/delete", topic=topic)
    wait_until(lambda: lookup.producers(topic) == [], "nobody with the topic")


def test_broadcast_ports_are_what_is_told(lookup: Nsqlookupd, start_broker: StartBroker, topic: str) -> None:
    ports = ["-broadcast-tcp-port=7001", "-broadcast-http-port=7002"]
    broker = start_broker(f"-lookupd-tcp-address={text(lookup.tcp)}", *ports)
    broker.post("/topic/create", topic=topic)
    (producer,) = wait_until(lambda: lookup.producers(topic), "the topic")
    assert (producer["tcp_port"], producer["http_port"]) == (7001, 7002)


def test_a_new_topic_has_its_channels_before_its_first_message(
    lookup: Nsqlookupd, start_broker: StartBroker, topic: str
) -> None:
    broker = registered(start_broker, lookup)
    with Peer(lookup.tcp) as elsewhere:
        elsewhere.identify()
        for channel in ["c", "d", "e#ephemeral"]:
            elsewhere.register(topic, channel)
        broker.post("/mpub", MANY, topic=topic)
        for channel in ["c", "d"]:
            broker.wait_for_channel(topic, channel, depth=len(LINES))
        # Nobody reads it here, so it is not made.
        assert broker.channel(topic, "e#ephemeral") is None


def test_nsqds_can_be_replaced_one_at_a_time(
    start_broker: StartBroker, start_nsqd: Callable[..., Nsqd], topic: str, tmp_path: Path
) -> None:
    lookup = Nsqlookupd(tmp_path / "lookup", program=tools.tool("nsqlookupd"))
    try:
        nsqd, broker = start_nsqd(lookup), registered(start_broker, lookup)
        post(nsqd.http, "/topic/create", topic=topic)
        post(nsqd.http, "/channel/create", topic=topic, channel="archive")
        wait_until(lambda: channels(lookup, topic) == ["archive"], "the channel at nsqd")
        for address, part in [(nsqd.tcp, LINES[:30]), (broker.tcp, LINES[30:])]:
            stdin = "".join(f"{line}\n" for line in part).encode()
            tools.run("to_nsq", f"-nsqd-tcp-address={text(address)}", f"-topic={topic}", stdin=stdin)
        broker.wait_for_channel(topic, "archive", depth=len(LINES) - 30)
        wait_until(lambda: len(lookup.producers(topic) or []) == 2, "both as producers")
        flags = [f"-lookupd-http-address={text(lookup.http)}", f"-topic={topic}", "-channel=archive"]
        with tools.running(tmp_path, "nsq_tail", *flags, f"-n={len(LINES)}") as tail:
            assert tail.process.wait(timeout=GENEROUS_S) == 0, tail.log()
            assert sorted(tail.output().splitlines()) == sorted(LINES)
    finally:
        lookup.stop()


def test_the_list_changes_while_it_runs(
    lookup: Nsqlookupd, start_lookup: Callable[..., Nsqlookupd], start_broker: StartBroker, topic: str
) -> None:
    other = start_lookup()
    broker = registered(start_broker, lookup)
    option = "/config/nsqlookupd_tcp_addresses"
    assert broker.get(option).json() == [text(lookup.tcp)]
    answer = broker.request("PUT", option, json.dumps([text(other.tcp)]).encode())
    assert (answer.status, answer.json()) == (200, [text(other.tcp)])
    broker.post("/topic/create", topic=topic)
    wait_until(lambda: other.producers(topic), "the topic at the new one")
    wait_until(lambda: lookup.node(tcp_port=broker.tcp[1]) is None, "nothing at the former one")
    post(other.http, "/channel/create", topic=f"{topic}_b", channel="c")
    broker.post("/mpub", MANY, topic=f"{topic}_b")
    broker.wait_for_channel(f"{topic}_b", "c", depth=len(LINES))
    assert broker.request("PUT", option, b'"a:1"').status == 400


def test_a_lookup_that_is_away_holds_nothing_up(start_broker: StartBroker, topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        away = nobody.getsockname()[1]
    broker = start_broker(f"-lookupd-tcp-address=127.0.0.1:{away}")
    broker.post("/mpub", MANY, topic=topic)
    broker.post("/channel/create", topic=topic, channel="c")
    broker.wait_for_channel(topic, "c", depth=len(LINES))


def test_a_lookup_that_comes_back_is_told_everything(
    start_lookup: Callable[..., Nsqlookupd], start_broker: StartBroker, topic: str
) -> None:
    first = start_lookup()
    broker = registered(start_broker, first)
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="c")
    wait_until(lambda: channels(first, topic) == ["c"], "the channel")
    assert first.stop() == 0
    broker.post("/topic/create", topic=f"{topic}_b")
    again = start_lookup(f"-tcp-address={text(first.tcp)}", f"-http-address={text(first.http)}")
    wait_until(lambda: again.producers(topic) and again.producers(f"{topic}_b"), "both topics, after at most a ping")
    wait_until(lambda: channels(again, topic) == ["c"], "the channel again")


@contextmanager
def mute_lookup() -> Iterator[str]:
    """A service that introduces itself, whose HTTP accepts and never answers; its TCP address."""
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as tcp:
        answer = {**IDENTITY, "broadcast_address": "127.0.0.1", "http_port": http.getsockname()[1]}

        def serve() -> None:
            try:
                while True:
                    peer, _ = tcp.accept()
                    threading.Thread(target=converse, args=(peer,), daemon=True).start()
            except OSError:
                return  # The test has ended.

        def converse(peer: socket.socket) -> None:
            with peer, peer.makefile("rb") as said:
                said.read(4)
                while word := said.readline():
                    if word.startswith(b"IDENTIFY"):
                        said.read(int.from_bytes(said.read(4)))
                        peer.sendall(sized(json.dumps(answer).encode()))
                    else:
                        peer.sendall(sized(b"OK"))

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{tcp.getsockname()[1]}"


def test_a_lookup_that_does_not_answer_is_waited_for_and_nothing_is_lost(start_broker: StartBroker, topic: str) -> None:
    with mute_lookup() as address:
        broker = start_broker(f"-lookupd-tcp-address={address}", "-http-client-request-timeout=1s")
        broker.post("/mpub", MANY, topic=topic)
        broker.post("/channel/create", topic=topic, channel="c")
        broker.wait_for_channel(topic, "c", depth=len(LINES))
