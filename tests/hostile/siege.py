"""What nobody may do to a broker from outside: keep its other clients waiting, or grow its memory without bound."""

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from broker import Broker
from deadlines import GENEROUS_S, wait_until
from raw_protocol import Connection

MEMORY_GROWTH_MAX_BYTES = 64 * 1024 * 1024
"""How much more memory a broker may hold at any moment of a siege than before it."""

CANARY_PAUSE_S = 0.02


def resident_bytes(pid: int) -> int:
    """The memory that a process holds now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory: it has ended")


@dataclass(frozen=True)
class Force:
    """How hard to attack."""

    is_full: bool

    def of(self, short: int, full: int) -> int:
        """A count, a size or a number of seconds: the first unless the attack is a full one."""
        return full if self.is_full else short

    @property
    def answer_within_s(self) -> float:
        """How long others may wait for an answer meanwhile."""
        return 1.0 if self.is_full else GENEROUS_S


class Canary:
    """Publishes and consumes one message at a time, in a thread of its own, and keeps the longest wait."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.connection = Connection(broker.tcp)
        self.topic = topic
        self.longest_s = 0.0
        self.answers = 0
        self.failure: BaseException | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sing, name="canary", daemon=True)

    def __enter__(self) -> Self:
        self.subscriber = Connection(self.connection.socket.getpeername())
        self.subscriber.subscribe(self.topic, "canary", ready=1)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(GENEROUS_S)
        self.connection.close()
        self.subscriber.close()

    def _sing(self) -> None:
        try:
            for number in itertools.count():
                if self._ends.wait(CANARY_PAUSE_S):
                    return
                began_s = time.monotonic()
                self.connection.publish(self.topic, str(number).encode())
                self.subscriber.finish(self.subscriber.next_message())
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                self.answers += 1
        except BaseException as failure:  # Told by the thread that looks on.
            self.failure = failure


class Siege(contextlib.AbstractContextManager):
    """Around an attack: a canary sings, memory is watched; at the end both are judged.

    `answer_within_s` is how long the canary may wait at most: a second where nothing else uses the machine."""

    def __init__(self, broker: Broker, topic: str, answer_within_s: float) -> None:
        self.broker = broker
        self.canary = Canary(broker, topic)
        self.answer_within_s = answer_within_s
        self.before_bytes = self.most_bytes = 0

    def __enter__(self) -> Self:
        self.canary.__enter__()
        self.before_bytes = self.most_bytes = resident_bytes(self.broker.process.pid)
        return self

    def look(self) -> None:
        """Notes the memory of this moment; to be called while the attack goes on."""
        assert self.broker.process.poll() is None, f"the broker died:\n{self.broker.log()[-4000:]}"
        self.most_bytes = max(self.most_bytes, resident_bytes(self.broker.process.pid))

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.look()
            # A short attack may be over before the first answer came.
            wait_until(lambda: self.canary.answers or self.canary.failure, "the canary sings")
        self.canary.__exit__()
        if kind is not None:
            return
        assert self.canary.failure is None, f"the canary fell silent: {self.canary.failure!r}"
        assert self.canary.answers > 0, "the canary never sang"
        assert self.canary.longest_s <= self.answer_within_s, f"the canary waited {self.canary.longest_s:.2f} s"
        grown = self.most_bytes - self.before_bytes
        assert grown <= MEMORY_GROWTH_MAX_BYTES, f"memory grew by {grown / 1024 / 1024:.0f} MiB"
