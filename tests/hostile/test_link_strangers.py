"""Who does not know the key of a controller's link gets none of it: no name, no key, no memory, no broker's place."""

import contextlib
import json
import re
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker import REPOSITORY, Address
from controller_with_brokers import Cluster, address, program
from deadlines import GENEROUS_S, wait_until
from link_speaker import OPENING, framed
from lookup_service import request
from siege import MEMORY_GROWTH_MAX_BYTES, Force, resident_bytes

RANDOM = bytes(32)
"""What a handshake's opening ends with."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A controller with a broker, whose key is in the data folder."""
    own = Cluster(tmp_path / "up", "--data-dir", str(tmp_path / "up"), brokers=1)
    yield own
    own.stop()


def link(cluster: Cluster) -> Address:
    """Where brokers dial."""
    return address(cluster.log().split("brokers dial ")[1].split()[0])


def states(cluster: Cluster) -> dict[str, str]:
    """Brokers with what the controller says of them."""
    return {broker["broker"]: broker["state"] for broker in cluster.get("/v1/brokers")["brokers"]}


def said_until_closed(stranger: socket.socket) -> bytes:
    """Everything that the other end says before it closes."""
    stranger.settimeout(GENEROUS_S)
    said = b""
    with contextlib.suppress(ConnectionError):
        while more := stranger.recv(65536):
            said += more
    return said


def hello(number: int) -> dict[str, Any]:
    """As a broker would, at an address where nobody is."""
    return {
        "say": "hello",
        "version": 4,
        "broker": f"stranger{number}",
        "incarnation": 2**64 - 1,
        "tcp_address": f"127.0.0.1:{number + 1}",
        "http_address": None,
        "gossip_address": f"127.0.0.1:{number + 1}",
        "mcap": None,
        "model": None,
    }


def test_hellos_of_strangers_change_nothing(cluster: Cluster) -> None:
    before = states(cluster)
    for number in range(27):
        words = framed(json.dumps(hello(number)).encode())
        with socket.create_connection(link(cluster), GENEROUS_S) as stranger:
            stranger.sendall(words)
            assert said_until_closed(stranger) == b""
        with socket.create_connection(link(cluster), GENEROUS_S) as stranger:
            stranger.sendall(framed(OPENING + RANDOM) + framed(bytes(32)) + words)
            # Random bytes and a proof, which is worth nothing without the key; no key of gossip.
            assert len(said_until_closed(stranger)) == 4 + 44 + 32
    assert states(cluster) == before == {"b1": "up"}
    page = request(cluster.http, "GET", "/metrics").body.decode()
    assert re.search(r"^srtm_control_link_strangers_total 54(\.0)?$", page, re.MULTILINE), page


def test_half_messages_of_strangers_cost_nothing(cluster: Cluster, force: Force) -> None:
    before = resident_bytes(cluster.process.pid)
    half = struct.pack(">I", 4 * 1024 * 1024) + bytes(2 * 1024 * 1024)
    strangers = []
    for number in range(force.of(400, 2000)):
        stranger = socket.create_connection(link(cluster), GENEROUS_S)
        strangers.append(stranger)
        stranger.settimeout(0.2)
        # A stranger that is not read from cannot send it all; one that is cut off even less.
        with contextlib.suppress(OSError):
            stranger.sendall(framed(OPENING + RANDOM) if number % 2 else b"")
            stranger.sendall(half)
    grown = resident_bytes(cluster.process.pid) - before
    for stranger in strangers:
        stranger.close()
    assert grown <= MEMORY_GROWTH_MAX_BYTES, f"memory grew by {grown / 1024 / 1024:.0f} MiB"
    assert states(cluster) == {"b1": "up"}


def own_broker(
    cluster: Cluster, folder: Path, controller: Address, announced: str = "127.0.0.1"
) -> subprocess.Popen[bytes]:
    """A broker b9 that dials `controller` with the cluster's key."""
    flags = {
        "--controller": f"{controller[0]}:{controller[1]}",
        "--link-key": str(cluster.log_path.parent / "link.key"),
        "--broker-name": "b9",
        "--tcp-address": "127.0.0.1:0",
        "--http-address": "none",
        "--broadcast-address": announced,
        "--threads": "1",
        "--data-path": str(folder),
    }
    words = [word for flag in flags.items() for word in flag]
    return subprocess.Popen([program(), "broker", *words], stderr=subprocess.DEVNULL, cwd=REPOSITORY)


def test_brokers_link_while_strangers_fill_the_port(cluster: Cluster, tmp_path: Path, force: Force) -> None:
    """Whoever waits longest makes room; a broker proves itself at once."""
    idle = [socket.create_connection(link(cluster), GENEROUS_S) for _ in range(force.of(300, 900))]
    broker = own_broker(cluster, tmp_path / "b9", link(cluster))
    try:
        wait_until(lambda: states(cluster).get("b9") == "up", "the broker is up")
    finally:
        broker.kill()
        broker.wait()
        for stranger in idle:
            stranger.close()


class Listener:
    """Between a broker and its controller: passes on what both say, and keeps what the first connection said."""

    def __init__(self, controller: Address) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self.server.getsockname()
        self.controller = controller
        self.heard = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            near, _ = self.server.accept()
            far = socket.create_connection(self.controller, GENEROUS_S)
            threading.Thread(target=self._pass_on, args=(far, near, False), daemon=True).start()
            self._pass_on(near, far, True)

    def _pass_on(self, source: socket.socket, to: socket.socket, is_kept: bool) -> None:
        with contextlib.suppress(OSError):
            while words := source.recv(65536):
                self.heard += words if is_kept else b""
                to.sendall(words)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_RDWR)


def test_a_recorded_link_is_not_believed_again(cluster: Cluster, tmp_path: Path) -> None:
    between = Listener(link(cluster))
    broker = own_broker(cluster, tmp_path / "b9", between.address)
    try:
        wait_until(lambda: states(cluster).get("b9") == "up", "the broker is up")
    finally:
        broker.kill()
        broker.wait()
    wait_until(lambda: states(cluster).get("b9") == "dead", "the broker is dead")
    with socket.create_connection(link(cluster), GENEROUS_S) as again:
        with contextlib.suppress(ConnectionError):
            again.sendall(between.heard)
        said = said_until_closed(again)
    assert len(said) <= 4 + 44 + 32
    assert states(cluster)["b9"] == "dead"


def test_a_broker_that_is_not_where_it_says_is_sent_nobody(cluster: Cluster, tmp_path: Path) -> None:
    """Its own port is not open at that address of the loopback network."""
    broker = own_broker(cluster, tmp_path / "b9", link(cluster), announced="127.0.0.9")
    try:
        wait_until(lambda: states(cluster).get("b9") == "unreached", "the broker is linked")
        wait_until(lambda: "b9 does not answer at 127.0.0.9" in cluster.log(), "the operator is told")
        answer = request(cluster.lookup, "GET", "/nodes")
        producers = json.loads(answer.body)["producers"]
        assert [producer["broadcast_address"] for producer in producers] == ["127.0.0.1"]
        for number in range(20):
            place = cluster.get(f"/v1/topics/t{number}/placement")
            assert [broker["broker"] for broker in place["brokers"]] == ["b1"]
    finally:
        broker.kill()
        broker.wait()


def test_a_name_is_kept_for_its_owner_and_heals(cluster: Cluster, tmp_path: Path) -> None:
    first = own_broker(cluster, tmp_path / "first", link(cluster))
    second = None
    try:
        wait_until(lambda: states(cluster).get("b9") == "up", "the broker is up")
        tcp_address = cluster.get("/v1/brokers/b9")["tcp_address"]
        second = own_broker(cluster, tmp_path / "second", link(cluster))
        wait_until(lambda: "belongs to another broker" in cluster.log(), "the second is refused")
        assert cluster.get("/v1/brokers/b9")["tcp_address"] == tcp_address
        second.kill()
        second.wait()
        first.kill()
        first.wait()
        wait_until(lambda: states(cluster).get("b9") == "dead", "the broker is dead")
        assert request(cluster.http, "DELETE", "/v1/brokers/b9").status == 204
        assert "b9" not in states(cluster)
        second = own_broker(cluster, tmp_path / "second", link(cluster))
        wait_until(lambda: states(cluster).get("b9") == "up", "another broker has the name")
    finally:
        for broker in filter(None, (first, second)):
            broker.kill()
            broker.wait()
