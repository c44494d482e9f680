"""A broker that is started on the data folder of a stock nsqd has what that has left."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import REPOSITORY, Broker, command_line, is_stock_nsqd
from deadlines import GENEROUS_S, wait_until
from raw_protocol import Connection, Message, batch, sized

MESSAGES = 10_000
DEFERRED = 10
FINISHED = 100
TOUCHED = 300
"""Delivered by nsqd; those that it did not hear to be finished are delivered again."""


@pytest.fixture
def on_the_folder(tmp_path: Path) -> Path:
    """A folder for a stock nsqd and then for SRTM."""
    if is_stock_nsqd():
        pytest.skip("the broker under test is nsqd itself")
    return tmp_path / "data"


@contextlib.contextmanager
def stock_nsqd(folder: Path, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Iterator[Broker]:
    """nsqd 1.3.0, stopped at the end."""
    with monkeypatch.context() as within:
        within.setenv("SRTM_NSQD", str(REPOSITORY / "build/bin/nsqd"))
        nsqd = Broker(folder, *flags)
    try:
        yield nsqd
    finally:
        assert nsqd.stop() == 0, nsqd.log()


def publish(nsqd: Broker, topic: str, numbers: range) -> None:
    """Messages with these numbers, in batches."""
    for first in range(numbers.start, numbers.stop, 500):
        bodies = [b"%06d" % number for number in range(first, min(first + 500, numbers.stop))]
        nsqd.post("/mpub", batch(*bodies), topic=topic, binary="true")


def waiting(nsqd: Broker, topic: str, channel: str) -> int:
    """Messages that a channel has, deferred ones included."""
    entry = nsqd.channel(topic, channel)
    return entry["depth"] + entry["deferred_count"]


def deliver_some(nsqd: Broker) -> dict[bytes, Message]:
    """Lets nsqd deliver messages of `t/work`, of which only the first are finished before it stops."""
    with Connection(nsqd.tcp) as consumer:
        consumer.subscribe("t", "work", ready=TOUCHED)
        messages = [consumer.next_message() for _ in range(TOUCHED)]
        consumer.send(b"RDY 0\n")
        for message in messages[:FINISHED]:
            consumer.finish(message)
        nsqd.wait_for_channel("t", "work", in_flight_count=TOUCHED - FINISHED)
    return {message.body: message for message in messages}


def consume(broker: Broker, topic: str, channel: str, count: int) -> dict[bytes, Message]:
    """That many messages, each once."""
    seen: dict[bytes, Message] = {}
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, channel, ready=500)
        for _ in range(count):
            message = consumer.next_message()
            assert message.body not in seen
            seen[message.body] = message
            consumer.finish(message)
        broker.wait_for_channel(topic, channel, depth=0, in_flight_count=0, deferred_count=0)
    return seen


@pytest.mark.parametrize("threads", [1, 2])
def test_all_that_nsqd_has_left_is_taken_over(
    on_the_folder: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    with stock_nsqd(on_the_folder, monkeypatch, "-mem-queue-size=100") as nsqd:
        nsqd.post("/topic/create", topic="t")
        for channel in ("work", "paused"):
            nsqd.post("/channel/create", topic="t", channel=channel)
        nsqd.post("/channel/pause", topic="t", channel="paused")
        nsqd.post("/topic/create", topic="waiting")
        publish(nsqd, "t", range(MESSAGES))
        publish(nsqd, "waiting", range(500))
        with Connection(nsqd.tcp) as publisher:
            for number in range(DEFERRED):
                publisher.send(b"DPUB t 600000\n" + sized(b"later %d" % number))
                publisher.expect_response()
        # What goes through nsqd's disk is deferred no more.
        wait_until(lambda: waiting(nsqd, "t", "paused") == MESSAGES + DEFERRED, "all are in the channel")
        delivered = deliver_some(nsqd)
    broker = Broker(on_the_folder, "-mem-queue-size=1000", f"-threads={threads}")
    try:
        left = 2 * (MESSAGES + DEFERRED) - FINISHED + 500
        assert f"took over 2 topics from nsqd, with {left} messages of 3 queues" in broker.log()
        assert broker.channel("t", "paused")["paused"]
        broker.post("/channel/unpause", topic="t", channel="paused")
        on_paused = consume(broker, "t", "paused", MESSAGES + DEFERRED)
        on_work = consume(broker, "t", "work", MESSAGES + DEFERRED - FINISHED)
        broker.post("/channel/create", topic="waiting", channel="late")
        assert len(consume(broker, "waiting", "late", 500)) == 500
    finally:
        assert broker.stop() == 0, broker.log()
    # Nothing is said of those that were finished, and those that were delivered are delivered again.
    finished = list(delivered)[:FINISHED]
    assert on_paused.keys() - on_work.keys() == set(finished)
    for body, message in on_work.items():
        assert message.attempts == (2 if body in delivered else 1), message
        assert message.timestamp_ns == on_paused[body].timestamp_ns
    for body, message in delivered.items():
        assert on_paused[body].timestamp_ns == message.timestamp_ns
        assert on_paused[body].id == message.id
    names = {path.name for path in on_the_folder.iterdir()}
    assert not [name for name in names if "diskqueue" in name or name == "nsqd.dat"], names
    assert (on_the_folder / "nsqd-taken" / "nsqd.dat").exists()
    again = Broker(on_the_folder)
    try:
        assert "took over" not in again.log()
        topics = again.stats()["topics"]
        assert {topic["topic_name"]: topic["depth"] for topic in topics} == {"t": 0, "waiting": 0}
        assert all(channel["depth"] == 0 for topic in topics for channel in topic["channels"])
    finally:
        assert again.stop() == 0, again.log()


def test_the_folder_of_a_running_nsqd_is_left_alone(on_the_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stock_nsqd(on_the_folder, monkeypatch) as nsqd:
        publish(nsqd, "t", range(10))
        ports = ["-tcp-address=127.0.0.1:0", "-http-address=127.0.0.1:0"]
        command = [*command_line(), *ports, f"-data-path={on_the_folder}"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=False)
        assert refused.returncode == 1, refused
        assert "nsqd uses this data folder; stop it" in refused.stderr
        assert nsqd.topic("t")["depth"] == 10
    # Nor does nsqd start where SRTM runs.
    broker = Broker(on_the_folder)
    try:
        assert "took over 1 topics from nsqd, with 10 messages" in broker.log()
        stock = [str(REPOSITORY / "build/bin/nsqd"), *ports, f"-data-path={on_the_folder}"]
        refused = subprocess.run(stock, capture_output=True, text=True, timeout=GENEROUS_S, check=False)
        assert refused.returncode != 0
        assert "possibly in use by another instance of nsqd" in refused.stderr
    finally:
        assert broker.stop() == 0, broker.log()
