"""A publisher that goes where the controller places it.

One task follows the placement: it asks, connects, switches over, and waits until something disturbs it (told to move,
or its broker lost). Publishing never touches that task: messages go to the active link, or wait for the next one.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from . import controller, frames
from .errors import BrokerLost, ControllerFailed, MessageRefused, NotPlaced
from .link import Command, Link, Reports
from .options import Options

#: A broker that needs longer for the connection and IDENTIFY counts as out of reach.
MAKE_TIMEOUT_SECONDS = 5.0
#: While there is a broker, questions to the controller are so much rarer.
_CALM_FACTOR = 10
#: Links that wait for acknowledgements at the same time; a further move waits for one of them.
_MAX_LEAVING = 4
#: A link that held so long was no accident.
_LASTING_SECONDS = 1.0


@dataclass(frozen=True)
class Traffic:
    """Messages, counted since the publisher began."""

    #: Taken from the program.
    published: int = 0
    #: Accepted by a broker.
    acknowledged: int = 0
    #: Refused by a broker for what they are; not sent again.
    refused: int = 0
    #: Sent again although a broker that was lost may have accepted them: possible duplicates.
    resent: int = 0
    #: Moves from one live broker to another.
    moves: int = 0


@dataclass(frozen=True)
class Throttled:
    """A broker's notice that the topic's limit holds messages back."""

    #: Messages wait at least so long for a token.
    retry_after_us: int
    #: When it came, by time.monotonic().
    at: float


class Publisher:
    """Publishes to one topic. Takes the fields of Options; use it as ``async with Publisher(...) as p``.

    A move loses and repeats nothing while both brokers live. When a broker dies, what it had not acknowledged is sent
    again: at least once. Without the controller it stays where it is. Calls wait for ever; bound them with
    asyncio.timeout, which loses nothing.
    """

    def __init__(self, **options: Any) -> None:
        self.options = Options(**options)
        self._controller = controller.Controller(self.options)
        self._active: Link | None = None
        self._leaving: list[Link] = []
        #: Commands that no link has, oldest first.
        self._waiting: deque[Command] = deque()
        self._held_messages = 0
        self._held_bytes = 0
        self._traffic = Traffic()
        self._throttled: Throttled | None = None
        self._refusal: MessageRefused | None = None
        self._verdict: NotPlaced | None = None
        self._trouble = "the controller has not answered yet"
        self._changed = asyncio.Condition()
        self._notifying: asyncio.Task | None = None
        self._disturbed = asyncio.Event()
        #: Where a broker sent it.
        self._target: str | None = None
        self._must_ask = True
        self._is_first = True
        self._avoid: str | None = None
        self._is_registered = False
        self._last_address: str | None = None
        #: The last wait before another try; None: all went well.
        self._waited_seconds: float | None = None
        self._following: asyncio.Task | None = None

    async def __aenter__(self) -> "Publisher":
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(flush=kind is None)

    def start(self) -> None:
        """Begins to look for a place; messages published meanwhile wait in the buffer."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())

    async def publish(self, body: bytes) -> None:
        """Publishes one message; waits while the window is full.

        Raises MessageRefused when a broker refused an earlier message (told once; this one was not taken), NotPlaced,
        and ValueError for an empty message.
        """
        await self.publish_batch([body])

    async def publish_batch(self, bodies: Sequence[bytes]) -> None:
        """Publishes messages in one command: a broker accepts all of them or none. Raises as publish does."""
        if not bodies or not all(bodies):
            raise ValueError("the message or the batch is empty: publish at least one byte and one message")
        largest = max(map(len, bodies))
        if largest > self.options.max_message_bytes:
            raise ValueError(f"a message of {largest} bytes is above max_message_bytes")
        topic = self.options.topic
        data = frames.publish(topic, bodies[0]) if len(bodies) == 1 else frames.publish_batch(topic, bodies)
        await self._until(lambda: self._has_room(len(bodies), len(data)))
        self._held_messages += len(bodies)
        self._held_bytes += len(data)
        self._count(published=len(bodies))
        self._waiting.append(Command(len(bodies), data))
        self._send_waiting()

    async def flush(self) -> None:
        """Waits until everything published was acknowledged, or refused for good. Raises as publish does."""
        await self._until(lambda: self._held_messages == 0)

    async def close(self, flush: bool = True) -> None:
        """Flushes, then closes the connections, also when flushing raises; what was not acknowledged is given up."""
        try:
            if flush:
                await self.flush()
        finally:
            if self._following is not None:
                self._following.cancel()
                await asyncio.gather(self._following, return_exceptions=True)
            for link in [*self._leaving, *filter(None, [self._active])]:
                link.close()
            self._active = None
            self._leaving.clear()

    @property
    def traffic(self) -> Traffic:
        """What it has done so far."""
        return self._traffic

    @property
    def unacknowledged(self) -> int:
        """Messages published and neither acknowledged nor refused."""
        return self._held_messages

    @property
    def broker(self) -> str | None:
        """Address of the broker that gets what is published; None while there is none."""
        return self._active.address if self._active else None

    @property
    def throttled(self) -> Throttled | None:
        """The present broker's last notice."""
        return self._throttled

    @property
    def trouble(self) -> str:
        """Why it has no broker, or why it lost the last one."""
        return self._trouble

    # --- following the placement -------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Until it is cancelled, or the controller refuses for good before the first place."""
        while True:
            self._disturbed.clear()
            address = await self._next_address()
            if self._verdict is not None:
                return
            if address is None or address == self.broker:
                await self._pause(address is not None)
            else:
                await self._move(address)

    async def _next_address(self) -> str | None:
        """Where to go next: as a broker says, else as the controller says; None: nowhere new for now."""
        if self._target is not None and self._active is not None:
            if len(self._leaving) >= _MAX_LEAVING:
                return None
            target, self._target = self._target, None
            return target
        self._target = None
        if not self._must_ask and self._active is not None:
            return self._active.address
        if self._active is None and not self._is_first:
            await asyncio.sleep(self._backoff())
        self._is_first = False
        return await self._ask()

    async def _ask(self) -> str | None:
        avoid = self._avoid
        try:
            if self.options.register and not self._is_registered:
                address = await self._controller.register()
            else:
                address = await self._controller.place(avoid)
            self._is_registered = True
            if address is None:
                self._trouble = "the controller has no broker for the publisher yet"
            elif self._avoid == avoid:
                self._must_ask = False
            return address
        except controller.Unknown:
            self._is_registered = False
            self._trouble = "the controller does not know the publisher"
        except NotPlaced as refusal:
            self._trouble = str(refusal)
            if self._last_address is None:
                self._verdict = refusal
                self._notify()
        except ControllerFailed as error:
            self._trouble = str(error)
            return None if self._active else self._last_address
        return None

    async def _move(self, address: str) -> None:
        try:
            async with asyncio.timeout(MAKE_TIMEOUT_SECONDS):
                link = await Link.make(address, self.options)
        except (OSError, ValueError, TimeoutError, BrokerLost) as error:
            self._trouble = f"{address}: {error or 'no answer in time'}"
            self._must_ask, self._avoid = True, address
            await self._pause(False)
            return
        self._switch(link)

    async def _pause(self, is_settled: bool) -> None:
        """Waits for a disturbance, or for the next try; without a broker the next try waits by itself."""
        if is_settled and not self._must_ask:
            await self._disturbed.wait()
        elif self._active is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._backoff() * _CALM_FACTOR):
                    await self._disturbed.wait()

    def _backoff(self) -> float:
        """Up to 100 ms the first time: thousands may have lost their broker at once. Then 100 ms to 1 s, growing."""
        if self._waited_seconds is None:
            self._waited_seconds = 0.1
            return random.uniform(0, 0.1)
        self._waited_seconds = random.uniform(0.1, min(1.0, 3 * self._waited_seconds))
        return self._waited_seconds

    def _switch(self, link: Link) -> None:
        """What comes next goes to `link`; the former active link leaves."""
        former, self._active = self._active, link
        if self._avoid == link.address or not self._must_ask:
            self._avoid = None
        self._last_address = link.address
        self._throttled = None
        if former is not None:
            self._count(moves=1)
            self._leaving.append(former)
            self._close_drained()
        link.listen(Reports(self._acknowledged, self._refused, self._told_to_move, self._told_to_wait, self._lost))
        self._send_waiting()
        self._notify()

    # --- what links tell ---------------------------------------------------------------------------------------------

    def _acknowledged(self, _link: Link, command: Command) -> None:
        self._count(acknowledged=command.messages)
        self._waited_seconds = None
        self._release(command)
        self._close_drained()

    def _refused(self, _link: Link, command: Command, text: str) -> None:
        self._count(refused=command.messages)
        self._refusal = MessageRefused(text)
        self._release(command)

    def _told_to_move(self, link: Link, address: str) -> None:
        if link is self._active:
            self._target = address
        else:
            # Two brokers send it to different places: the controller knows.
            self._must_ask = True
        self._disturbed.set()

    def _told_to_wait(self, link: Link, retry_after_us: int) -> None:
        if link is self._active:
            self._throttled = Throttled(retry_after_us, time.monotonic())

    def _lost(self, link: Link, reason: str, may_return: bool) -> None:
        link.close()
        if time.monotonic() - link.since >= _LASTING_SECONDS:
            self._waited_seconds = None
        self._trouble = f"{link.address}: {reason}"
        for command in reversed(link.outstanding):
            command.may_repeat = True
            self._waiting.appendleft(command)
        if link is self._active:
            self._active = None
            self._must_ask = True
            self._avoid = None if may_return else link.address
            self._disturbed.set()
        else:
            self._leaving.remove(link)
        self._send_waiting()
        self._notify()

    # --- the window --------------------------------------------------------------------------------------------------

    def _has_room(self, messages: int, size: int) -> bool:
        fits_messages = self._held_messages + messages <= self.options.window_messages
        fits_bytes = self._held_bytes + size <= self.options.window_bytes
        return self._held_messages == 0 or (fits_messages and fits_bytes)

    def _send_waiting(self) -> None:
        while self._active is not None and self._waiting:
            command = self._waiting.popleft()
            if command.may_repeat:
                self._count(resent=command.messages)
            self._active.send(command)

    def _release(self, command: Command) -> None:
        self._held_messages -= command.messages
        self._held_bytes -= len(command.data)
        self._notify()

    def _close_drained(self) -> None:
        for link in [link for link in self._leaving if not link.outstanding]:
            self._leaving.remove(link)
            link.close()
            if self._target is not None:
                self._disturbed.set()

    def _count(self, **messages: int) -> None:
        counts = {name: getattr(self._traffic, name) + count for name, count in messages.items()}
        self._traffic = replace(self._traffic, **counts)

    async def _until(self, is_met: Callable[[], bool]) -> None:
        async with self._changed:
            while True:
                if self._refusal is not None:
                    refusal, self._refusal = self._refusal, None
                    raise refusal
                if self._verdict is not None:
                    raise self._verdict
                if is_met():
                    return
                await self._changed.wait()

    def _notify(self) -> None:
        """Wakes those who wait; once for many changes."""
        if self._notifying is None:
            self._notifying = asyncio.create_task(self._notify_all())

    async def _notify_all(self) -> None:
        self._notifying = None
        async with self._changed:
            self._changed.notify_all()
