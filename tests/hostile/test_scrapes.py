"""Many who ask for everything at once: the data path goes on, and each hears of all that happened before it asked."""

import http.client
import itertools
import threading
from collections.abc import Callable

import pytest

from broker import Broker
from deadlines import GENEROUS_S
from raw_protocol import Connection, sized
from siege import Force, Siege

CREATED_AT_ONCE = 500


def make_topics(broker: Broker, count: int) -> None:
    """Topics with a message each, so that all of their figures have something to tell."""
    names = (f"scraped_{number}".encode() for number in range(count))
    with Connection(broker.tcp) as connection:
        while some := list(itertools.islice(names, CREATED_AT_ONCE)):
            connection.send(b"".join(b"PUB " + name + b"\n" + sized(b"x") for name in some))
            for _ in some:
                connection.expect_response()


class Crowd:
    """Asks `count` times at once, each on a connection of its own."""

    def __init__(self, broker: Broker, paths: list[str], count: int) -> None:
        self.broker = broker
        self.statuses: list[int | str] = []
        self.threads = [threading.Thread(target=self._ask, args=(paths[n % len(paths)],)) for n in range(count)]

    def _ask(self, path: str) -> None:
        connection = http.client.HTTPConnection(*self.broker.http, timeout=GENEROUS_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            self.statuses.append(answer.status)
        except OSError as error:
            self.statuses.append(repr(error))
        finally:
            connection.close()

    def go(self, attack: Siege) -> None:
        """Looks at the broker's memory until all have their answers."""
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            while thread.is_alive():
                thread.join(0.1)
                attack.look()


@pytest.mark.parametrize(
    "paths",
    [
        ["/stats?format=json"],
        ["/metrics"],
        ["/stats", "/stats?format=json", "/metrics", "/v1/topics", "/v1/tasks", "/stats?format=json&channel=none"],
    ],
    ids=["stats", "metrics", "everything"],
)
def test_crowds_that_ask_for_everything_keep_nobody_waiting(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, paths: list[str]
) -> None:
    broker = start_broker()
    make_topics(broker, force.of(400, 2000))
    with siege(broker) as attack:
        crowd = Crowd(broker, paths, force.of(60, 500))
        crowd.go(attack)
    # Those who read slowly may be told to come again.
    assert set(crowd.statuses) <= {200, 503}, crowd.statuses
    assert crowd.statuses.count(200) >= len(crowd.statuses) // 2


def test_each_hears_of_what_happened_before_it_asked(start_broker: Callable[..., Broker], topic: str) -> None:
    broker = start_broker()
    make_topics(broker, 200)
    ends = threading.Event()

    def ask_on() -> None:
        while not ends.is_set():
            broker.get("/stats", format="json")

    others = [threading.Thread(target=ask_on) for _ in range(4)]
    for other in others:
        other.start()
    try:
        with Connection(broker.tcp) as connection:
            for number in range(1, 31):
                connection.publish(topic, b"x")
                topics = {each["topic_name"]: each for each in broker.stats()["topics"]}
                assert topics[topic]["message_count"] == number
    finally:
        ends.set()
        for other in others:
            other.join()
