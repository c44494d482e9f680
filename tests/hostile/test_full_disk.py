"""A full disk harms only what needs it, and whatever it has left behind is not taken for a new beginning."""

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from broker import Address, Broker, HttpAnswer
from controller_with_brokers import Cluster, address, program
from deadlines import GENEROUS_S, wait_until
from full_disk import Disk
from lookup_service import request
from raw_protocol import Connection
from siege import Siege

NAMES_MAX = 4000
"""So many names fit into no disk of a test."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of the test's own."""
    with Disk(tmp_path / "disk", 8) as disk:
        yield disk


def put(http: Address, path: str, body: object = None) -> HttpAnswer:
    """A PUT with a JSON body, which may fail."""
    return send(http, "PUT", path, body)


def send(http: Address, method: str, path: str, body: object) -> HttpAnswer:
    """A request with a JSON body, which may fail."""
    connection = HTTPConnection(*http, timeout=GENEROUS_S)
    try:
        connection.request(method, path, body=None if body is None else json.dumps(body))
        answer = connection.getresponse()
        return HttpAnswer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def limit(rate: float) -> dict[str, object]:
    """A contract."""
    return {"limit": {"rate": rate, "burst": 100}}


def passes_messages(address: Address, topic: str) -> None:
    """What is published is delivered."""
    with Connection(address) as publisher, Connection(address) as subscriber:
        subscriber.subscribe(topic, "c", ready=1)
        publisher.publish(topic, b"x")
        subscriber.finish(subscriber.next_message())


def test_a_controller_without_room_refuses_changes_and_nothing_else_ends(disk: Disk, tmp_path: Path) -> None:
    flags = ("--data-dir", str(disk.path), "--log-level", "info")
    cluster = Cluster(tmp_path / "up", *flags, brokers=2)
    try:
        assert put(cluster.http, "/v1/topics/t", limit(1000)).status == 200
        assert put(cluster.http, "/v1/names/first").status == 200
        assert {file.stat().st_mode & 0o777 for file in disk.path.glob("*.redb")} == {0o600}
        disk.fill()
        answers = (put(cluster.http, f"/v1/names/n{number}") for number in range(NAMES_MAX))
        kept, refused = [], None
        for number, answer in enumerate(answers):
            if answer.status != 200:
                refused = (f"n{number}", answer)
                break
            kept.append(answer.json()["id"])
        assert refused is not None, "everything was kept on a full disk"
        name, answer = refused
        assert answer.status == 507, answer
        for said in ("No space left", "nothing was changed"):
            assert said in answer.json()["error"], answer
        # Changes are refused, and not made by and by.
        for path, body in [("/v1/topics/u", limit(5)), ("/v1/topics/t", limit(5)), ("/v1/names/m", None)]:
            answer = put(cluster.http, path, body)
            assert answer.status == 507, (path, answer)
            assert "nothing was changed" in answer.json()["error"], answer
        assert request(cluster.http, "GET", "/v1/topics/u").status == 404
        assert request(cluster.http, "GET", f"/v1/names/{name}").status == 404
        # The rest goes on.
        assert cluster.get("/v1/topics/t")["limit"]["rate"] == 1000
        assert request(cluster.lookup, "GET", "/lookup", topic="t").status == 200
        assert request(cluster.lookup, "POST", "/topic/create", topic="made").status == 507
        for broker in cluster.brokers:
            passes_messages(cluster.tcp(broker), "free")
        ping = request(cluster.http, "GET", "/ping")
        assert (ping.status, ping.body.startswith(b"NOK - ")) == (507, True), ping
        page = request(cluster.http, "GET", "/metrics").body.decode()
        assert "srtm_control_store_writable 0.0" in page
        assert cluster.process.poll() is None, cluster.log()[-4000:]
        # It finds by itself that there is room; what was refused is asked for again.
        disk.make_room()
        wait_until(lambda: request(cluster.http, "GET", "/ping").status == 200, "the store can be written again")
        assert request(cluster.http, "GET", f"/v1/names/{name}").status == 404
        late = put(cluster.http, f"/v1/names/{name}").json()["id"]
        assert late not in kept
        assert put(cluster.http, "/v1/topics/u", limit(5)).status == 200
        assert "can be written again" in cluster.log()
    finally:
        ended = cluster.stop()
    assert ended == 0, cluster.log()[-4000:]
    again = Cluster(tmp_path / "again", *flags, brokers=1)
    try:
        assert again.get(f"/v1/names/{name}")["id"] == late
        assert again.get("/v1/topics/u")["limit"]["rate"] == 5
    finally:
        again.stop()


def fill_store(http: Address) -> None:
    """Puts names until the store takes no more."""
    answers = (put(http, f"/v1/names/n{number}").status for number in range(NAMES_MAX))
    assert any(status != 200 for status in answers), "everything was kept on a full disk"


def test_a_controller_that_starts_without_room_serves_what_it_kept(disk: Disk, tmp_path: Path) -> None:
    flags = ("--data-dir", str(disk.path), "--log-level", "info")
    first = Cluster(tmp_path / "first", *flags, brokers=2)
    try:
        assert put(first.http, "/v1/topics/t", limit(1000)).status == 200
        disk.fill()
        fill_store(first.http)
    finally:
        # Without a chance to tidy up: the file is as a crash leaves it.
        first.process.kill()
        first.process.wait()
    # What the file gave back since is filled as well.
    disk.fill()
    again = Cluster(tmp_path / "again", *flags, brokers=2)
    try:
        fill_store(again.http)
        assert again.get("/v1/topics/t")["limit"]["rate"] == 1000
        assert request(again.http, "GET", "/ping").status == 507
        assert "srtm_control_store_writable 0.0" in request(again.http, "GET", "/metrics").body.decode()
        assert put(again.http, "/v1/topics/t", limit(5)).status == 507
        for broker in again.brokers:
            passes_messages(again.tcp(broker), "free")
        assert request(again.lookup, "GET", "/lookup", topic="t").status == 200
        assert again.process.poll() is None, again.log()[-4000:]
        disk.make_room()
        wait_until(lambda: request(again.http, "GET", "/ping").status == 200, "the store can be written again")
        assert put(again.http, "/v1/topics/t", limit(5)).status == 200
    finally:
        again.stop()


LEASE_S = 2


class Controller(contextlib.AbstractContextManager):
    """A controller alone, which leaves brokers as they are when it is killed."""

    def __init__(self, data: Path, log: Path, ports: tuple[str, str] = ("127.0.0.1:0", "127.0.0.1:0")) -> None:
        flags = ["--data-dir", str(data), "--http", ports[0], "--link-address", ports[1], "--lease", f"{LEASE_S}s"]
        lookup = ["--lookup-tcp-address", "127.0.0.1:0", "--lookup-http-address", "127.0.0.1:0"]
        with log.open("wb") as out:
            self.process = subprocess.Popen([program(), "controller", *flags, *lookup], stdout=out, stderr=out)
        said = re.compile(r"HTTP on (\S+), brokers dial (\S+)")
        found = wait_until(lambda: said.search(log.read_text()), f"the addresses in {log}")
        self.ports = (found[1], found[2])
        self.http = address(found[1])

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def share(self) -> float | None:
        """What the only broker may use of t's limit, as it says itself."""
        answer = request(self.http, "GET", "/v1/topics/t")
        brokers = json.loads(answer.body)["brokers"] if answer.status == 200 else []
        return next((broker["share"]["rate"] for broker in brokers if "share" in broker), None)


def test_a_controller_that_starts_without_room_renews_leases(disk: Disk, tmp_path: Path) -> None:
    first = Controller(disk.path, tmp_path / "first.log")
    flags = ["--controller", first.ports[1], "--link-key", str(disk.path / "link.key"), "--broker-name", "b1"]
    ports = ["--tcp-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0"]
    with (tmp_path / "broker.log").open("wb") as log:
        broker = subprocess.Popen([program(), "broker", *flags, *ports], stdout=log, stderr=log)
    try:
        with first:
            assert put(first.http, "/v1/topics/t", limit(1000)).status == 200
            wait_until(lambda: request(first.http, "GET", "/v1/brokers/b1").status == 200, "the broker is known")
            publishers = {"publishers": [{"id": "p"}]}
            assert send(first.http, "POST", "/v1/topics/t/publishers", publishers).status == 200
            wait_until(lambda: first.share() == 1000, "the broker has the limit")
            disk.fill()
            fill_store(first.http)
        disk.fill()
        with Controller(disk.path, tmp_path / "again.log", first.ports) as again:
            wait_until(lambda: again.share() is not None, "the broker reports")
            fill_store(again.http)
            assert request(again.http, "GET", "/ping").status == 507
            until = time.monotonic() + 3 * LEASE_S
            while time.monotonic() < until:
                assert again.share() == 1000, "a lease that is not renewed falls to its floor"
                time.sleep(0.1)
        assert broker.poll() is None, "it ended with its controller"
    finally:
        broker.kill()
        broker.wait()


def test_a_controller_that_has_nothing_to_serve_and_no_room_says_so_and_ends(disk: Disk) -> None:
    disk.fill()
    flags = ("--http", "--link-address", "--lookup-tcp-address", "--lookup-http-address")
    ports = [word for flag in flags for word in (flag, "127.0.0.1:0")]
    started = subprocess.run(
        [program(), "controller", "--data-dir", str(disk.path), *ports],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert started.returncode not in (0, None), started
    for said in ("No space left", str(disk.path)):
        assert said in started.stderr, started.stderr


def test_a_broker_without_room_says_so_and_serves_on(disk: Disk) -> None:
    broker = Broker(disk.path / "data")
    try:
        assert put(broker.http, "/v1/topics/t", limit(1000)).status == 200
        journal = broker.data_path / "srtm.contracts.jsonl"
        catalog = broker.data_path / "srtm.catalog.json"
        wait_until(lambda: catalog.exists() and not journal.exists(), "the catalog has taken the contract in")
        assert catalog.stat().st_mode & 0o777 == 0o600
        with Siege(broker, "canary", GENEROUS_S) as siege:
            disk.fill()
            answer = put(broker.http, "/v1/topics/t", limit(5))
            assert answer.status == 507, answer
            assert "No space left" in answer.json()["error"], answer
            assert broker.get("/v1/topics/t").json()["limit"]["rate"] == 1000
            ping = broker.get("/ping")
            assert (ping.status, ping.body.startswith(b"NOK - ")) == (500, True), ping
            assert broker.stats()["health"] == ping.body.decode()
            assert "srtm_catalog_writable 0.0" in broker.get("/metrics").body.decode()
            siege.look()
            disk.make_room()
            wait_until(lambda: broker.get("/ping").body == b"OK", "the catalog can be written again")
            assert put(broker.http, "/v1/topics/t", limit(5)).status == 200
            wait_until(lambda: '"rate": 5' in catalog.read_text(), "the catalog holds the contract")
    finally:
        broker.process.kill()
        broker.process.wait()


DAMAGED = {"empty": lambda whole: b"", "cut": lambda whole: whole[:1000], "garbled": lambda whole: b"x" * len(whole)}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize(("command", "file"), [("controller", "controller.redb"), ("broker", "srtm.catalog.json")])
def test_what_is_damaged_is_refused_with_the_remedy_and_left_alone(
    tmp_path: Path, command: str, file: str, damage: str
) -> None:
    whole = b'{"version": 1, "topics": [{"name": "t"}]}' if command == "broker" else bytes(100_000)
    kept = tmp_path / file
    kept.write_bytes(DAMAGED[damage](whole) if command == "controller" or damage != "cut" else whole[:30])
    flags = {
        "controller": ["--data-dir", "--http", "--link-address", "--lookup-tcp-address", "--lookup-http-address"],
        "broker": ["--data-path", "--tcp-address", "--http-address"],
    }[command]
    ports = [word for flag in flags[1:] for word in (flag, "127.0.0.1:0")]
    before = kept.read_bytes()
    started = subprocess.run(
        [program(), command, flags[0], str(tmp_path), *ports],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert started.returncode not in (0, None), started
    for said in (file, "move it away"):
        assert said in started.stderr, started.stderr
    assert kept.read_bytes() == before
