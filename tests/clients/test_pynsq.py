"""pynsq, the stock Python client: Writer and Reader on one tornado loop."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

import nsq
import pytest
from nsq.protocol import Error as NsqError

from broker import Broker

DEADLINE_S = 60

SINGLE = range(6_000)
BATCHED = range(6_000, 10_000)
DEFERRED = range(10_000, 10_300)
BATCH_SIZE = 100
LATER_S = 1
"""pynsq counts a requeue delay in whole seconds."""


class Session:
    """A Writer and Readers that live as long as one test's loop, with options for all of them."""

    def __init__(self, broker: Broker, **options: object) -> None:
        self.broker = broker
        self.options = options
        self.writer = nsq.Writer([broker.tcp_text], **options)
        self.readers: list[nsq.Reader] = []
        self.unanswered = 0
        self.refused: list[object] = []

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Lets the loop run until the condition holds."""
        end = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end, f"not seen in {DEADLINE_S} s: {what}"
            await asyncio.sleep(0.01)

    async def connected(self) -> None:
        """Waits for the writer's connection."""
        await self.until(lambda: bool(self.writer.conns), "the writer's connection")

    def answered(self, _connection: object, data: object) -> None:
        """Callback of every publish."""
        self.unanswered -= 1
        if data != b"OK" or isinstance(data, NsqError):
            self.refused.append(data)

    async def all_published(self) -> None:
        """Waits for an OK to every publish."""
        await self.until(lambda: self.unanswered == 0, "an answer to every publish")
        assert self.refused == []

    def publish(self, topic: str, numbers: Iterable[int]) -> None:
        """PUB of each number."""
        for i in numbers:
            self.unanswered += 1
            self.writer.pub(topic, body_of(i), self.answered)

    def read(self, topic: str, channel: str, handler: Callable[[nsq.Message], object], **options: object) -> nsq.Reader:
        """A Reader that asks for a connection at once."""
        options = {"nsqd_tcp_addresses": [self.broker.tcp_text], "max_tries": 0, **self.options, **options}
        reader = nsq.Reader(topic, channel, handler, **options)
        self.readers.append(reader)
        return reader

    def close(self) -> None:
        """Closes what was opened; pynsq's own reconnecting ends with the loop."""
        for client in [self.writer, *self.readers]:
            for connection in list(client.conns.values()):
                connection.close()


def run(broker: Broker, scenario: Callable[[Session], object], **options: object) -> None:
    """Runs a scenario on a loop of its own."""

    async def main() -> None:
        session = Session(broker, **options)
        await session.connected()
        try:
            await scenario(session)  # type: ignore[misc]
        finally:
            session.close()

    asyncio.run(main())


def body_of(i: int) -> bytes:
    return b"%d %s" % (i, b"x" * (i % 97))


def number_of(body: bytes) -> int:
    i = int(body.split(b" ")[0])
    assert body == body_of(i)
    return i


def make_channel(broker: Broker, topic: str) -> None:
    broker.post("/topic/create", topic=topic)
    broker.post("/channel/create", topic=topic, channel="reader")


def test_publish_and_consume_in_volume(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)
    everything = [*SINGLE, *BATCHED, *DEFERRED]
    handed_back = {i for i in everything if i % 50 in (7, 13)}
    attempts: dict[int, list[int]] = defaultdict(list)
    not_before: dict[int, float] = {}
    early: list[int] = []

    def handle(message: nsq.Message) -> bool:
        i = number_of(message.body)
        attempts[i].append(message.attempts)
        if time.monotonic() < not_before.get(i, 0):
            early.append(i)
        if i in handed_back and len(attempts[i]) == 1:
            delay_s = LATER_S if i % 50 == 13 else 0
            not_before[i] = time.monotonic() + delay_s
            message.requeue(backoff=False, delay=delay_s)
            message.enable_async()
            return True
        return True

    async def scenario(session: Session) -> None:
        for _ in range(2):
            session.read(topic, "reader", handle, max_in_flight=100)
        session.publish(topic, SINGLE)
        for first in BATCHED[::BATCH_SIZE]:
            session.unanswered += 1
            bodies = [body_of(i) for i in range(first, first + BATCH_SIZE)]
            session.writer.mpub(topic, bodies, session.answered)
        for i in DEFERRED:
            delay_ms = 200 + i % 1_000
            not_before[i] = time.monotonic() + delay_ms / 1000
            session.unanswered += 1
            session.writer.dpub(topic, delay_ms, body_of(i), session.answered)
        await session.all_published()
        wanted = len(everything) + len(handed_back)
        await session.until(lambda: sum(map(len, attempts.values())) >= wanted, f"{wanted} deliveries")
        loop = asyncio.get_running_loop()
        left = {"depth": 0, "in_flight_count": 0, "deferred_count": 0}
        await loop.run_in_executor(None, lambda: broker.wait_for_channel(topic, "reader", **left))

    run(broker, scenario)
    assert early == []
    assert set(attempts) == set(everything)
    wrong = {i: seen for i, seen in attempts.items() if seen != ([1, 2] if i in handed_back else [1])}
    assert wrong == {}
    entry = broker.wait_for_channel(topic, "reader", client_count=0)
    assert (entry["message_count"], entry["requeue_count"]) == (len(everything), len(handed_back))
    assert entry["timeout_count"] == 0


def test_timeouts_and_touches(broker: Broker, topic: str) -> None:
    """Messages 0 to 9 are never answered at first, 10 to 19 are touched for 5 s, all with a timeout of 2 s."""
    make_channel(broker, topic)
    seen: dict[int, list[int]] = defaultdict(list)
    published_at: dict[int, float] = {}
    early: list[int] = []
    finished: set[int] = set()

    async def handle(message: nsq.Message) -> bool:
        i = number_of(message.body)
        seen[i].append(message.attempts)
        if i < 10 and len(seen[i]) == 1:
            await asyncio.Event().wait()
        if i < 10 and time.monotonic() < published_at[i] + 2.0:
            early.append(i)
        if 10 <= i < 20:
            for _ in range(12):
                await asyncio.sleep(0.4)
                message.touch()
        finished.add(i)
        return True

    async def scenario(session: Session) -> None:
        session.read(topic, "reader", handle, max_in_flight=40, msg_timeout=2)
        for i in range(40):
            published_at[i] = time.monotonic()
            session.publish(topic, [i])
        await session.all_published()
        await session.until(lambda: len(finished) == 40, "every message finished")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, lambda: broker.wait_for_channel(topic, "reader", depth=0, in_flight_count=0))

    run(broker, scenario)
    assert early == []
    for i in range(40):
        assert seen[i] == ([1, 2] if i < 10 else [1]), i


def test_a_bad_topic_is_an_error_at_the_writer(broker: Broker, topic: str) -> None:
    make_channel(broker, topic)

    async def scenario(session: Session) -> None:
        session.unanswered += 1
        session.writer.pub("not/valid", b"x", session.answered)
        await session.until(lambda: session.unanswered == 0, "an answer")
        (error,) = session.refused
        assert isinstance(error, NsqError)
        assert "E_BAD_TOPIC" in str(error)

    run(broker, scenario)


@pytest.mark.parametrize(
    "option", [{"output_buffer_size": 64}, {"output_buffer_timeout": 25}, {"heartbeat_interval": 1}]
)
def test_options_of_the_reader(broker: Broker, topic: str, option: dict[str, int]) -> None:
    make_channel(broker, topic)
    received: list[bytes] = []

    def handle(message: nsq.Message) -> bool:
        received.append(message.body)
        return True

    async def scenario(session: Session) -> None:
        session.read(topic, "reader", handle, max_in_flight=3, **option)
        session.publish(topic, range(20))
        await session.all_published()
        await session.until(lambda: len(received) == 20, "20 messages")

    run(broker, scenario)
    assert sorted(map(number_of, received)) == list(range(20))
