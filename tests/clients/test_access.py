"""Tokens at a whole cluster: its API, its brokers, our own clients, and what brokers say to each other."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import srtm

from controller_with_brokers import Cluster, program
from deadlines import wait_until
from lookup_service import request, text

pytestmark = pytest.mark.srtm_only


def run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """A command of srtm's."""
    given = None if stdin is None else stdin.decode()
    return subprocess.run(
        [program(), *arguments], capture_output=True, text=True, input=given, timeout=120, check=False
    )


def make_token(*arguments: str) -> tuple[str, str]:
    """A token and its lines."""
    made = run("access", "token", *arguments)
    assert made.returncode == 0, made.stderr
    (token,) = [line for line in made.stderr.splitlines() if line.startswith("srtm_")]
    return token, made.stdout


class Tokens:
    """A file with an operator's token and a publisher's."""

    def __init__(self, folder: Path) -> None:
        self.admin, admin_lines = make_token("--name", "operator", "--role", "admin", "--topics", "*")
        self.publish, publish_lines = make_token("--name", "sensor", "--role", "publish", "--topics", "tele*")
        self.file = folder / "access.toml"
        self.file.write_text(admin_lines + publish_lines)


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path, tokens: Tokens) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "up", f"--access={tokens.file}", token=tokens.admin)
    yield cluster
    cluster.stop()


def test_a_cluster_under_tokens(cluster: Cluster, tokens: Tokens) -> None:
    controller = f"http://{text(cluster.http)}"
    set_limit = ("topic", "set", "telemetry", "--rate", "1000", "--burst", "50", "--controller", controller)
    refused = run(*set_limit)
    assert refused.returncode == 1 and "a token is needed" in refused.stderr
    refused = run(*set_limit, "--token", tokens.publish)
    assert refused.returncode == 1 and "the role admin over the topic `telemetry`" in refused.stderr
    assert run(*set_limit, "--token", tokens.admin).returncode == 0
    for broker in cluster.brokers:
        assert request(cluster.broker_http(broker), "GET", "/stats?format=json").status == 401
    assert request(cluster.lookup, "GET", "/lookup?topic=telemetry").status == 401

    async def publish() -> None:
        async with srtm.Publisher(
            controller=controller, topic="telemetry", id="s1", rate=10, token=tokens.publish
        ) as publisher:
            for number in range(20):
                await publisher.publish(b"%d" % number)
            await publisher.flush()

    asyncio.run(publish())
    placed = cluster.get("/v1/topics/telemetry/publishers")["publishers"]
    assert [publisher["id"] for publisher in placed] == ["s1"]
    first = placed[0]["broker"]["broker"]
    tcp = text(cluster.tcp(first))
    assert run("pub", "telemetry", "--message", "x", "--tcp", tcp, "--token", tokens.publish).returncode == 0
    assert "E_AUTH_FIRST" in run("pub", "telemetry", "--message", "x", "--tcp", tcp).stderr
    assert "E_UNAUTHORIZED" in run("pub", "other", "--message", "x", "--tcp", tcp, "--token", tokens.publish).stderr
    hands_over(cluster, first)
    heard = [
        run("sub", "telemetry", "archive", "--count", "21", "--tcp", text(cluster.tcp(broker)), "--token", tokens.admin)
        for broker in cluster.brokers
        if broker != first
    ]
    assert sorted(heard[0].stdout.split()) == sorted([*map(str, range(20)), "x"])


def hands_over(cluster: Cluster, broker: str) -> None:
    """A broker that is drained gives what it holds to the other, under tokens as well."""
    answer = request(cluster.lookup, "POST", "/channel/create?topic=telemetry&channel=archive", cluster.headers)
    assert answer.status == 200, answer
    cluster.post(f"/v1/brokers/{broker}/drain")

    def is_empty() -> bool:
        stats = request(cluster.broker_http(broker), "GET", "/stats?format=json&topic=telemetry", cluster.headers)
        topics = json.loads(stats.body)["topics"] or []
        depths = [entry["depth"] + sum(channel["depth"] for channel in entry["channels"]) for entry in topics]
        return sum(depths) == 0

    wait_until(is_empty, "the drained broker's queues to be empty")


def test_a_door_to_other_machines_needs_tokens_or_a_word() -> None:
    for command in (
        ["broker", "--tcp-address=0.0.0.0:0", "--http-address=none"],
        ["broker", "--tcp-address=127.0.0.1:0", "--http-address=0.0.0.0:0"],
        ["controller", "--http=0.0.0.0:0"],
        ["up", "--http=0.0.0.0:0"],
    ):
        refused = run(*command)
        assert refused.returncode == 2, command
        assert "nobody would have to say who he is; give --access FILE" in refused.stderr
