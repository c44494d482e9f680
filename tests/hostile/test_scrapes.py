"""Many who ask for everything at once: the data path goes on, and each hears of all that happened before it asked."""

import http.client
import itertools
import statistics
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker import Broker
from deadlines import GENEROUS_S
from raw_protocol import Connection, sized
from siege import Force, Siege

CREATED_AT_ONCE = 500


def make_topics(broker: Broker, count: int) -> None:
    """Topics with a message each, so that all of their figures have something to tell; or one more each."""
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


def reactors_ns(broker: Broker) -> int:
    """Time that reactors had on a core so far."""
    threads = Path(f"/proc/{broker.process.pid}/task").iterdir()
    reactors = [thread for thread in threads if (thread / "comm").read_text().startswith("reactor")]
    assert reactors, "no thread is a reactor"
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in reactors)


def test_a_scrape_costs_reactors_less_than_a_few_messages_to_each_topic(
    start_broker: Callable[..., Broker], force: Force
) -> None:
    # A scrape every 15 s is nothing beside whatever load then.
    broker = start_broker()
    topics = force.of(1000, 10_000)
    make_topics(broker, topics)

    def cost(act: Callable[[], object]) -> int:
        before = reactors_ns(broker)
        act()
        return reactors_ns(broker) - before

    messages, scrapes = [], []
    for _ in range(7):
        messages.append(cost(lambda: make_topics(broker, topics)))
        scrapes.append(cost(lambda: broker.get("/metrics")))
    message, scrape = statistics.median(messages), statistics.median(scrapes)
    assert scrape < 4 * message, f"{scrape / 1e6} ms for a scrape, {message / 1e6} ms for {topics} messages"


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
