"""nsq_tail, to_nsq and nsq_to_file against the broker."""

from pathlib import Path

import tools
from broker import Broker
from deadlines import GENEROUS_S, wait_until

LINES = [f"line {i}" for i in range(200)]


def test_nsq_tail_prints_messages(broker: Broker, topic: str, tmp_path: Path) -> None:
    flags = [f"-nsqd-tcp-address={broker.tcp_text}", f"-topic={topic}", "-print-topic", f"-n={len(LINES)}"]
    with tools.running(tmp_path, "nsq_tail", *flags) as tail:
        # It reads from a channel of its own, which exists once it has subscribed.
        wait_until(lambda: (broker.topic(topic) or {}).get("channels"), "nsq_tail's channel")
        broker.post("/mpub", "\n".join(LINES).encode(), topic=topic)
        assert tail.process.wait(timeout=GENEROUS_S) == 0, tail.log()
        assert sorted(tail.output().splitlines()) == sorted(f"{topic} | {line}" for line in LINES)
    # The channel is ephemeral: it goes with its only reader.
    wait_until(lambda: (broker.topic(topic) or {}).get("channels") == [], "nsq_tail's channel gone")


def test_to_nsq_publishes_lines(broker: Broker, topic: str, tmp_path: Path) -> None:
    tools.run(
        "to_nsq", f"-nsqd-tcp-address={broker.tcp_text}", f"-topic={topic}", stdin="\n".join(LINES).encode() + b"\n"
    )
    entry = broker.topic(topic)
    assert entry is not None
    assert (entry["message_count"], entry["depth"]) == (len(LINES), len(LINES))
    flags = [f"-nsqd-tcp-address={broker.tcp_text}", f"-topic={topic}", "-channel=tail", f"-n={len(LINES)}"]
    with tools.running(tmp_path, "nsq_tail", *flags) as tail:
        assert tail.process.wait(timeout=GENEROUS_S) == 0, tail.log()
        assert sorted(tail.output().splitlines()) == sorted(LINES)


def test_nsq_to_file_writes_every_message(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="archive")
    broker.post("/mpub", "\n".join(LINES).encode(), topic=topic)
    flags = [
        f"-nsqd-tcp-address={broker.tcp_text}",
        f"-topic={topic}",
        "-channel=archive",
        f"-output-dir={folder}",
        "-sync-interval=50ms",
    ]
    with tools.running(tmp_path, "nsq_to_file", *flags) as archive:
        # It finishes messages only once they are on disk.
        entry = broker.wait_for_channel(topic, "archive", depth=0, in_flight_count=0, client_count=1)
        assert entry["message_count"] == len(LINES)
        assert archive.stop() == 0, archive.log()
    written = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert sorted(written) == sorted(LINES)
