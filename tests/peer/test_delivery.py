"""Messages over the bridge, whoever carries them, and what becomes of them when programs and cables go."""

import pytest

from deadlines import wait_until
from endpoints import AnnouncedBroker, Endpoints, assert_in_order
from group import MULTICAST, PORT
from switch import Switch

BROADCAST = f"10.77.0.255:{PORT}"
BROKER = "broker"

COUNT = 2000


@pytest.mark.parametrize("peer", [MULTICAST, BROADCAST, BROKER])
def test_every_subscriber_hears_all_in_order(switch: Switch, endpoints: Endpoints, peer: str) -> None:
    """Whoever has heard one message of a publisher loses none after it."""
    # A broker is the one subscriber that publishers see.
    subscribers = 1 if peer == BROKER else 2
    if peer == BROKER:
        peer = endpoints.broker(switch["a"]).announce
    far, near = endpoints.subscriber(switch["b"], peer), endpoints.subscriber(switch["a"], peer)
    publisher = endpoints.publisher(switch["a"], peer)
    publisher.publish_until_heard(far, near)
    publisher.publish(COUNT)
    last = publisher.published - 1
    for subscriber in (far, near):
        wait_until(lambda subscriber=subscriber: subscriber.last_heard() == last, "the last message")
        heard = subscriber.heard()
        assert heard == list(range(heard[0], publisher.published))
    assert publisher.finish() == (publisher.published, subscribers, 0)


@pytest.mark.parametrize("peer", [MULTICAST, BROKER])
def test_nothing_is_lost_from_the_first_message_on(switch: Switch, endpoints: Endpoints, peer: str) -> None:
    """`srtm pub` begins once it has found a subscriber."""
    if peer == BROKER:
        peer = endpoints.broker(switch["a"]).announce
    subscriber = endpoints.subscriber(switch["b"], peer)
    publisher = endpoints.publisher(switch["a"], peer)
    numbers = publisher.publish(COUNT)
    subscriber.wait_for(numbers)
    assert subscriber.heard() == numbers
    assert publisher.finish() == (COUNT, 1, 0)


def test_a_killed_subscriber_gets_nothing_and_a_new_one_is_found(switch: Switch, endpoints: Endpoints) -> None:
    """Its system ends its connections, so the publisher knows at once."""
    first = endpoints.subscriber(switch["b"], MULTICAST)
    publisher = endpoints.publisher(switch["a"], MULTICAST)
    first.wait_for(publisher.publish())
    first.kill()
    wait_until(lambda: publisher.connections_to(switch["b"]) == 0, "the end of the connection")

    second = endpoints.subscriber(switch["b"], MULTICAST)
    publisher.publish_until_heard(second)
    second.wait_for(publisher.publish(COUNT))
    assert_in_order(second)
    assert publisher.finish()[1] == 1


def test_a_subscriber_whose_machine_dies_is_forgotten(switch: Switch, endpoints: Endpoints) -> None:
    """No good-bye, and no system that ends its connections: only the announcement's expiry tells."""
    subscriber = endpoints.subscriber(switch["b"], MULTICAST)
    publisher = endpoints.publisher(switch["a"], MULTICAST)
    subscriber.wait_for(publisher.publish())
    switch.cut("b")
    try:
        subscriber.kill()
        # These wait in the connection, which is as good as before for all that the publisher's system knows.
        unheard_of = publisher.publish(3)
        wait_until(lambda: publisher.connections_to(switch["b"]) == 0, "the expiry")
        found_none = publisher.publish(5)
        published, subscribers, lost = publisher.finish()
    finally:
        switch.restore("b")
    assert (published, subscribers, lost) == (1 + len(unheard_of) + len(found_none), 0, len(found_none))


def test_a_broker_forgets_who_was_killed(switch: Switch, endpoints: Endpoints) -> None:
    """And appears to publishers as a subscriber only while somebody subscribes."""

    def known_and_expired() -> tuple[int, int]:
        instances = broker.announcements()["instances"]
        return instances["known"], instances["expired"]

    broker = endpoints.broker(switch["a"])
    subscriber = endpoints.subscriber(switch["b"], broker.announce)
    publisher = endpoints.publisher(switch["a"], broker.announce)
    subscriber.wait_for(publisher.publish())
    assert known_and_expired() == (2, 0)

    subscriber.kill()
    wait_until(lambda: known_and_expired() == (1, 1), "the expiry")
    wait_until(lambda: publisher.connections_to(switch["a"]) == 0, "the end of the connection to the broker")
    publisher.publish()
    assert publisher.finish() == (2, 0, 1)


def test_a_restarted_publisher_is_heard_again(switch: Switch, endpoints: Endpoints) -> None:
    subscriber = endpoints.subscriber(switch["b"], MULTICAST)
    first = endpoints.publisher(switch["a"], MULTICAST)
    subscriber.wait_for(first.publish(COUNT))
    first.kill()

    second = endpoints.publisher(switch["a"], MULTICAST, first=first.published)
    subscriber.wait_for(second.publish(COUNT))
    assert subscriber.heard() == list(range(2 * COUNT))
    assert second.finish() == (COUNT, 1, 0)


def test_a_short_cut_of_the_link_loses_nothing(switch: Switch, endpoints: Endpoints) -> None:
    """Shorter than the expiry: the connection holds, and TCP repeats what was lost."""
    subscriber = endpoints.subscriber(switch["b"], MULTICAST)
    publisher = endpoints.publisher(switch["a"], MULTICAST)
    subscriber.wait_for(publisher.publish())
    switch.cut("b")
    try:
        publisher.publish(COUNT)
        wait_until(lambda: publisher.unacknowledged_bytes(switch["b"]) > 0, "messages that nobody acknowledges")
    finally:
        switch.restore("b")
    subscriber.wait_for(range(1 + COUNT))
    assert subscriber.heard() == list(range(1 + COUNT))


def test_a_long_cut_of_the_link_heals(switch: Switch, endpoints: Endpoints) -> None:
    """Longer than the expiry: they have forgotten each other and meet anew."""
    subscriber, other = endpoints.subscriber(switch["b"], MULTICAST), endpoints.subscriber(switch["c"], MULTICAST)
    publisher = endpoints.publisher(switch["a"], MULTICAST)
    publisher.publish_until_heard(subscriber, other)
    switch.cut("b")
    try:
        publisher.publish_until(lambda: publisher.connections_to(switch["b"]) == 0, "the expiry")
        # The others go on meanwhile.
        other.wait_for(publisher.publish())
    finally:
        switch.restore("b")
    publisher.publish_until_heard(subscriber)
    numbers = publisher.publish(COUNT)
    subscriber.wait_for(numbers)
    other.wait_for(numbers)
    assert_in_order(subscriber, other)


def test_endpoints_go_on_by_themselves_without_their_broker(switch: Switch, endpoints: Endpoints) -> None:
    """`--peer BROKER,GROUP`: through the broker while it is heard, directly while it is not."""

    def brokered(broker: AnnouncedBroker) -> None:
        publisher.publish_until(lambda: broker.messages(endpoints.topic) > 0, "messages at the broker")
        publisher.publish_until_heard(far, near)

    broker = endpoints.broker(switch["a"])
    peer = f"{broker.announce},{MULTICAST}"
    far, near = endpoints.subscriber(switch["b"], peer), endpoints.subscriber(switch["a"], peer)
    publisher = endpoints.publisher(switch["a"], peer)
    brokered(broker)

    broker.kill()
    publisher.publish_until_heard(far, near)
    numbers = publisher.publish(COUNT)
    far.wait_for(numbers)
    near.wait_for(numbers)

    brokered(endpoints.broker(switch["a"]))
    assert_in_order(far, near)
