"""Durable topics: what was acknowledged is there after a kill, a full disk, a flipped bit, and a change of mind."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Broker
from controller_with_brokers import program
from deadlines import GENEROUS_S, wait_until
from full_disk import Disk
from raw_protocol import Connection, sized

StartBroker = Callable[..., Broker]

LATER_MS = 3_600_000
"""A delay that no test waits for."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk of the test's own."""
    with Disk(tmp_path / "disk", 8) as disk:
        yield disk


def declare(broker: Broker, topic: str, durability: str) -> None:
    """Puts a contract into force that says how durable a topic is."""
    contract = json.dumps({"durability": durability}).encode()
    answer = broker.request("PUT", f"/v1/topics/{topic}", contract)
    assert answer.status == 200, answer


def make(broker: Broker, topic: str, durability: str, *channels: str) -> None:
    """A topic with channels."""
    declare(broker, topic, durability)
    for channel in channels or ("c",):
        broker.post("/channel/create", topic=topic, channel=channel)


def kill(broker: Broker) -> None:
    """Ends a broker as the power button ends a process."""
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait(GENEROUS_S)


def publish(broker: Broker, topic: str, numbers: range, length: int = 0) -> None:
    """Publishes numbers; all are acknowledged when it returns."""
    with Connection(broker.tcp) as publisher:
        for number in numbers:
            publisher.send(f"PUB {topic}\n".encode() + sized(b"%d" % number + b" " * length))
        for _ in numbers:
            publisher.expect_response()


def consume(broker: Broker, topic: str, channel: str, count: int) -> dict[int, int]:
    """Takes and finishes so many messages, and looks that there are no more; gives their attempts, in order."""
    taken: dict[int, int] = {}
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, channel, ready=50)
        for _ in range(count):
            message = consumer.next_message()
            assert int(message.body) not in taken
            taken[int(message.body)] = message.attempts
            consumer.finish(message)
        broker.wait_for_channel(topic, channel, depth=0, in_flight_count=0)
    return taken


def waits(broker: Broker, topic: str, channel: str) -> int:
    """Messages that a channel has, or is to get: where it is full the last ones wait in the topic."""
    entry = broker.topic(topic)
    return entry["depth"] + next(c["depth"] for c in entry["channels"] if c["channel_name"] == channel)


def logs(broker: Broker) -> list[Path]:
    """Files of logs."""
    return sorted((broker.data_path / "srtm.queues" / "logs").glob("*.segments"))


def metric(broker: Broker, name: str) -> float:
    """A figure of `/metrics`."""
    lines = broker.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("durability", ["disk", "fsync"])
def test_a_kill_costs_nothing_that_was_acknowledged(
    start_broker: StartBroker, topic: str, durability: str, threads: int
) -> None:
    flags = ("-mem-queue-size=50", f"-threads={threads}")
    broker = start_broker(*flags)
    make(broker, topic, durability, "a", "b")
    publish(broker, topic, range(300))
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "a", ready=30)
        flying = [consumer.next_message() for _ in range(30)]
        consumer.requeue(flying[29], LATER_MS)
        for message in flying[:20]:
            consumer.finish(message)
        consumer.send(b"RDY 0\n")
        wait_until(lambda: broker.channel(topic, "a")["deferred_count"] == 1, "one is deferred")
        broker.post("/pub", b"300", topic=topic)
        broker.post("/mpub", b"301\n302", topic=topic)
        kill(broker)
    again = start_broker(*flags)
    assert waits(again, topic, "b") == 303
    # The one that is deferred is only known to be once it was read.
    with Connection(again.tcp) as consumer:
        consumer.subscribe(topic, "a", ready=50)
        taken = {}
        for _ in range(282):
            message = consumer.next_message()
            assert int(message.body) not in taken
            taken[int(message.body)] = message.attempts
            consumer.finish(message)
        again.wait_for_channel(topic, "a", depth=0, in_flight_count=0, deferred_count=1)
    late = int(flying[29].body)
    assert sorted(taken) == [number for number in range(20, 303) if number != late]
    assert list(taken) == sorted(taken), "in their order"
    flew = {int(message.body) for message in flying[20:29]}
    # Others may have been on their way to the consumer before it said RDY 0.
    assert all(taken[number] == 2 for number in flew)
    assert consume(again, topic, "b", 303).keys() == set(range(303))
    assert metric(again, "srtm_log_recovered_total") >= 303 + 282
    if durability == "fsync":
        publish(again, topic, range(10))
        assert metric(again, "srtm_log_synced_total") >= 10
    assert "ERROR" not in again.log()
    assert again.stop() == 0


def test_a_stop_and_a_start_lose_and_repeat_nothing(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-mem-queue-size=50", "-drain-timeout=100ms")
    make(broker, topic, "fsync")
    publish(broker, topic, range(500))
    for _life in range(2):
        assert broker.stop() == 0, broker.log()
        broker = start_broker("-mem-queue-size=50", "-drain-timeout=100ms")
        assert waits(broker, topic, "c") == 500
    taken = consume(broker, topic, "c", 500)
    assert list(taken.items()) == [(number, 1) for number in range(500)]
    assert broker.stop() == 0
    broker = start_broker()
    broker.wait_for_channel(topic, "c", depth=0)
    assert broker.stop() == 0


def test_on_a_full_disk_only_its_publishers_wait(disk: Disk, topic: str) -> None:
    broker = Broker(disk.path / "data")
    other = f"{topic}_other"
    try:
        make(broker, topic, "disk")
        publish(broker, topic, range(100), 1_000)
        disk.fill()
        with Connection(broker.tcp) as publisher, Connection(broker.tcp) as consumer:
            for number in range(100, 1_100):
                publisher.send(f"PUB {topic}\n".encode() + sized(b"%d" % number + b" " * 1_000))
            wait_until(lambda: metric(broker, "srtm_log_waiting") > 0, "the disk takes nothing")
            # What comes behind on the same connection is answered behind it.
            publisher.send(f"PUB {other}\n".encode() + sized(b"last"))
            publish(broker, other, range(10))
            # Its consumers go on, and are remembered to.
            consumer.subscribe(topic, "c", ready=1)
            for _ in range(50):
                consumer.finish(consumer.next_message())
            consumer.send(b"RDY 0\n")
            disk.make_room()
            for _ in range(1_001):
                publisher.expect_response()
        wait_until(lambda: metric(broker, "srtm_log_waiting") == 0, "the disk has taken everything")
        broker.wait_for_channel(topic, "c", in_flight_count=0)
        depth = waits(broker, topic, "c")
        broker.post("/pub", b"1100", topic=topic)
        kill(broker)
        again = Broker(disk.path / "data")
        assert waits(again, topic, "c") == depth + 1
        assert list(consume(again, topic, "c", depth + 1)) == list(range(1_100 - depth, 1_101))
        assert again.stop() == 0
    finally:
        kill(broker)


def test_within_the_budget_publishers_wait_and_go_on(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-disk-budget=400KiB", "-max-bytes-per-file=20000")
    make(broker, topic, "disk")
    with Connection(broker.tcp) as publisher:
        for number in range(1_000):
            publisher.send(f"PUB {topic}\n".encode() + sized(b"%d" % number + b" " * 1_000))
        wait_until(lambda: metric(broker, "srtm_log_waiting") > 0, "the budget is used up")
        assert metric(broker, "srtm_log_bytes") <= 250 * 1024
        assert list(consume(broker, topic, "c", 1_000)) == list(range(1_000))
        for _ in range(1_000):
            publisher.expect_response()
    wait_until(lambda: metric(broker, "srtm_log_bytes") < 60_000, "what is over is removed")
    assert broker.stop() == 0


def test_a_flipped_bit_costs_one_message_and_is_told(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    make(broker, topic, "disk")
    publish(broker, topic, range(200), 500)
    kill(broker)
    hit = logs(broker)[-1]
    whole = bytearray(hit.read_bytes())
    at = whole.index(b"100 ") + 50
    whole[at] ^= 1
    hit.write_bytes(whole)
    again = start_broker()
    assert f"{hit.name}: " in again.log() and "are damaged" in again.log()
    assert list(consume(again, topic, "c", 199)) == [number for number in range(200) if number != 100]
    assert metric(again, "srtm_disk_damages_total") >= 1
    assert again.stop() == 0


def test_what_waits_already_becomes_durable_and_memory_needs_no_log(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-mem-queue-size=50")
    make(broker, topic, "memory")
    publish(broker, topic, range(500))
    assert waits(broker, topic, "c") == 500
    declare(broker, topic, "disk")
    publish(broker, topic, range(500, 510))
    kill(broker)
    again = start_broker("-mem-queue-size=50")
    taken = consume(again, topic, "c", 510)
    assert list(taken) == list(range(510))
    publish(again, topic, range(20))
    declare(again, topic, "memory")
    wait_until(lambda: not logs(again), "the log is gone")
    assert list(consume(again, topic, "c", 20)) == list(range(20))
    assert again.stop() == 0


def test_a_broker_that_is_killed_while_a_topic_becomes_durable_has_all_of_it(
    start_broker: StartBroker, topic: str
) -> None:
    flags = ("-mem-queue-size=50",)
    broker = start_broker(*flags)
    make(broker, topic, "memory")
    publish(broker, topic, range(4_950))
    assert waits(broker, topic, "c") == 4_950
    declare(broker, topic, "disk")
    kill(broker)
    # What the answer promised is so from then on, in each life.
    for _life in range(3):
        broker = start_broker(*flags)
        assert waits(broker, topic, "c") == 4_950
        kill(broker)
    broker = start_broker(*flags)
    assert list(consume(broker, topic, "c", 4_950)) == list(range(4_950))
    kill(broker)
    broker = start_broker(*flags)
    assert waits(broker, topic, "c") == 0
    assert broker.stop() == 0


@pytest.mark.parametrize("delay_ms", [1, 3, 6, 10, 30])
def test_what_was_on_disk_survives_kills_around_the_answer(
    start_broker: StartBroker, topic: str, delay_ms: int
) -> None:
    flags = ("-mem-queue-size=50",)
    broker = start_broker(*flags)
    make(broker, topic, "memory")
    publish(broker, topic, range(4_950))
    on_disk = 4_950 - 4 * 50
    host, port = broker.http
    contract = b'{"durability":"disk"}'
    with socket.create_connection((host, port), GENEROUS_S) as asker:
        head = f"PUT /v1/topics/{topic} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(contract)}\r\n\r\n"
        asker.sendall(head.encode() + contract)
        # Not to synchronise with anything: the kill falls somewhere within the change.
        time.sleep(delay_ms / 1000)
        kill(broker)
    broker = start_broker(*flags)
    first = waits(broker, topic, "c")
    assert first >= on_disk
    kill(broker)
    broker = start_broker(*flags)
    again = waits(broker, topic, "c")
    assert again >= first - 4 * 50
    kill(broker)
    broker = start_broker(*flags)
    assert waits(broker, topic, "c") >= again - 4 * 50
    assert broker.stop() == 0


def test_emptied_and_deleted_queues_stay_so(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker()
    make(broker, topic, "fsync", "a", "b")
    make(broker, f"{topic}_gone", "fsync")
    publish(broker, topic, range(50))
    publish(broker, f"{topic}_gone", range(50))
    broker.post("/channel/empty", topic=topic, channel="a")
    broker.post("/channel/delete", topic=topic, channel="b")
    broker.post("/topic/delete", topic=f"{topic}_gone")
    publish(broker, topic, range(50, 60))
    kill(broker)
    again = start_broker()
    # The catalog may have been written before they were deleted.
    assert (again.topic(f"{topic}_gone") or {"depth": 0})["depth"] == 0
    assert (again.channel(topic, "b") or {"depth": 0})["depth"] == 0
    assert list(consume(again, topic, "a", 10)) == list(range(50, 60))
    assert again.stop() == 0


def test_without_a_data_folder_it_is_refused(topic: str) -> None:
    ports = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")
    command = [program(), "broker", *ports]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert process.stdout is not None
            address = None
            while address is None:
                line = process.stdout.readline().decode()
                assert line, "it ended"
                if "HTTP: listening on " in line:
                    address = line.split("HTTP: listening on ")[1].split()[0]
            refused = subprocess.run(
                [
                    "curl",
                    "-s",
                    "-w",
                    "%{http_code}",
                    "-X",
                    "PUT",
                    f"http://{address}/v1/topics/{topic}",
                    "-d",
                    '{"durability":"disk"}',
                ],
                capture_output=True,
                text=True,
                timeout=GENEROUS_S,
                check=True,
            )
            assert refused.stdout.endswith("409") and "--data-path" in refused.stdout, refused
        finally:
            process.kill()
