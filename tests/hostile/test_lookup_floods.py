"""What peers of the lookup service may not do: fill it for others, or make its answers grow without bound."""

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crowd import OTHER, Crowd
from lookup_service import Nsqlookupd, Peer, identify
from siege import MEMORY_GROWTH_MAX_BYTES, Force, resident_bytes

FIELD_MAX_BYTES = 255
PEERS_OF_ADDRESS_MAX = 409


@pytest.fixture
def lookup(tmp_path: Path) -> Iterator[Nsqlookupd]:
    """A lookup service of the test's own."""
    service = Nsqlookupd(tmp_path)
    yield service
    service.stop()


def register(peer: Peer, names: list[str], at_once: int = 500) -> list[bytes]:
    """Registers topics, many in one write; the answers."""
    answers = []
    for begin in range(0, len(names), at_once):
        part = names[begin : begin + at_once]
        peer.send("".join(f"REGISTER {name}\n" for name in part).encode())
        answers += [peer.answer() for _ in part]
    return answers


@pytest.mark.parametrize("field", ["broadcast_address", "hostname", "version"])
def test_what_a_peer_says_of_itself_is_short(lookup: Nsqlookupd, field: str) -> None:
    with Peer(lookup.tcp) as peer:
        peer.identify(**{field: "x" * FIELD_MAX_BYTES})
    with Peer(lookup.tcp) as peer:
        refusal = peer.ask(identify(**{field: "x" * 15_000}))
        assert refusal == f"E_BAD_BODY IDENTIFY {field} of 15000 bytes is longer than 255".encode()
        assert peer.has_ended()


def test_everything_that_was_registered_is_told_in_parts(lookup: Nsqlookupd, force: Force) -> None:
    peers, topics = force.of(4, 40), force.of(2_000, 5_000)
    names = [f"t{number}" for number in range(topics)]
    connected = [Peer(lookup.tcp) for _ in range(peers)]
    for peer in connected:
        peer.identify(version="v" * FIELD_MAX_BYTES, hostname="h" * FIELD_MAX_BYTES)
        assert set(register(peer, names)) == {b"OK"}
    before_bytes = most_bytes = resident_bytes(lookup.process.pid)

    # Nobody reads: each page waits in its first parts.
    waiting = [http.client.HTTPConnection(*lookup.http) for _ in range(force.of(4, 20))]
    for connection in waiting:
        connection.request("GET", "/debug")
    read_bytes = 0
    reader = http.client.HTTPConnection(*lookup.http)
    reader.request("GET", "/debug")
    page = reader.getresponse()
    assert page.getheader("transfer-encoding") == "chunked"
    while part := page.read(1 << 16):
        read_bytes += len(part)
        most_bytes = max(most_bytes, resident_bytes(lookup.process.pid))
    assert read_bytes > peers * topics * 2 * FIELD_MAX_BYTES
    for connection in (reader, *waiting):
        connection.close()
    grown = most_bytes - before_bytes
    assert grown <= min(MEMORY_GROWTH_MAX_BYTES, 16 * 1024 * 1024), f"memory grew by {grown / 1024 / 1024:.0f} MiB"
    assert len(lookup.get("/debug")) == topics + 1
    for peer in connected:
        peer.socket.close()


def test_one_address_has_a_tenth_of_all_topics(lookup: Nsqlookupd, force: Force) -> None:
    if not force.is_full:
        pytest.skip("50,000 topics take some seconds")
    with Peer(lookup.tcp) as peer:
        peer.identify()
        answers = register(peer, [f"t{number}" for number in range(50_001)])
    assert set(answers[:-1]) == {b"OK"}
    assert answers[-1] == b"E_FULL REGISTER too many of one address"


def test_one_address_has_a_tenth_of_all_places(lookup: Nsqlookupd) -> None:
    connected = [Peer(lookup.tcp) for _ in range(PEERS_OF_ADDRESS_MAX)]
    for peer in connected:
        peer.identify()
    with Peer(lookup.tcp) as beyond:
        beyond.send(identify())
        with pytest.raises((EOFError, ConnectionResetError)):
            beyond.answer()
    for peer in connected:
        peer.socket.close()
    freed = threading.Event()
    for _ in range(100):
        with Peer(lookup.tcp) as peer:
            peer.send(identify())
            try:
                peer.answer()
                break
            except (EOFError, ConnectionResetError):
                freed.wait(0.05)
    else:
        pytest.fail("places of peers that have gone are not free again")


def test_who_does_not_say_who_it_is_gives_way(lookup: Nsqlookupd, force: Force) -> None:
    with Peer(lookup.tcp) as known, Crowd(lookup.tcp) as crowd, Crowd(lookup.tcp, OTHER) as others:
        known.identify()
        for beginning in b"", b"  V1", b"  V1IDENTIFY\n\0\0":
            crowd.grow(force.of(500, 5_000), beginning)
            others.grow(force.of(500, 5_000), beginning)
            for _ in range(10):
                with Peer(lookup.tcp) as peer:
                    peer.identify()
        assert register(known, ["t"]) == [b"OK"]
