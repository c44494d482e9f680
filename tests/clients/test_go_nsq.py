"""go-nsq, the stock Go client, through the `conformance` program."""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from broker import REPOSITORY, Broker
from deadlines import wait_until

PROGRAM = REPOSITORY / "build/bin/go-nsq-conformance"
DEADLINE_S = 90


def run(broker: Broker, scenario: str, topic: str, *channels: str, settings: Iterable[str] = ()) -> dict[str, Any]:
    """Runs one scenario on a topic with these channels; checks that nothing is left over at the broker."""
    broker.post("/topic/create", topic=topic)
    for channel in channels:
        broker.post("/channel/create", topic=topic, channel=channel)
    command = [PROGRAM, f"-scenario={scenario}", f"-nsqd-tcp-address={broker.tcp_text}", f"-topic={topic}"]
    command += [f"-setting={setting}" for setting in settings]
    program = subprocess.run(
        [*command, f"-deadline={DEADLINE_S}s"], capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False
    )
    assert program.returncode == 0, program.stderr[-4000:]
    report = json.loads(program.stdout)
    assert report["violations"] == [], program.stderr[-4000:]
    for channel in channels:
        left = {"depth": 0, "in_flight_count": 0, "deferred_count": 0, "client_count": 0}
        entry = broker.wait_for_channel(topic, channel, **left)
        assert entry["message_count"] == report["published"]
        assert entry["requeue_count"] == report["requeues"][channel]
        # Every delivery has its reason.
        deliveries = report["published"] + entry["requeue_count"] + entry["timeout_count"]
        assert report["deliveries"][channel] == deliveries
    return report


def test_publish_and_consume_in_volume(broker: Broker, topic: str) -> None:
    report = run(broker, "volume", topic, "shared", "alone")
    assert report["published"] >= 10_000
    assert report["requeues"] == {"shared": 2 * report["published"] // 50, "alone": 0}


def test_timeouts_and_touches(broker: Broker, topic: str) -> None:
    report = run(broker, "timeouts", topic, "reader")
    timed_out = report["published"] // 20
    assert report["deliveries"]["reader"] >= report["published"] + timed_out


def test_max_in_flight(broker: Broker, topic: str) -> None:
    run(broker, "max-in-flight", topic, "reader")


def test_go_nsq_stats_name_the_client(broker: Broker, topic: str) -> None:
    """go-nsq introduces itself in IDENTIFY; operators find it in /stats while it runs."""
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="reader")
    command = [PROGRAM, "-scenario=max-in-flight", f"-nsqd-tcp-address={broker.tcp_text}", f"-topic={topic}"]
    # A paused channel keeps the program waiting for messages.
    broker.post("/channel/pause", topic=topic, channel="reader")
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        entry = wait_until(lambda: (broker.channel(topic, "reader") or {}).get("clients"), "go-nsq among the clients")
        assert entry[0]["user_agent"].startswith("go-nsq/1.1.0")
    finally:
        program.kill()
        program.wait()
