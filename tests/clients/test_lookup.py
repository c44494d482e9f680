"""The lookup service in nsqlookupd's place: stock nsqd's register with it, stock clients and tools ask it.

Every expectation holds at nsqlookupd 1.3.0 too: `SRTM_NSQLOOKUPD=build/bin/nsqlookupd`.
"""

import asyncio
import http.client
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nsq
import pytest

import tools
from deadlines import GENEROUS_S, wait_until
from lookup_service import (
    IDENTITY,
    PRODUCER_FIELDS,
    STOCK_VERSION,
    Nsqd,
    Nsqlookupd,
    Peer,
    identify,
    post,
    request,
    text,
)
from raw_protocol import sized


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nsqlookupd]:
    """The lookup service that most tests share; it must live to the end and then stop in order."""
    shared = Nsqlookupd(tmp_path_factory.mktemp("lookup"))
    yield shared
    assert shared.process.poll() is None, f"it died:\n{shared.log()[-4000:]}"
    assert shared.stop() == 0


# What stands in the answers.


def test_ping_and_info(lookup: Nsqlookupd) -> None:
    answer = request(lookup.http, "GET", "/ping")
    assert (answer.status, answer.body) == (200, b"OK")
    assert lookup.get("/info") == {"version": STOCK_VERSION}


REFUSALS = [
    ("GET", "/lookup", 400, "MISSING_ARG_TOPIC"),
    ("GET", "/lookup?topic=nothing", 404, "TOPIC_NOT_FOUND"),
    ("GET", "/lookup?topic=", 404, "TOPIC_NOT_FOUND"),
    ("GET", "/lookup?topic=%zz", 400, "INVALID_REQUEST"),
    ("GET", "/lookup?topic=a;b", 400, "INVALID_REQUEST"),
    ("GET", "/channels", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/create", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/create?topic=", 400, "INVALID_ARG_TOPIC"),
    ("POST", "/topic/create?topic=a%2fb", 400, "INVALID_ARG_TOPIC"),
    ("POST", "/topic/delete", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/tombstone", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/tombstone?topic=t", 400, "MISSING_ARG_NODE"),
    ("POST", "/channel/create", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/channel/create?topic=$", 400, "INVALID_ARG_TOPIC"),
    ("POST", "/channel/create?topic=t", 400, "MISSING_ARG_CHANNEL"),
    ("POST", "/channel/create?topic=t&channel=$", 400, "INVALID_ARG_CHANNEL"),
    ("POST", "/channel/delete", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/channel/delete?topic=t", 400, "MISSING_ARG_CHANNEL"),
    ("POST", "/channel/delete?topic=t&channel=nothing", 404, "CHANNEL_NOT_FOUND"),
    ("GET", "/topic/create?topic=t", 405, "METHOD_NOT_ALLOWED"),
    ("POST", "/lookup?topic=t", 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/nothing", 404, "NOT_FOUND"),
    ("GET", "/", 404, "NOT_FOUND"),
]


@pytest.mark.parametrize(("method", "path", "status", "message"), REFUSALS)
def test_http_refusals(lookup: Nsqlookupd, method: str, path: str, status: int, message: str) -> None:
    answer = request(lookup.http, method, path)
    assert (answer.status, answer.json()) == (status, {"message": message})
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert answer.headers["x-nsq-content-type"] == "nsq; version=1.0"


def test_a_registered_peer_is_told_field_by_field(lookup: Nsqlookupd, topic: str) -> None:
    with Peer(lookup.tcp) as peer:
        peer.identify()
        peer.register(topic, "c2")
        peer.register(topic, "c1")
        expected = IDENTITY | {"remote_address": peer.address}
        found = lookup.get("/lookup", topic=topic)
        assert found.keys() == {"channels", "producers"}
        assert (sorted(found["channels"]), found["producers"]) == (["c1", "c2"], [expected])
        assert sorted(lookup.get("/channels", topic=topic)["channels"]) == ["c1", "c2"]
        assert topic in lookup.get("/topics")["topics"]
        node = lookup.node(remote_address=peer.address)
        assert node == expected | {"tombstones": [False], "topics": [topic]}

        debug = lookup.get("/debug")
        entry = debug[f"channel:{topic}:c1"][0]
        assert entry.keys() == IDENTITY.keys() | {"id", "last_update", "tombstoned", "tombstoned_at"}
        assert (entry["id"], entry["tombstoned"]) == (peer.address, False)
        assert 0 < entry["last_update"] <= time.time_ns()
        assert debug[f"topic:{topic}:"] == debug[f"channel:{topic}:c2"] == [entry]
        assert peer.address in [client["id"] for client in debug["client::"]]


def test_a_peer_that_goes_leaves_names_only(lookup: Nsqlookupd, topic: str) -> None:
    with Peer(lookup.tcp) as peer:
        peer.identify()
        peer.register(topic, "c")
        address = peer.address
    wait_until(lambda: lookup.producers(topic) == [], "the topic without a producer")
    assert lookup.get("/channels", topic=topic)["channels"] == ["c"]
    assert lookup.node(remote_address=address) is None


def test_unregister(lookup: Nsqlookupd, topic: str) -> None:
    with Peer(lookup.tcp) as peer, Peer(lookup.tcp) as other:
        for each, name in [(peer, "one"), (other, "other")]:
            each.identify(broadcast_address=name)
            for channel in ["kept", "going#ephemeral"]:
                each.register(topic, channel)
        peer.unregister(topic, "going#ephemeral")
        assert sorted(lookup.get("/channels", topic=topic)["channels"]) == ["going#ephemeral", "kept"]
        other.unregister(topic, "going#ephemeral")
        other.unregister(topic, "kept")
        assert lookup.get("/channels", topic=topic)["channels"] == ["kept"]
        assert lookup.names(topic) == ["one", "other"]
        peer.unregister(topic)
        assert lookup.names(topic) == ["other"]
        # What it does not have it may give up.
        peer.unregister(topic)
        peer.unregister("nothing", "nothing")
        peer.register(f"{topic}#ephemeral")
        assert lookup.producers(f"{topic}#ephemeral") is not None
        peer.unregister(f"{topic}#ephemeral")
        assert lookup.producers(f"{topic}#ephemeral") is None


def test_names_are_made_and_deleted_by_hand(lookup: Nsqlookupd, topic: str) -> None:
    post(lookup.http, "/channel/create", topic=topic, channel="c")
    assert lookup.get("/lookup", topic=topic) == {"channels": ["c"], "producers": []}
    post(lookup.http, "/channel/delete", topic=topic, channel="c")
    assert lookup.get("/lookup", topic=topic) == {"channels": [], "producers": []}
    post(lookup.http, "/topic/create", topic=topic)
    with Peer(lookup.tcp) as peer:
        peer.identify()
        peer.register(topic, "c")
        assert lookup.names(topic) == [IDENTITY["broadcast_address"]]
        post(lookup.http, "/topic/delete", topic=topic)
        assert lookup.producers(topic) is None
        assert lookup.get("/channels", topic=topic) == {"channels": []}
        # A deletion hides nothing that is registered anew.
        peer.register(topic)
        assert lookup.names(topic) == [IDENTITY["broadcast_address"]]
    post(lookup.http, "/topic/delete", topic="nothing")


def test_a_tombstone_hides_a_producer_from_one_topic(lookup: Nsqlookupd, topic: str) -> None:
    with Peer(lookup.tcp) as peer, Peer(lookup.tcp) as other:
        for each, name in [(peer, "one"), (other, "other")]:
            each.identify(broadcast_address=name)
            each.register(topic)
        peer.register(f"{topic}_b")
        post(lookup.http, "/topic/tombstone", topic=topic, node="one:4151")
        post(lookup.http, "/topic/tombstone", topic=topic, node="nobody:1")
        assert lookup.names(topic) == ["other"]
        assert lookup.names(f"{topic}_b") == ["one"]
        node = lookup.node(remote_address=peer.address)
        assert node is not None
        assert dict(zip(node["topics"], node["tombstones"], strict=True)) == {topic: True, f"{topic}_b": False}
        # Registering again does not heal it; leaving and coming back does.
        peer.register(topic)
        assert lookup.names(topic) == ["other"]
        peer.unregister(topic)
        peer.register(topic)
        assert lookup.names(topic) == ["one", "other"]


def test_time_heals_a_tombstone_and_hides_a_silent_peer(start_lookup: Callable[..., Nsqlookupd], topic: str) -> None:
    lookup = start_lookup("-tombstone-lifetime=500ms", "-inactive-producer-timeout=3s")
    with Peer(lookup.tcp) as peer:
        peer.identify()
        peer.register(topic)
        post(lookup.http, "/topic/tombstone", topic=topic, node="peer.example:4151")
        wait_until(lambda: peer.ask(b"PING\n") == b"OK" and lookup.names(topic), "the producer after its tombstone")
        wait_until(lambda: lookup.names(topic) == [], "a silent producer gone")
        assert lookup.node(remote_address=peer.address) is None
        wait_until(lambda: peer.ask(b"PING\n") == b"OK" and lookup.names(topic), "the producer after a ping")


# What a peer may say, and what not.


def test_the_service_introduces_itself(lookup: Nsqlookupd) -> None:
    with Peer(lookup.tcp) as peer:
        answer = peer.identify()
    assert answer.pop("hostname")
    assert answer == {
        "broadcast_address": "127.0.0.1",
        "tcp_port": lookup.tcp[1],
        "http_port": lookup.http[1],
        "version": STOCK_VERSION,
    }


BROKEN_COMMANDS = [
    ("bad_magic", b"  V2", b"PING\n", b"E_BAD_PROTOCOL"),
    ("unknown", b"  V1", b"HELLO\n", b"E_INVALID invalid command HELLO"),
    ("lower_case", b"  V1", b"ping\n", b"E_INVALID invalid command ping"),
    ("empty_line", b"  V1", b"\n", b"E_INVALID invalid command "),
    ("not_identified", b"  V1", b"REGISTER t\n", b"E_INVALID client must IDENTIFY"),
    ("unregister_not_identified", b"  V1", b"UNREGISTER t\n", b"E_INVALID client must IDENTIFY"),
    ("identify_twice", b"  V1", identify() + b"IDENTIFY\n", b"E_INVALID cannot IDENTIFY again"),
    ("no_topic", b"  V1", identify() + b"REGISTER\n", b"E_INVALID REGISTER insufficient number of params"),
    ("bad_topic", b"  V1", identify() + b"REGISTER a/b\n", b"E_BAD_TOPIC REGISTER topic name 'a/b' is not valid"),
    ("bad_channel", b"  V1", identify() + b"REGISTER t $\n", b"E_BAD_CHANNEL REGISTER channel name '$' is not valid"),
    ("unregister_bad", b"  V1", identify() + b"UNREGISTER $\n", b"E_BAD_TOPIC UNREGISTER topic name '$' is not valid"),
    ("no_json", b"  V1", b"IDENTIFY\n" + sized(b"{"), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
    ("no_body", b"  V1", b"IDENTIFY\n" + sized(b""), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
    ("wrong_type", b"  V1", identify(tcp_port="4150"), b"E_BAD_BODY IDENTIFY failed to decode JSON body"),
    ("no_port", b"  V1", identify(tcp_port=0), b"E_BAD_BODY IDENTIFY missing fields"),
    ("no_address", b"  V1", identify(broadcast_address=""), b"E_BAD_BODY IDENTIFY missing fields"),
    ("no_version", b"  V1", identify(version=""), b"E_BAD_BODY IDENTIFY missing fields"),
]


@pytest.mark.parametrize(
    ("magic", "said", "last_answer"), [row[1:] for row in BROKEN_COMMANDS], ids=[row[0] for row in BROKEN_COMMANDS]
)
def test_a_refusal_is_the_last_answer(lookup: Nsqlookupd, magic: bytes, said: bytes, last_answer: bytes) -> None:
    with Peer(lookup.tcp, magic) as peer:
        if said.startswith(identify()):
            peer.identify()
            said = said.removeprefix(identify())
        assert peer.ask(said) == last_answer
        assert peer.has_ended()
    assert request(lookup.http, "GET", "/ping").body == b"OK"


def test_pieces_and_batches_are_understood(lookup: Nsqlookupd, topic: str) -> None:
    said = b"PING\n" + identify() + f"REGISTER {topic} c\r\n  PING \n".encode()
    with Peer(lookup.tcp) as peer:
        peer.send(said)
        answers = [peer.answer() for _ in range(4)]
        assert (answers[0], answers[2:]) == (b"OK", [b"OK", b"OK"])
    with Peer(lookup.tcp, b"") as peer:
        for i in range(len(said) + 4):
            peer.send((b"  V1" + said)[i : i + 1])
        assert [peer.answer() for _ in range(4)][2:] == [b"OK", b"OK"]
        wait_until(lambda: lookup.names(topic) == [IDENTITY["broadcast_address"]], "one producer")


def test_unknown_fields_and_a_nameless_machine_are_taken(lookup: Nsqlookupd, topic: str) -> None:
    with Peer(lookup.tcp) as peer:
        body = {name: value for name, value in IDENTITY.items() if name != "hostname"} | {
            "topology_zone": "z",
            "x": [1],
        }
        peer.send(b"IDENTIFY\n" + sized(json.dumps(body).encode()))
        assert json.loads(peer.answer())["version"] == STOCK_VERSION
        peer.register(topic)
        (producer,) = lookup.producers(topic) or []
        assert (producer["hostname"], producer.keys()) == ("", PRODUCER_FIELDS)


# Stock daemons, clients and tools.


def test_an_nsqd_registers_anew_after_a_restart(
    start_lookup: Callable[..., Nsqlookupd], start_nsqd: Callable[..., Nsqd], topic: str
) -> None:
    first, second = start_lookup(), start_lookup()
    nsqd = start_nsqd(first, second)
    post(nsqd.http, "/topic/create", topic=topic)
    for service in [first, second]:
        wait_until(lambda service=service: service.producers(topic), "the producer")
    ports = [f"-tcp-address={text(first.tcp)}", f"-http-address={text(first.http)}"]
    assert first.stop() == 0
    again = start_lookup(*ports)
    # The nsqd finds the connection gone when it next has something to say, and connects again for what comes after.
    numbers = itertools.count()

    def come_back() -> list[dict[str, Any]] | None:
        post(nsqd.http, "/topic/create", topic=f"{topic}_{next(numbers)}")
        return again.producers(topic)

    wait_until(come_back, "the producer at the service that was started anew")
    assert second.producers(topic)


def test_an_nsqd_registers_what_it_has(lookup: Nsqlookupd, start_nsqd: Callable[..., Nsqd], topic: str) -> None:
    nsqd = start_nsqd(lookup)
    post(nsqd.http, "/topic/create", topic=topic)
    post(nsqd.http, "/channel/create", topic=topic, channel="c")
    post(nsqd.http, "/topic/create", topic=f"{topic}_b")
    wait_until(lambda: lookup.get("/channels", topic=topic)["channels"] == ["c"], "the channel")
    wait_until(lambda: lookup.producers(f"{topic}_b"), "the second topic")
    (producer,) = lookup.producers(topic) or []
    assert producer.keys() == PRODUCER_FIELDS
    address = ("127.0.0.1", nsqd.tcp[1], nsqd.http[1], STOCK_VERSION)
    assert tuple(producer[name] for name in ["broadcast_address", "tcp_port", "http_port", "version"]) == address
    node = lookup.node(tcp_port=nsqd.tcp[1])
    assert node is not None and sorted(node["topics"]) == [topic, f"{topic}_b"]

    post(nsqd.http, "/topic/delete", topic=f"{topic}_b")
    wait_until(lambda: lookup.producers(f"{topic}_b") == [], "the deleted topic without a producer")
    nsqd.tool.process.kill()
    wait_until(lambda: lookup.producers(topic) == [], "nobody after a crash")
    assert lookup.node(tcp_port=nsqd.tcp[1]) is None


def test_an_nsqd_learns_channels_before_the_first_message(
    lookup: Nsqlookupd, start_nsqd: Callable[..., Nsqd], topic: str
) -> None:
    nsqd = start_nsqd(lookup)
    wait_until(lambda: lookup.node(tcp_port=nsqd.tcp[1]), "the nsqd")
    post(lookup.http, "/channel/create", topic=topic, channel="archive")
    # It asks at the address that the service introduced itself with.
    post(nsqd.http, "/topic/create", topic=topic)
    stats = request(nsqd.http, "GET", "/stats", format="json", topic=topic).json()
    assert [channel["channel_name"] for channel in stats["topics"][0]["channels"]] == ["archive"]


def test_nsq_tail_finds_every_producer(
    lookup: Nsqlookupd, start_nsqd: Callable[..., Nsqd], topic: str, tmp_path: Path
) -> None:
    daemons = [start_nsqd(lookup) for _ in range(2)]
    for nsqd in daemons:
        post(nsqd.http, "/topic/create", topic=topic)
    wait_until(lambda: len(lookup.producers(topic) or []) == 2, "two producers")
    lines = [f"line {i}" for i in range(50)]
    for nsqd, part in zip(daemons, [lines[:20], lines[20:]], strict=True):
        stdin = "".join(f"{line}\n" for line in part).encode()
        tools.run("to_nsq", f"-nsqd-tcp-address={text(nsqd.tcp)}", f"-topic={topic}", stdin=stdin)
    flags = [f"-lookupd-http-address={text(lookup.http)}", f"-topic={topic}", "-channel=tail", f"-n={len(lines)}"]
    with tools.running(tmp_path, "nsq_tail", *flags) as tail:
        assert tail.process.wait(timeout=GENEROUS_S) == 0, tail.log()
        assert sorted(tail.output().splitlines()) == sorted(lines)


def test_pynsq_finds_a_producer(lookup: Nsqlookupd, start_nsqd: Callable[..., Nsqd], topic: str) -> None:
    nsqd = start_nsqd(lookup)
    tools.run("to_nsq", f"-nsqd-tcp-address={text(nsqd.tcp)}", f"-topic={topic}", stdin=b"hello\n")
    wait_until(lambda: lookup.producers(topic), "the producer")

    async def receive() -> bytes:
        received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def handle(message: nsq.Message) -> bool:
            if not received.done():
                received.set_result(message.body)
            return True

        reader = nsq.Reader(topic, "pynsq", message_handler=handle, lookupd_http_addresses=[text(lookup.http)])
        try:
            return await asyncio.wait_for(received, GENEROUS_S)
        finally:
            reader.close()

    assert asyncio.run(receive()) == b"hello"


def test_nsqadmin_works_through_it(
    lookup: Nsqlookupd, start_nsqd: Callable[..., Nsqd], topic: str, tmp_path: Path
) -> None:
    nsqd = start_nsqd(lookup)
    flags = ["-http-address=127.0.0.1:0", f"-lookupd-http-address={text(lookup.http)}"]
    with tools.running(tmp_path, "nsqadmin", *flags) as program:
        bound = wait_until(lambda: re.search(r"HTTP: listening on (\S+):(\d+)", program.log()), "nsqadmin's address")
        admin = (bound[1], int(bound[2]))

        def act(method: str, path: str, document: dict[str, str] | None = None) -> dict[str, Any]:
            connection = http.client.HTTPConnection(*admin, timeout=GENEROUS_S)
            try:
                connection.request(method, path, body=None if document is None else json.dumps(document))
                answer = connection.getresponse()
                shown = json.loads(answer.read())
            finally:
                connection.close()
            # A warning of nsqadmin's: some of those it asked did not answer as they should.
            assert (answer.status, shown["message"]) == (200, ""), shown
            return shown

        act("POST", "/api/topics", {"topic": topic, "channel": "c"})
        assert lookup.get("/lookup", topic=topic) == {"channels": ["c"], "producers": []}
        post(nsqd.http, "/topic/create", topic=topic)
        wait_until(lambda: lookup.producers(topic), "the producer")
        assert topic in act("GET", "/api/topics")["topics"]
        (node,) = [node for node in act("GET", "/api/nodes")["nodes"] if node["tcp_port"] == nsqd.tcp[1]]
        assert node["version"] == STOCK_VERSION
        assert [(entry["topic"], entry["tombstoned"]) for entry in node["topics"]] == [(topic, False)]
        shown = act("GET", f"/api/topics/{topic}")
        assert [entry["node"] for entry in shown["nodes"]] == [text(nsqd.http)]
        assert [channel["channel_name"] for channel in shown["channels"]] == ["c"]

        act("DELETE", f"/api/nodes/{text(nsqd.http)}", {"topic": topic})
        wait_until(lambda: lookup.producers(topic) == [], "the topic gone from the node")
        post(nsqd.http, "/topic/create", topic=topic)
        wait_until(lambda: lookup.producers(topic), "the producer again")
        act("DELETE", f"/api/topics/{topic}/c")
        assert lookup.get("/channels", topic=topic) == {"channels": []}
        act("DELETE", f"/api/topics/{topic}")
        wait_until(lambda: not lookup.producers(topic), "the topic gone")
