"""Names of topics and channels: one address makes so many and no more, until some are gone."""

from collections.abc import Callable

import pytest

from broker import Broker, HttpAnswer
from crowd import OTHER, STRANGER, THIRD, ask, metric
from deadlines import wait_until
from raw_protocol import Connection, FrameType
from siege import Force, Siege

REFUSAL = "this address has made {} topics and channels within "


def publish(broker: Broker, topic: str, source: str) -> bytes:
    """What a publish of a new connection is answered."""
    with Connection(broker.tcp, source=source) as connection:
        connection.send(f"PUB {topic}\n\0\0\0\x01x".encode())
        frame = connection.next_frame()
        assert frame is not None
        return frame.data


def make(broker: Broker, topic: str, source: str, what: str = "topic", more: str = "") -> HttpAnswer:
    """Makes a topic or a channel over HTTP."""
    return ask(broker.http, "POST", f"/{what}/create?topic={topic}{more}", source)


@pytest.mark.parametrize("threads", [1, 2])
def test_one_address_makes_so_many_names(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, threads: int
) -> None:
    most = force.of(30, 1_000)
    broker = start_broker(f"-threads={threads}", f"-max-names-per-address={most}")
    refusal = REFUSAL.format(most).encode()
    with siege(broker) as attack:
        with Connection(broker.tcp, source=OTHER) as client:
            for number in range(most):
                client.publish(f"t{number}", b"x")
            client.send(b"PUB beyond\n\0\0\0\x01x")
            frame = client.next_frame()
            assert frame is not None and frame.type is FrameType.ERROR
            assert frame.data.startswith(b"E_PUB_FAILED PUB failed " + refusal), frame
        for number in range(force.of(50, 5_000)):
            assert publish(broker, f"more{number}", OTHER).startswith(b"E_PUB_FAILED")
        attack.look()
        # What is there is there for everybody.
        assert publish(broker, "t0", OTHER) == b"OK"
        with Connection(broker.tcp, source=OTHER) as client:
            client.send(b"SUB t0 c\n")
            frame = client.next_frame()
            assert frame is not None and frame.data.startswith(b"E_SUB_FAILED SUB failed " + refusal), frame
        for answer in (
            make(broker, "beyond", OTHER),
            make(broker, "t0", OTHER, "channel", "&channel=c"),
            ask(broker.http, "POST", "/pub?topic=beyond", OTHER, b"x"),
            ask(broker.http, "POST", "/mpub?topic=beyond", OTHER, b"x\ny"),
            ask(broker.http, "PUT", "/v1/topics/beyond", OTHER, b'{"limit":{"rate":10,"burst":5}}'),
        ):
            assert answer.status in (409, 429) and REFUSAL.format(most) in answer.body.decode(), answer
        assert broker.topic("beyond") is None
        # Others are not concerned, and nor is this machine.
        assert publish(broker, "others", THIRD) == b"OK"
        assert publish(broker, "own", STRANGER) == b"OK"
    assert metric(broker.http, "names_refused_total") == 7 + force.of(50, 5_000)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_name_that_is_gone_makes_room(start_broker: Callable[..., Broker], threads: int) -> None:
    broker = start_broker(f"-threads={threads}", "-max-names-per-address=3")
    for topic in "a", "b":
        assert publish(broker, topic, OTHER) == b"OK"
    with Connection(broker.tcp, source=OTHER) as consumer:
        # An ephemeral name counts while it is there.
        consumer.subscribe("a", "c#ephemeral")
        assert make(broker, "d", OTHER).status == 429
    wait_until(lambda: make(broker, "d", OTHER).status == 200, "the channel is gone")
    assert make(broker, "e", OTHER).status == 429
    # Whoever deletes it.
    assert ask(broker.http, "POST", "/topic/delete?topic=a", THIRD).status == 200
    assert make(broker, "e", OTHER).status == 200
    assert make(broker, "f", OTHER).status == 429


def test_names_of_long_ago_do_not_count(start_broker: Callable[..., Broker]) -> None:
    broker = start_broker("-max-names-per-address=2", "-names-window=1s")
    made = 0

    def six_are_made() -> bool:
        nonlocal made
        made += publish(broker, f"t{made}", OTHER) == b"OK"
        return made == 6

    wait_until(six_are_made, "six topics are made, two at a time")
    assert metric(broker.http, "names_refused_total") > 0
