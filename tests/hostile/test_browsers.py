"""What a page in a browser may do to a daemon of the same machine: look at it, and change nothing."""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Address, Broker, HttpAnswer
from controller_with_brokers import Cluster
from deadlines import GENEROUS_S
from lookup_service import Nsqlookupd

EVIL = "http://evil.example"


def ask(at: Address, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> HttpAnswer:
    """One exchange with these headers; `Host` is the address unless they name another one."""
    connection = http.client.HTTPConnection(*at, timeout=GENEROUS_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Address]]:
    """One of each daemon: where its HTTP is."""
    folder = tmp_path_factory.mktemp("browsers")
    broker, lookup = Broker(folder / "broker"), Nsqlookupd(folder / "lookup")
    cluster = Cluster(folder / "cluster", "--http-host=ctrl.example,srtm.example", brokers=1)
    try:
        yield {
            "broker": broker.http,
            "lookup": lookup.http,
            "controller": cluster.http,
            "its lookup": cluster.lookup,
            "its broker": cluster.broker_http("b1"),
        }
    finally:
        for each in broker, lookup, cluster:
            each.stop()


CHANGES = [
    ("broker", "POST", "/topic/create?topic=t", None),
    ("broker", "POST", "/pub?topic=t", b"x"),
    ("broker", "POST", "/topic/empty?topic=t", None),
    ("broker", "PUT", "/config/log_level", b"info"),
    ("broker", "PUT", "/v1/topics/t", b'{"limit":{"rate":10,"burst":5}}'),
    ("broker", "DELETE", "/v1/topics/t", None),
    ("lookup", "POST", "/topic/create?topic=t", None),
    ("lookup", "POST", "/topic/delete?topic=t", None),
    ("controller", "PUT", "/v1/topics/t", b'{"limit":{"rate":10,"burst":5}}'),
    ("controller", "POST", "/v1/brokers/b1/drain", None),
    ("controller", "POST", "/v1/brokers/b1/resume", None),
    ("controller", "DELETE", "/v1/topics/t", None),
    ("its lookup", "POST", "/topic/create?topic=u", None),
    ("its broker", "POST", "/topic/create?topic=u", None),
]
"""Changes, in an order in which each is possible."""


@pytest.mark.parametrize(("daemon", "method", "path", "body"), CHANGES)
def test_changes_are_for_programs_and_own_pages(
    ports: dict[str, Address], daemon: str, method: str, path: str, body: bytes | None
) -> None:
    at = ports[daemon]
    port = at[1]
    for foreign in (
        {"Origin": EVIL},
        {"Origin": f"{EVIL}:{port}"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{port + 1}"},
        {"Origin": f"http://localhost:{port}"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{port}"},
        {"Host": f"127.0.0.1.evil.example:{port}"},
        {"Host": f"evil.example:{port}", "Origin": f"{EVIL}:{port}"},
    ):
        refused = ask(at, method, path, foreign, body)
        assert refused.status == 403, foreign
        (text,) = refused.json().values()
        assert ("--http-host evil.example" if "Host" in foreign else "from a program") in text or "127.0.0.1." in text
        assert refused.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in refused.headers
    for ours in (
        {},
        {"Origin": f"http://127.0.0.1:{port}"},
        {"Host": f"localhost:{port}"},
        {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"},
        # A name without a dot, as containers have it: no stranger can own one.
        {"Host": f"nsqd:{port}"},
    ):
        answer = ask(at, method, path, ours, body)
        assert answer.status != 403, (ours, answer)
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("daemon", ["broker", "lookup", "controller", "its lookup", "its broker"])
def test_everybody_may_look(ports: dict[str, Address], daemon: str) -> None:
    for headers in {"Origin": EVIL}, {"Host": "evil.example"}:
        answer = ask(ports[daemon], "GET", "/ping", headers)
        assert (answer.status, answer.body) == (200, b"OK")
        assert answer.headers["x-content-type-options"] == "nosniff"
        # But no page reads the answer.
        assert "access-control-allow-origin" not in answer.headers
        unknown = ask(ports[daemon], "GET", "/nowhere", headers)
        assert (unknown.status, unknown.headers["x-content-type-options"]) == (404, "nosniff")


@pytest.mark.parametrize("daemon", ["controller", "its lookup", "its broker"])
def test_srtm_up_hands_on_the_names_that_it_was_told(ports: dict[str, Address], daemon: str) -> None:
    for name, status in ("ctrl.example", 404), ("SRTM.example:80", 404), ("other.example", 403):
        assert ask(ports[daemon], "POST", "/nowhere", {"Host": name}).status == status, name


def test_daemons_have_the_names_that_they_were_told(start_broker: Callable[..., Broker], tmp_path: Path) -> None:
    broker = start_broker("-http-host=one.example", "-http-host", "two.example")
    lookup = Nsqlookupd(tmp_path, "-broadcast-address=one.example", "-http-host=two.example")
    try:
        for at in broker.http, lookup.http:
            for name, status in ("one.example", 200), ("two.example", 200), ("three.example", 403), ("example", 200):
                assert ask(at, "POST", "/topic/create?topic=t", {"Host": name}).status == status, (at, name)
    finally:
        lookup.stop()


def test_what_was_refused_is_counted(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker()
    for _ in range(3):
        assert ask(broker.http, "POST", "/topic/create?topic=t", {"Origin": EVIL}).status == 403
    assert b"\nsrtm_http_foreign_total 3\n" in broker.get("/metrics").body


def test_a_foreign_page_drains_no_broker(ports: dict[str, Address]) -> None:
    """A form of any page can send this."""
    headers = {"Origin": EVIL, "Content-Type": "text/plain", "Sec-Fetch-Site": "cross-site"}
    assert ask(ports["controller"], "POST", "/v1/brokers/b1/drain", headers).status == 403
    view = json.loads(ask(ports["controller"], "GET", "/v1/brokers/b1", {}).body)
    assert view["state"] == "up", view
