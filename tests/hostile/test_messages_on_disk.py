"""What queues have on disk: over a kill, over a stop, on a full disk, within a budget."""

import base64
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Broker
from controller_with_brokers import program
from deadlines import GENEROUS_S, wait_until
from full_disk import Disk
from raw_protocol import Connection, sized

StartBroker = Callable[..., Broker]

MEMORY = 100
"""Messages that each queue may have in memory."""
BODY = 1000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of the test's own."""
    with Disk(tmp_path / "disk", 8) as disk:
        yield disk


def body(number: int, length: int = BODY) -> bytes:
    """A body that says its number."""
    return b"%d" % number + b" " * (length - len(b"%d" % number))


def publish(broker: Broker, topic: str, numbers: range, length: int = BODY) -> None:
    """Publishes numbers; all are acknowledged when it returns."""
    with Connection(broker.tcp) as publisher:
        for first in range(numbers.start, numbers.stop, 50):
            batch = range(first, min(first + 50, numbers.stop))
            publisher.publish_batch(topic, *(body(number, length) for number in batch))


def consume(broker: Broker, topic: str, count: int) -> list[int]:
    """Takes and finishes so many messages, and looks that there are no more."""
    taken = []
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=50)
        for _ in range(count):
            message = consumer.next_message()
            taken.append(int(message.body))
            consumer.finish(message)
        broker.wait_for_channel(topic, "c", depth=0, in_flight_count=0)
    return taken


def make(broker: Broker, topic: str) -> None:
    """A topic with a channel that nobody consumes."""
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="c")


def files(broker: Broker) -> list[Path]:
    """Files with messages."""
    return sorted((broker.data_path / "srtm.queues").glob("*.segments"))


def check(broker: Broker) -> subprocess.CompletedProcess[str]:
    """What `srtm disk check` says of a broker that does not run."""
    command = [program(), "disk", "check", str(broker.data_path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=False)


def dump(broker: Broker, *flags: str) -> subprocess.CompletedProcess[str]:
    """What `srtm disk dump` says."""
    command = [program(), "disk", "dump", str(broker.data_path), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=False)


def metric(broker: Broker, name: str) -> float:
    """A figure of `/metrics`."""
    lines = broker.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stop_keeps_everything_and_a_start_goes_on(start_broker: StartBroker, topic: str, threads: int) -> None:
    flags = (f"-mem-queue-size={MEMORY}", f"-threads={threads}", "-drain-timeout=100ms")
    broker = start_broker(*flags)
    make(broker, topic)
    publish(broker, topic, range(1_000))
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as publisher:
        consumer.subscribe(topic, "c", ready=10)
        flying = [consumer.next_message() for _ in range(10)]
        consumer.requeue(flying[0], 3_000)
        publisher.send(f"DPUB {topic} 3000\n".encode() + sized(body(1_000)))
        publisher.expect_response()
        broker.wait_for_channel(topic, "c", deferred_count=2)
        wait_until(lambda: broker.channel(topic, "c")["backend_depth"] > 500, "most of it is on disk")
        assert broker.stop() == 0, broker.log()
    assert "ERROR" not in broker.log()
    again = start_broker(*flags)
    again.wait_for_channel(topic, "c", deferred_count=2, depth=999)
    with Connection(again.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=100)
        seen = {}
        order = []
        for _ in range(1_001):
            message = consumer.next_message()
            assert int(message.body) not in seen
            seen[int(message.body)] = message
            order.append(int(message.body))
            consumer.finish(message)
        again.wait_for_channel(topic, "c", depth=0, in_flight_count=0, deferred_count=0)
    first = int(flying[0].body)
    late = [first, 1_000]
    assert sorted(order) == list(range(1_001))
    assert sorted(order[-2:]) == sorted(late), "what was deferred comes last"
    on_time = [number for number in order if number not in late]
    assert on_time == sorted(on_time)
    for message in flying:
        was = seen[int(message.body)]
        assert (was.attempts, was.id, was.timestamp_ns) == (message.attempts + 1, message.id, message.timestamp_ns)
    wait_until(lambda: not files(again), "no file is left")
    assert again.stop() == 0


def test_what_was_on_disk_outlives_a_kill_and_memory_is_lost(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(f"-mem-queue-size={MEMORY}")
    make(broker, topic)
    publish(broker, topic, range(5_000))
    broker.wait_for_channel(topic, "c", depth=5_000)
    wait_until(lambda: broker.channel(topic, "c")["backend_depth"] >= 5_000 - MEMORY, "the rest is on disk")
    depth = broker.channel(topic, "c")["backend_depth"]
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait(GENEROUS_S)
    again = start_broker(f"-mem-queue-size={MEMORY}")
    left = again.channel(topic, "c")["depth"]
    assert 5_000 - MEMORY <= depth <= left < 5_000
    taken = consume(again, topic, left)
    assert taken == sorted(set(taken))
    assert again.stop() == 0


def test_a_damaged_file_costs_what_was_hit_and_is_told(start_broker: StartBroker, topic: str) -> None:
    flags = (f"-mem-queue-size={MEMORY}", "-max-bytes-per-file=100000")
    broker = start_broker(*flags)
    make(broker, topic)
    publish(broker, topic, range(1_000))
    assert broker.stop() == 0
    checked = check(broker)
    assert (checked.returncode, "1000 messages" in checked.stdout) == (0, True), checked
    hit = files(broker)[1]
    whole = bytearray(hit.read_bytes())
    whole[len(whole) // 2] ^= 1
    hit.write_bytes(whole)
    checked = check(broker)
    assert checked.returncode == 1, checked
    assert f"{hit.name}: " in checked.stdout and "are damaged" in checked.stdout and "999 messages" in checked.stdout
    assert "1 files are damaged" in checked.stderr
    again = start_broker(*flags)
    assert f"{hit.name}: " in again.log() and "are damaged" in again.log()
    assert metric(again, "srtm_disk_damages_total") == 1
    taken = consume(again, topic, 999)
    assert len(set(taken)) == 999
    assert again.stop() == 0


def test_a_full_disk_makes_publishers_wait_and_costs_nothing(disk: Disk, topic: str) -> None:
    broker = Broker(disk.path / "data", f"-mem-queue-size={MEMORY}")
    try:
        make(broker, topic)
        publish(broker, topic, range(500))
        wait_until(lambda: broker.channel(topic, "c")["backend_depth"] > 0, "some of it is on disk")
        disk.fill()
        with Connection(broker.tcp) as publisher:
            for number in range(500, 1_500):
                publisher.send(f"PUB {topic}\n".encode() + sized(body(number)))
            wait_until(lambda: broker.topic(topic)["srtm"]["held_publishers"] >= 1, "the publisher is held back")
            nok = b"NOK - messages cannot be kept on disk"
            wait_until(lambda: broker.get("/ping").body.startswith(nok), "the disk is known to be full")
            wait_until(lambda: metric(broker, "srtm_disk_writable") == 0, "the metric shows it")
            # Others, and its own consumers, go on.
            publish(broker, f"{topic}_other", range(10))
            assert len(consume(broker, f"{topic}_other", 10)) == 10
            disk.make_room()
            for _ in range(500, 1_500):
                publisher.expect_response()
        wait_until(lambda: broker.get("/ping").body == b"OK", "the disk takes messages again")
        assert consume(broker, topic, 1_500) == list(range(1_500))
        assert "messages can be written to disk again" in broker.log()
        assert broker.stop() == 0, broker.log()
    finally:
        broker.process.kill()
        broker.process.wait()


def test_a_stop_on_a_full_disk_says_what_it_loses(disk: Disk, topic: str) -> None:
    broker = Broker(disk.path / "data", f"-mem-queue-size={MEMORY}")
    try:
        make(broker, topic)
        publish(broker, topic, range(500))
        broker.wait_for_channel(topic, "c", depth=500)
        wait_until(lambda: len(files(broker)) == 1, "only the channel has a file")
        disk.fill()
        assert broker.stop() == 3
        told = re.search(r"the stop lost (\d+) messages", broker.log())
        assert told, broker.log()
        kept = 500 - int(told[1])
    finally:
        broker.process.kill()
        broker.process.wait()
    disk.make_room()
    again = Broker(disk.path / "data", f"-mem-queue-size={MEMORY}")
    try:
        taken = consume(again, topic, kept)
        assert len(set(taken)) == kept < 500
        assert taken == sorted(taken)
        assert again.stop() == 0
    finally:
        again.process.kill()
        again.process.wait()


def test_within_the_budget_publishers_wait_and_go_on(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(f"-mem-queue-size={MEMORY}", "-disk-budget=200KiB", "-max-bytes-per-file=50000")
    make(broker, topic)
    with Connection(broker.tcp) as publisher:
        for number in range(1_000):
            publisher.send(f"PUB {topic}\n".encode() + sized(body(number)))
        wait_until(lambda: broker.topic(topic)["srtm"]["held_publishers"] >= 1, "the publisher is held back")
        wait_until(lambda: metric(broker, "srtm_disk_full") == 1, "the budget is used up")
        assert metric(broker, "srtm_disk_used_bytes") <= 200 * 1024
        assert broker.get("/ping").body == b"OK"
        assert consume(broker, topic, 1_000) == list(range(1_000))
        for _ in range(1_000):
            publisher.expect_response()
    assert broker.stop() == 0


def test_large_messages_go_out_before_memory_is_used_up(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-memory-budget=48MiB", "-max-bytes-per-file=4000000")
    make(broker, topic)
    with Connection(broker.tcp) as publisher:
        for number in range(200):
            publisher.publish(topic, body(number, 500_000))
    assert broker.channel(topic, "c")["depth"] + broker.topic(topic)["depth"] == 200
    assert consume(broker, topic, 200) == list(range(200))
    assert broker.stop() == 0


def test_what_is_ephemeral_never_touches_the_disk(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(f"-mem-queue-size={MEMORY}")
    name = f"{topic}#ephemeral"
    publish(broker, name, range(1_000))
    entry = broker.topic(name)
    assert (entry["depth"], entry["backend_depth"], files(broker)) == (MEMORY, 0, [])


def test_emptying_and_deleting_give_the_disk_back(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(f"-mem-queue-size={MEMORY}")
    for name in (topic, f"{topic}_b"):
        make(broker, name)
        publish(broker, name, range(1_000))
    broker.post("/channel/pause", topic=topic, channel="c")
    wait_until(lambda: len(files(broker)) >= 2, "both have files")
    broker.post("/channel/empty", topic=topic, channel="c")
    broker.post("/topic/empty", topic=topic)
    broker.post("/topic/delete", topic=f"{topic}_b")
    wait_until(lambda: not files(broker), "the files are gone")
    wait_until(lambda: metric(broker, "srtm_disk_used_bytes") == 0, "nothing counts any more")
    assert broker.stop() == 0


def test_a_second_broker_on_the_folder_says_so_and_ends(start_broker: StartBroker) -> None:
    broker = start_broker()
    ports = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
    started = subprocess.run(
        [program(), "broker", *ports, f"--data-path={broker.data_path}"],
        capture_output=True,
        text=True,
        timeout=GENEROUS_S,
        check=False,
    )
    assert started.returncode == 1, started
    assert "another broker uses this data folder" in started.stderr


def test_a_dump_has_every_message_and_every_damage(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker(f"-mem-queue-size={MEMORY}", "-drain-timeout=100ms")
    make(broker, topic)
    publish(broker, topic, range(500))
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "c", ready=1)
        first = consumer.next_message()
        consumer.send(b"RDY 0\n")
        consumer.requeue(first, 600_000)
        broker.wait_for_channel(topic, "c", deferred_count=1, depth=499)
        running = dump(broker)
        assert (running.returncode, running.stdout) == (1, ""), running
        assert "in use by another process" in running.stderr
        assert broker.stop() == 0, broker.log()
    before = {path.name: path.read_bytes() for path in files(broker)}
    whole = dump(broker, "--bodies")
    assert whole.returncode == 0, whole
    lines = [json.loads(line) for line in whole.stdout.splitlines()]
    numbers = [int(base64.b64decode(line["body"])) for line in lines]
    assert sorted(numbers) == list(range(500))
    for number, line in zip(numbers, lines, strict=True):
        assert (line["topic"], line["channel"]) == (topic, "c")
        assert line["body_bytes"] == len(body(number))
        is_first = line["id"] == first.id.decode()
        assert line["attempts"] == (1 if is_first else 0)
        deferred_ns = line.get("deferred_until_ns", line["timestamp_ns"]) - line["timestamp_ns"]
        assert (deferred_ns > 500e9) == is_first, line
    assert {path.name: path.read_bytes() for path in files(broker)} == before
    # One byte in the middle of a file costs one message, and is told.
    damaged = max(files(broker), key=lambda path: path.stat().st_size)
    contents = bytearray(damaged.read_bytes())
    contents[len(contents) // 2] ^= 1
    damaged.write_bytes(contents)
    told = dump(broker)
    assert told.returncode == 1, told
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert len([line for line in lines if "topic" in line]) == 499
    assert all("body" not in line for line in lines)
    offsets = [line["offset"] for line in lines if line.get("file") == damaged.name and "offset" in line]
    assert len(offsets) == 1
    assert offsets[0] <= len(contents) // 2 < offsets[0] + 1_200
