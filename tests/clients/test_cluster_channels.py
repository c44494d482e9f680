"""A topic is one topic, wherever its publishers are.

Stock consumers that come by lookup get every message of `srtm up`'s brokers, also what came while they were away.
"""

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import srtm

import tools
from broker import LOST
from controller_with_brokers import Cluster
from deadlines import GENEROUS_S, wait_until
from lookup_service import post, request, text
from raw_protocol import Connection

pytestmark = pytest.mark.srtm_only
"""nsqd's have no controller."""

LINES = [f"line {i}" for i in range(200)]
MORE = [f"more {i}" for i in range(200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers under a controller; they must live to the end and then stop in order."""
    shared = Cluster(tmp_path_factory.mktemp("up"))
    yield shared
    assert shared.process.poll() is None, f"srtm up died:\n{shared.log()[-4000:]}"
    # Tests leave messages behind.
    assert shared.stop() in (0, LOST)


@contextmanager
def archive(folder: Path, cluster: Cluster, topic: str, channel: str) -> Iterator[Path]:
    """nsq_to_file by lookup; the folder that it writes to."""
    files = folder / f"files_{channel}"
    files.mkdir()
    flags = [
        f"-lookupd-http-address={text(cluster.lookup)}",
        f"-topic={topic}",
        f"-channel={channel}",
        f"-output-dir={files}",
        "-sync-interval=50ms",
    ]
    with tools.running(folder, "nsq_to_file", *flags):
        yield files


def written(files: Path) -> list[str]:
    """All lines that nsq_to_file has written so far, in order of their text."""
    return sorted(line for file in files.iterdir() for line in file.read_text().splitlines())


def tail(folder: Path, cluster: Cluster, topic: str, channel: str, count: int) -> list[str]:
    """What nsq_tail by lookup prints until it has so many messages, in order of their text."""
    flags = [f"-lookupd-http-address={text(cluster.lookup)}", f"-topic={topic}", f"-channel={channel}", f"-n={count}"]
    with tools.running(folder, "nsq_tail", *flags) as reader:
        assert reader.process.wait(timeout=GENEROUS_S) == 0, reader.log()
        return sorted(reader.output().splitlines())


def make_channels(cluster: Cluster, broker: str, topic: str, *channels: str) -> None:
    """Channels at one broker, as a consumer that came and went leaves them."""
    post(cluster.broker_http(broker), "/topic/create", topic=topic)
    for channel in channels:
        post(cluster.broker_http(broker), "/channel/create", topic=topic, channel=channel)


def publish(cluster: Cluster, broker: str, topic: str, lines: list[str]) -> None:
    """Publishes with a stock tool that knows one broker."""
    stdin = "".join(f"{line}\n" for line in lines).encode()
    tools.run("to_nsq", f"-nsqd-tcp-address={text(cluster.tcp(broker))}", f"-topic={topic}", stdin=stdin)


def test_a_second_broker_has_the_channels_before_its_first_message(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    make_channels(cluster, "b1", topic, "c", "d")
    publish(cluster, "b2", topic, LINES)
    assert tail(tmp_path, cluster, topic, "c", len(LINES)) == sorted(LINES)
    with archive(tmp_path, cluster, topic, "d") as files:
        wait_until(lambda: written(files) == sorted(LINES), "every line in d's file")


def test_a_consumer_that_was_away_gets_both_sides_of_a_drain(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    async def publish_around_a_drain() -> None:
        async with srtm.Publisher(
            controller=f"http://{text(cluster.http)}", topic=topic, id="s1", register=True
        ) as publisher:
            await publisher.publish(b"first")
            await publisher.flush()
            home = next(name for name in cluster.brokers if text(cluster.tcp(name)) == publisher.broker)
            make_channels(cluster, home, topic, "c", "d")
            await publisher.publish_batch([line.encode() for line in LINES])
            await publisher.flush()
            cluster.post(f"/v1/brokers/{home}/drain")
            try:
                async with asyncio.timeout(GENEROUS_S):
                    while publisher.broker in (None, text(cluster.tcp(home))):
                        await asyncio.sleep(0.01)
                await publisher.publish_batch([line.encode() for line in MORE])
                await publisher.flush()
            finally:
                cluster.post(f"/v1/brokers/{home}/resume")

    asyncio.run(publish_around_a_drain())
    # The first message came before there were channels. The channel that was made first has it; the other one, too, if
    # the controller had not answered for the topic before both were there.
    everything = sorted([*LINES, *MORE])
    assert tail(tmp_path, cluster, topic, "c", len(everything) + 1) == sorted([*everything, "first"])
    with archive(tmp_path, cluster, topic, "d") as files:
        wait_until(lambda: set(written(files)) >= set(everything), "every line in d's file")
        assert [line for line in written(files) if line != "first"] == everything


def test_what_waits_at_a_broker_that_leaves_is_found_at_another(topic: str, tmp_path: Path) -> None:
    leaving = Cluster(tmp_path / "up", "--end-drained-after", "10m")
    try:
        paused = f"{topic}_paused"
        make_channels(leaving, "b1", topic, "c", "d")
        make_channels(leaving, "b1", paused, "c")
        post(leaving.broker_http("b1"), "/topic/pause", topic=paused)
        publish(leaving, "b1", topic, LINES)
        publish(leaving, "b1", paused, LINES)
        with Connection(leaving.tcp("b1")) as consumer:
            consumer.subscribe(topic, "c", ready=1)
            requeued = consumer.next_message()
            consumer.send(b"RDY 0\n")
            consumer.requeue(requeued, 1_000)
            consumer.send(b"CLS\n")
            consumer.expect_response(b"CLOSE_WAIT")
        leaving.post("/v1/brokers/b1/drain")

        def state() -> str:
            brokers = leaving.get("/v1/brokers")["brokers"]
            return next(broker["state"] for broker in brokers if broker["broker"] == "b1")

        wait_until(lambda: state() == "dead", f"b1 hands over what it holds and ends:\n{leaving.log()[-2000:]}")
        assert "is empty and ends" in leaving.log()
        with Connection(leaving.tcp("b2")) as consumer:
            consumer.subscribe(topic, "c", ready=len(LINES))
            messages = [consumer.next_message() for _ in LINES]
        assert sorted(message.body.decode() for message in messages) == sorted(LINES)
        again = next(message for message in messages if message.body == requeued.body)
        assert (again.attempts, again.timestamp_ns) == (2, requeued.timestamp_ns)
        assert tail(tmp_path, leaving, topic, "d", len(LINES)) == sorted(LINES)
        post(leaving.broker_http("b2"), "/topic/unpause", topic=paused)
        assert tail(tmp_path, leaving, paused, "c", len(LINES)) == sorted(LINES)
    finally:
        leaving.stop()


def test_strangers_hand_nothing_over(cluster: Cluster, topic: str) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer 0123"}):
        connection = http.client.HTTPConnection(*cluster.broker_http("b1"), timeout=GENEROUS_S)
        connection.request("POST", f"/v1/handover?topic={topic}&channel=c", body=b"x", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()


def test_a_topic_is_listed_by_its_channels_alone(cluster: Cluster, topic: str) -> None:
    make_channels(cluster, "b2", topic, "c")

    def listed() -> bool:
        answer = request(cluster.lookup, "GET", "/lookup", topic=topic)
        found = answer.json() if answer.status == 200 else {"channels": [], "producers": []}
        ports = [producer["tcp_port"] for producer in found["producers"]]
        return (found["channels"], ports) == (["c"], [cluster.tcp("b2")[1]])

    wait_until(listed, "the broker in /lookup")
    post(cluster.broker_http("b2"), "/topic/delete", topic=topic)
    wait_until(lambda: not listed(), "the broker gone from /lookup")
