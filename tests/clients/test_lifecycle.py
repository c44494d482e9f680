"""A broker from its flags to its end: what it says, what it refuses, what outlives a restart."""

import subprocess
from collections.abc import Callable

import pytest

from broker import Broker, command_line
from deadlines import GENEROUS_S
from raw_protocol import Connection, FrameType

StartBroker = Callable[..., Broker]


def test_version_flag() -> None:
    """Tools look for this line to tell what they run against."""
    finished = subprocess.run(
        [*command_line(), "-version"], capture_output=True, text=True, timeout=GENEROUS_S, check=True
    )
    assert finished.stdout.startswith("nsqd v1.3.0 (")


@pytest.mark.parametrize("style", ["-{}={}", "--{}={}", "-{} {}", "--{} {}"])
def test_flags_in_every_style_of_go(start_broker: StartBroker, style: str) -> None:
    own = start_broker(
        *style.format("max-msg-size", "100").split(" "), *style.format("msg-timeout", "1m30s").split(" ")
    )
    assert own.get("/config/max_msg_size").json() == 100
    assert own.get("/config/msg_timeout").json() == 90_000_000_000
    assert own.request("POST", "/pub", b"x" * 101, topic="t").message() == "MSG_TOO_BIG"
    assert own.stop() == 0


def test_an_unknown_flag_ends_the_start() -> None:
    finished = subprocess.run(
        [*command_line(), "-no-such-flag"], capture_output=True, text=True, timeout=GENEROUS_S, check=False
    )
    assert finished.returncode == 2
    assert "no-such-flag" in finished.stderr


@pytest.mark.srtm_only
@pytest.mark.parametrize("flag", ["-tls-required=true", "-tls-cert=a.pem"])
def test_a_flag_that_promises_security_is_kept_or_refused(flag: str) -> None:
    """TLS needs a certificate and its key: the broker must not start as if there were both."""
    finished = subprocess.run([*command_line(), flag], capture_output=True, text=True, timeout=GENEROUS_S, check=False)
    assert finished.returncode != 0
    assert flag.partition("=")[0] in finished.stderr


def test_an_address_in_use_ends_the_start(broker: Broker) -> None:
    command = [*command_line(), f"-tcp-address={broker.tcp_text}", "-http-address=127.0.0.1:0"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=False)
    assert finished.returncode == 1
    assert broker.tcp_text in finished.stderr


def test_sigterm_ends_with_clients_connected(start_broker: StartBroker) -> None:
    own = start_broker()
    with Connection(own.tcp) as idle, Connection(own.tcp) as consumer, Connection(own.tcp) as publisher:
        consumer.subscribe("t", "reader", ready=1)
        publisher.publish("t", b"in flight")
        consumer.next_message()
        own.terminate()
        for connection in (idle, consumer, publisher):
            connection.expect_closed()
        # What was never finished is kept on disk.
        assert own.stop() == 0


def test_sigterm_delivers_or_keeps_what_was_accepted(start_broker: StartBroker) -> None:
    """A message that was answered by OK is not lost by an orderly stop: a connected consumer gets it, then or later."""
    own = start_broker()
    bodies = {b"%d" % i for i in range(50)}
    received: set[bytes] = set()

    def drain(consumer: Connection) -> None:
        while (frame := consumer.next_frame()) is not None:
            if frame.type is FrameType.MESSAGE:
                received.add(frame.data[26:])
                consumer.send(b"FIN " + frame.data[10:26] + b"\n")
            if received == bodies:
                return

    with Connection(own.tcp) as consumer, Connection(own.tcp) as publisher:
        consumer.subscribe("t", "reader")
        publisher.publish("t", *sorted(bodies))
        own.wait_for_channel("t", "reader", depth=50)
        consumer.send(b"RDY 5\n")
        own.terminate()
        drain(consumer)
    assert own.stop() == 0
    if received != bodies:
        again = start_broker()
        with Connection(again.tcp) as consumer:
            consumer.subscribe("t", "reader", ready=50)
            drain(consumer)
    assert received == bodies


def test_topics_channels_and_pauses_outlive_a_restart(start_broker: StartBroker) -> None:
    own = start_broker()
    for name in ("running", "paused", "gone#ephemeral"):
        own.post("/topic/create", topic=name)
        own.post("/channel/create", topic=name, channel="a")
    own.post("/channel/create", topic="running", channel="b")
    own.post("/channel/create", topic="running", channel="c#ephemeral")
    own.post("/topic/pause", topic="paused")
    own.post("/channel/pause", topic="running", channel="b")
    assert own.stop() == 0

    again = start_broker()
    seen = {
        entry["topic_name"]: (entry["paused"], {c["channel_name"]: c["paused"] for c in entry["channels"]})
        for entry in again.stats()["topics"]
    }
    assert seen == {"running": (False, {"a": False, "b": True}), "paused": (True, {"a": False})}
