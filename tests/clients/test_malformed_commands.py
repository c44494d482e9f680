"""Malformed input over TCP: the right error, the right fate of the connection, and nobody else disturbed."""

import pytest

from broker import Broker
from malformed_commands import CUT_SHORT, ROWS, Malformed
from neighbour import Neighbour
from raw_protocol import Connection, FrameType, sized


def with_topic(template: bytes, topic: str) -> bytes:
    return template.replace(b"{topic}", topic.encode())


def marked(row: Malformed) -> object:
    return pytest.param(row, id=row.name, marks=[pytest.mark.srtm_only] if row.srtm_only else [])


@pytest.mark.parametrize("row", [marked(row) for row in ROWS])
def test_malformed_command(broker: Broker, neighbour: Neighbour, topic: str, row: Malformed) -> None:
    with Connection(broker.tcp, row.magic) as connection:
        for command in row.before:
            connection.send(with_topic(command, topic))
            connection.expect_response()
        connection.send(with_topic(row.sent, topic))
        connection.expect_error(row.answer.encode())
        if row.fatal:
            connection.expect_closed()
        else:
            connection.publish(topic, b"after the error")
    neighbour.still_works()
    published = broker.topic(topic)
    assert published is None or published["message_count"] == (0 if row.fatal else 1)


@pytest.mark.parametrize("stream", [pytest.param(stream, id=name) for name, stream in CUT_SHORT.items()])
def test_stream_cut_short(broker: Broker, neighbour: Neighbour, topic: str, stream: bytes) -> None:
    with Connection(broker.tcp, magic=with_topic(stream, topic)) as connection:
        connection.end_sending()
        while (frame := connection.read_frame()) is not None:
            assert frame.type is FrameType.ERROR
    neighbour.still_works()
    published = broker.topic(topic)
    assert published is None or published["message_count"] == 0


def test_cls_twice(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.subscribe(topic, "reader")
        connection.send(b"CLS\nCLS\n")
        connection.expect_response(b"CLOSE_WAIT")
        connection.expect_error(b"E_INVALID cannot CLS in current state")
        connection.expect_closed()


def test_rdy_after_cls_is_ignored(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.subscribe(topic, "reader")
        connection.send(b"CLS\n")
        connection.expect_response(b"CLOSE_WAIT")
        connection.send(b"RDY 5\n")
        connection.publish(topic, b"not for a closing consumer")
        broker.wait_for_channel(topic, "reader", depth=1, in_flight_count=0)


@pytest.mark.parametrize("name", [".", "..", "-", "_", "t" * 64, "a#ephemeral", "A.b-C_9"])
def test_odd_but_valid_names(broker: Broker, neighbour: Neighbour, name: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.publish(name, b"x")
    neighbour.still_works()
    broker.post("/topic/delete", topic=name)


def test_carriage_return_before_newline(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.send(f"PUB {topic}\r\n".encode() + sized(b"x"))
        connection.expect_response()


def test_spare_parameters_are_ignored(broker: Broker, topic: str) -> None:
    with Connection(broker.tcp) as connection:
        connection.send(f"PUB {topic} spare words\n".encode() + sized(b"x"))
        connection.expect_response()
        connection.send(f"DPUB {topic}  spare\n".encode() + sized(b"x"))
        connection.expect_response()
        connection.send(b"NOP spare\n")
        connection.publish(topic, b"y")
