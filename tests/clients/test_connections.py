"""Connections: IDENTIFY, heartbeats, the magic, bytes in any pieces."""

import socket
from collections.abc import Callable

import pytest

from broker import Broker
from deadlines import GENEROUS_S
from raw_protocol import HEARTBEAT, MAGIC, Connection, Frame, FrameType, sized


def test_heartbeats_come_at_the_negotiated_interval(broker: Broker) -> None:
    """With the default of 30 s no three would come before the deadline."""
    with Connection(broker.tcp) as connection:
        connection.identify(heartbeat_interval=1_000)
        for _ in range(3):
            assert connection.read_frame() == Frame(FrameType.RESPONSE, HEARTBEAT)
            connection.send(b"NOP\n")


def test_a_client_that_answers_no_heartbeat_is_dropped(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as silent:
        silent.identify(heartbeat_interval=1_000, msg_timeout=1_000)
        silent.subscribe(topic, "reader", ready=1)
        broker.post("/pub", b"x", topic=topic)
        assert silent.next_message().attempts == 1
        while (frame := silent.read_frame()) is not None:
            # The message may time out and come again in the meantime.
            assert frame.type is FrameType.MESSAGE or frame.data == HEARTBEAT
        broker.wait_for_channel(topic, "reader", client_count=0)
    # What it had in flight goes to the next one.
    with Connection(broker.tcp) as consumer:
        consumer.subscribe(topic, "reader", ready=1)
        assert consumer.next_message().attempts >= 2


@pytest.mark.srtm_only
@pytest.mark.parametrize("beginning", [b"", MAGIC[:2]], ids=["nothing", "half_a_magic"])
def test_a_connection_without_magic_is_closed(broker: Broker, beginning: bytes) -> None:
    """nsqd waits for ever; SRTM gives 5 s."""
    with socket.create_connection(broker.tcp, timeout=GENEROUS_S) as connection:
        connection.sendall(beginning)
        while connection.recv(4096):
            pass


def test_identify_answers_what_was_negotiated(broker: Broker) -> None:
    with Connection(broker.tcp) as connection:
        answer = connection.identify(msg_timeout=1_500, sample_rate=7, output_buffer_size=64, output_buffer_timeout=30)
        assert list(answer) == [
            "max_rdy_count",
            "version",
            "max_msg_timeout",
            "msg_timeout",
            "tls_v1",
            "deflate",
            "deflate_level",
            "max_deflate_level",
            "snappy",
            "sample_rate",
            "auth_required",
            "output_buffer_size",
            "output_buffer_timeout",
        ]
        assert answer["version"] == broker.get("/info").json()["version"]
        assert (answer["msg_timeout"], answer["max_msg_timeout"], answer["max_rdy_count"]) == (1_500, 900_000, 2_500)
        assert (answer["sample_rate"], answer["output_buffer_size"], answer["output_buffer_timeout"]) == (7, 64, 30)
        assert not any(answer[feature] for feature in ("tls_v1", "deflate", "snappy", "auth_required"))


def test_identify_without_negotiation_is_answered_by_ok(broker: Broker) -> None:
    with Connection(broker.tcp) as connection:
        connection.send(b"IDENTIFY\n" + sized(b'{"client_id":"x","unknown":[1,{}]}'))
        connection.expect_response()
        # A second one before SUB is allowed.
        assert connection.identify()["msg_timeout"] == 60_000


def test_features_that_are_not_offered_are_refused(start_broker: Callable[..., Broker]) -> None:
    own = start_broker("-snappy=false", "-deflate=false")
    with Connection(own.tcp) as connection:
        answer = connection.identify(tls_v1=True, deflate=True, snappy=True)
        assert (answer["tls_v1"], answer["deflate"], answer["snappy"]) == (False, False, False)
        connection.publish("features", b"still plain")


def test_commands_may_come_in_any_pieces(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        for command in (
            f"PUB {topic}\n".encode() + sized(b"piece by piece"),
            b"NOP\n",
            f"SUB {topic} reader\nRDY 1\n".encode(),
        ):
            for i in range(len(command)):
                connection.send(command[i : i + 1])
        connection.expect_response()
        connection.expect_response()
        assert connection.next_message().body == b"piece by piece"


def test_many_commands_in_one_write(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.send(b"".join(f"PUB {topic}\n".encode() + sized(b"%d" % i) for i in range(500)))
        for _ in range(500):
            connection.expect_response()
    entry = broker.topic(topic)
    assert entry is not None
    assert entry["message_count"] == 500
