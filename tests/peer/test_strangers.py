"""What endpoints make of those that do not belong to them: another key, no key, no protocol at all."""

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from deadlines import wait_until
from endpoints import ANNOUNCE_PORT, Endpoints, Program, Publisher, Subscriber, assert_in_order
from group import GROUP, MULTICAST, PORT, Announcement, Stranger
from switch import Switch

KEY = "--key=one word"
OTHER_KEY = "--key=another word"

COUNT = 500
HELLO_UNSIGNED = b"TMP1" + struct.pack(">BBHQ", 1, 0, 0, 4711)


def test_another_key_delivers_nothing(switch: Switch, endpoints: Endpoints, stranger: Stranger) -> None:
    """Neither is such a subscriber believed by the publisher, nor does one without a key get anything."""
    outsiders = [endpoints.subscriber(switch["b"], MULTICAST, *flags) for flags in ((OTHER_KEY,), ())]
    member = endpoints.subscriber(switch["b"], MULTICAST, KEY)
    publisher = endpoints.publisher(switch["a"], MULTICAST, KEY)
    member.wait_for(publisher.publish(COUNT))
    # By now the publisher has read an announcement of each.
    stranger.hear_subscribers(endpoints.topic, len([member, *outsiders]))
    member.wait_for(publisher.publish(COUNT))
    assert member.heard() == list(range(2 * COUNT))
    assert [outsider.heard() for outsider in outsiders] == [[], []]
    assert publisher.finish() == (2 * COUNT, 1, 0)


@pytest.mark.parametrize("flags", [(), (KEY,)], ids=["open", "keyed"])
def test_broken_announcements_disturb_nothing(
    switch: Switch, endpoints: Endpoints, stranger: Stranger, flags: tuple[str, ...]
) -> None:
    subscriber = endpoints.subscriber(switch["b"], MULTICAST, *flags)
    publisher = endpoints.publisher(switch["a"], MULTICAST, *flags)
    publisher.publish_until_heard(subscriber)
    (real,) = stranger.hear_subscribers(endpoints.topic, 1)
    broken = [*no_announcements(real.datagram), *(tampered(real.datagram) if flags else ())]
    say_all(stranger, broken, (GROUP, PORT), publisher)
    keeps_its_promise(switch, endpoints, publisher, subscriber, MULTICAST, *flags)


def test_broken_announcements_do_not_disturb_a_broker(switch: Switch, endpoints: Endpoints, stranger: Stranger) -> None:
    broker = endpoints.broker(switch["a"])
    subscriber = endpoints.subscriber(switch["b"], broker.announce)
    publisher = endpoints.publisher(switch["a"], broker.announce)
    publisher.publish_until_heard(subscriber)
    # The stranger cannot hear what is said to the broker, but what is said in the group is the same.
    endpoints.subscriber(switch["b"], MULTICAST)
    (real,) = stranger.hear_subscribers(endpoints.topic, 1)
    broken = list(no_announcements(real.datagram))
    say_all(stranger, broken, (switch["a"].address, ANNOUNCE_PORT), broker)

    def are_counted() -> bool:
        datagrams = broker.announcements()["datagrams"]
        return datagrams["truncated"] + datagrams["malformed"] == len(broken)

    wait_until(are_counted, f"{len(broken)} broken announcements")
    keeps_its_promise(switch, endpoints, publisher, subscriber, broker.announce)


def test_a_repeated_announcement_leads_nobody_astray(switch: Switch, endpoints: Endpoints, stranger: Stranger) -> None:
    """What was recorded and is sent again from elsewhere, signature and all, does not draw messages there."""
    subscriber = endpoints.subscriber(switch["b"], MULTICAST, KEY)
    publisher = endpoints.publisher(switch["a"], MULTICAST, KEY)
    publisher.publish_until_heard(subscriber)
    (real,) = stranger.hear_subscribers(endpoints.topic, 1)
    say_all(stranger, [real.datagram] * 10, (GROUP, PORT), publisher)
    keeps_its_promise(switch, endpoints, publisher, subscriber, MULTICAST, KEY)
    assert publisher.connections_to(switch["c"]) == 0


@pytest.mark.parametrize(
    "greeting",
    [b"  V2", b"GET / HTTP/1.0\r\n\r\n", HELLO_UNSIGNED, b"TMP1" + b"\xff" * 60],
    ids=["nsq", "http", "unsigned", "garbled"],
)
def test_a_wrong_greeting_ends_the_connection(
    switch: Switch, endpoints: Endpoints, stranger: Stranger, greeting: bytes
) -> None:
    """Nothing that comes after it is taken for a message."""
    subscriber = endpoints.subscriber(switch["b"], MULTICAST, KEY)
    publisher = endpoints.publisher(switch["a"], MULTICAST, KEY)
    publisher.publish_until_heard(subscriber)
    (real,) = stranger.hear_subscribers(endpoints.topic, 1)
    with stranger.connect(real.data) as connection:
        connection.sendall(greeting + message(real, endpoints.topic, b"4711"))
        assert is_closed(connection)
    keeps_its_promise(switch, endpoints, publisher, subscriber, MULTICAST, KEY)
    assert 4711 not in subscriber.heard()


def no_announcements(real: bytes) -> Iterator[bytes]:
    """Datagrams that no endpoint may believe, whoever sends them."""
    yield from (real[:length] for length in range(len(real)))
    yield real + b"\0"
    yield b"X" + real[1:]
    draw = random.Random(77)
    for length in (1, 4, 31, 43, 100, 1400, 1401, 9000, 65507):
        yield draw.randbytes(length)
        yield (real[:4] + draw.randbytes(length))[:length]


def tampered(real: bytes) -> Iterator[bytes]:
    """A signed announcement with one bit changed, each byte in turn."""
    for at in range(len(real)):
        yield real[:at] + bytes([real[at] ^ 1]) + real[at + 1 :]


def say_all(stranger: Stranger, datagrams: list[bytes], to: tuple[str, int], listener: Program) -> None:
    """Sends all, each when the one before was read at the listener's host."""
    for datagram in datagrams:
        before = listener.datagrams_read()
        stranger.say(datagram, to)
        wait_until(lambda before=before: listener.datagrams_read() > before, "a datagram that is read")


def keeps_its_promise(
    switch: Switch, endpoints: Endpoints, publisher: Publisher, subscriber: Subscriber, peer: str, *flags: str
) -> None:
    """The present subscriber goes on without a loss, and a new one is found."""
    publisher.publish(COUNT)
    newcomer = endpoints.subscriber(switch["b"], peer, *flags)
    publisher.publish_until_heard(subscriber, newcomer)
    subscriber.wait_for(range(publisher.published))
    assert_in_order(subscriber, newcomer)


def message(real: Announcement, topic: str, body: bytes) -> bytes:
    """A message of the topic as it goes over a data connection."""
    return struct.pack(">II", len(body), real.id_of(topic)) + body


def is_closed(connection: socket.socket) -> bool:
    """Waits for the other side's end of the connection."""
    with contextlib.suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True
