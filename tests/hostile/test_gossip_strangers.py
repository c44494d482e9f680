"""A limit that brokers share by gossip stays whole whatever is said of brokers that are not there."""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Address
from controller_with_brokers import Cluster, address
from deadlines import GENEROUS_S, wait_until
from link_speaker import Liar, framed
from raw_protocol import Connection
from siege import Force

RATE = 300
"""Messages per second that the topic's limit allows, over all brokers."""

RATE_MIN = 270
LIARS = 27
"""So many once left each broker a 28th part, and 29 messages/s of 300 passed."""


@pytest.fixture
def cluster(tmp_path: Path, force: Force) -> Iterator[Cluster]:
    """A controller with brokers, whose key is in the data folder."""
    own = Cluster(tmp_path / "up", "--data-dir", str(tmp_path / "up"), brokers=force.of(2, 3))
    yield own
    own.stop()


def link(cluster: Cluster) -> Address:
    """Where brokers dial."""
    return address(cluster.log().split("brokers dial ")[1].split()[0])


class Flow:
    """At each broker a publisher that always wants more than the limit allows, and a consumer that counts."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.passed, self.ended = 0, threading.Event()
        self.failure: BaseException | None = None
        self.counting = threading.Lock()
        self.connections: list[Connection] = []
        for broker in cluster.brokers:
            for act in (self._consume, self._publish):
                connection = Connection(cluster.tcp(broker))
                self.connections.append(connection)
                threading.Thread(target=self._go_on, args=(act, connection, topic), daemon=True).start()

    def stop(self) -> None:
        """Ends all of it."""
        self.ended.set()
        for connection in self.connections:
            connection.close()

    def rate_over(self, seconds: float) -> float:
        """Messages per second that pass from now on for so long."""
        before, began_s = self.passed, time.monotonic()
        self.ended.wait(seconds)
        assert self.failure is None, f"a client failed: {self.failure!r}"
        return (self.passed - before) / (time.monotonic() - began_s)

    def _go_on(self, act: Callable[[Connection, str], None], connection: Connection, topic: str) -> None:
        try:
            act(connection, topic)
        except BaseException as failure:
            if not self.ended.is_set():
                self.failure = failure

    def _consume(self, connection: Connection, topic: str) -> None:
        connection.subscribe(topic, "all", ready=1_000)
        while not self.ended.is_set():
            connection.finish(connection.next_message())
            with self.counting:
                self.passed += 1

    def _publish(self, connection: Connection, topic: str) -> None:
        while not self.ended.is_set():
            connection.publish_batch(topic, *[b"more than passes"] * 50)


@pytest.fixture
def flow(cluster: Cluster, topic: str) -> Iterator[Flow]:
    """At the limit already."""
    limit = {"limit": {"rate": RATE, "burst": 30, "sharing": "fps"}}
    connection = http.client.HTTPConnection(*cluster.http, timeout=GENEROUS_S)
    connection.request("PUT", f"/v1/topics/{topic}", json.dumps(limit))
    assert connection.getresponse().status == 200
    connection.close()
    flow = Flow(cluster, topic)
    wait_until(lambda: flow.rate_over(0.5) >= RATE_MIN, f"at least {RATE_MIN} messages/s pass")
    yield flow
    flow.stop()


def states(cluster: Cluster) -> dict[str, str]:
    """Brokers with what the controller says of them."""
    return {broker["broker"]: broker["state"] for broker in cluster.get("/v1/brokers")["brokers"]}


def say_hello_without_the_key(cluster: Cluster, number: int) -> None:
    """As a broker would, at addresses where nobody is, to whoever listens."""
    at = f"127.0.0.1:{number + 1}"
    hello = {"say": "hello", "broker": f"stranger{number}", "identity": "00" * 16, "life": 0}
    hello |= {"tcp_address": at, "http_address": at, "gossip_address": at, "mcap": None, "model": None}
    with socket.create_connection(link(cluster), GENEROUS_S) as stranger, contextlib.suppress(OSError):
        stranger.sendall(framed(json.dumps(hello).encode()))


def test_hellos_with_dead_addresses_take_nothing_of_a_gossiped_limit(
    cluster: Cluster, flow: Flow, force: Force
) -> None:
    seconds = force.of(1, 10)
    real = set(cluster.brokers)
    for number in range(LIARS):
        say_hello_without_the_key(cluster, number)
    assert flow.rate_over(seconds) >= RATE_MIN, "strangers took it"
    assert set(states(cluster)) == real
    key = bytes.fromhex((cluster.log_path.parent / "link.key").read_text().strip())
    for answers in (False, True) if force.is_full else (True,):
        with contextlib.ExitStack() as liars:
            for number in range(LIARS):
                liars.enter_context(Liar(link(cluster), key, number, answers=answers))
            wait_until(
                lambda expected="up" if answers else "unreached": (
                    [states(cluster).get(f"liar{number}") for number in range(LIARS)] == [expected] * LIARS
                ),
                "the controller knows all of them",
            )
            assert flow.rate_over(seconds) >= RATE_MIN, f"liars took it (at their addresses for clients: {answers})"
            told = cluster.get("/v1/brokers/liar0")["not_counted"]
            assert "does not answer by UDP at 127.0.0.1:1 (nobody listens)" in told
        wait_until(lambda: "up" not in [states(cluster).get(f"liar{n}") for n in range(LIARS)], "they are gone")
