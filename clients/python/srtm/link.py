"""One connection to a broker: what goes out, what awaits its acknowledgement, what the broker says."""

import asyncio
import contextlib
import json
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from . import frames
from .errors import BrokerLost
from .frames import FrameType
from .options import Options

_REFUSING = ("E_BAD_TOPIC", "E_BAD_MESSAGE", "E_BAD_BODY", "E_PUB_FAILED", "E_MPUB_FAILED")


@dataclass
class Command:
    """A publish command."""

    messages: int
    data: bytes
    #: A broker that was lost may have accepted it.
    may_repeat: bool = False


@dataclass(frozen=True)
class Reports:
    """What a link tells its publisher."""

    acknowledged: Callable[["Link", Command], None]
    refused: Callable[["Link", Command, str], None]
    migrate: Callable[["Link", str], None]
    throttled: Callable[["Link", int], None]
    #: With the reason, and whether the next connection may go to the same broker.
    lost: Callable[["Link", str, bool], None]


class Link:
    """A connection whose broker has answered IDENTIFY."""

    def __init__(
        self, address: str, options: Options, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self.address = address
        self.outstanding: deque[Command] = deque()
        #: When the broker had greeted.
        self.since = 0.0
        self._options = options
        self._reader, self._writer = streams
        self._input = bytearray()
        self._is_cumulative = False
        self._accepted = 0
        self._listening: asyncio.Task | None = None

    @classmethod
    async def make(cls, address: str, options: Options) -> "Link":
        """Connects and announces the publisher. Raises OSError, BrokerLost; the caller bounds the time."""
        host, _, port = address.rpartition(":")
        streams = await asyncio.open_connection(host.strip("[]"), int(port))
        link = cls(address, options, streams)
        try:
            link._writer.write(frames.MAGIC)
            if options.tls is not None:
                await link._agree_on_tls(host.strip("[]"), options.tls)
            link._writer.write(frames.identify(options.identify()))
            answer = await link._answer()
            if options.token is not None and answer.get("auth_required"):
                link._writer.write(frames.auth(options.token))
                await link._answer()
        except BaseException:
            link.close()
            raise
        link.since = time.monotonic()
        granted = answer.get("srtm") or {}
        # The answer alone counts: a broker of version 1 grants acks to whoever uses the extension.
        link._is_cumulative = bool(granted.get("ack_every_messages"))
        return link

    def listen(self, reports: Reports) -> None:
        """Begins to tell what the broker says."""
        self._listening = asyncio.create_task(self._listen(reports))

    def send(self, command: Command) -> None:
        """Writes a command; the socket takes it when it can."""
        self.outstanding.append(command)
        self._writer.write(command.data)

    def close(self) -> None:
        """Closes the connection at once; nothing is told any more."""
        if self._listening is not None:
            self._listening.cancel()
        self._writer.close()

    async def _agree_on_tls(self, host: str, tls: ssl.SSLContext) -> None:
        """TLS before anything else is said: the first IDENTIFY asks for it, and the OK comes within."""
        wish = {"user_agent": "srtm-python/0.1.0", "feature_negotiation": True, "tls_v1": True}
        self._writer.write(frames.identify(wish))
        if not (await self._answer()).get("tls_v1"):
            raise BrokerLost("the broker offers no TLS")
        await self._writer.start_tls(tls, server_hostname=host)
        await self._answer()

    async def _answer(self) -> dict:
        while True:
            kind, data = await self._frame()
            if kind is FrameType.ERROR:
                raise BrokerLost(f"the broker refused: {data.decode(errors='replace')}")
            if kind is FrameType.RESPONSE and data != b"_heartbeat_":
                with contextlib.suppress(ValueError):
                    answer = json.loads(data)
                    return answer if isinstance(answer, dict) else {}
                return {}

    async def _listen(self, reports: Reports) -> None:
        try:
            while True:
                async with asyncio.timeout(2 * self._options.heartbeat_seconds):
                    kind, data = await self._frame()
                self._hear(kind, data, reports)
        except TimeoutError:
            reports.lost(self, "no sign of life in time", False)
        except OSError as error:
            reports.lost(self, str(error), False)
        except BrokerLost as error:
            reports.lost(self, str(error), error.may_return)

    def _hear(self, kind: FrameType, data: bytes, reports: Reports) -> None:
        match kind:
            case FrameType.RESPONSE if data == b"_heartbeat_":
                self._writer.write(frames.NOP)
            case FrameType.RESPONSE if data == b"OK" and not self._is_cumulative:
                self._accept_oldest(reports)
            case FrameType.ACK if self._is_cumulative:
                self._accept_up_to(frames.ack(data), reports)
            case FrameType.ERROR:
                self._complain(data.decode(errors="replace"), reports)
            case FrameType.MIGRATE:
                topic, address = frames.migrate(data)
                if topic == self._options.topic:
                    reports.migrate(self, address)
            case FrameType.THROTTLED:
                retry_after_us, topic = frames.throttled(data)
                if topic == self._options.topic:
                    reports.throttled(self, retry_after_us)
            case _:
                raise BrokerLost(f"broke the protocol: an unexpected answer {data[:64]!r}")

    def _accept_oldest(self, reports: Reports) -> None:
        if not self.outstanding:
            raise BrokerLost("broke the protocol: more acknowledged than was sent")
        command = self.outstanding.popleft()
        self._accepted += command.messages
        reports.acknowledged(self, command)

    def _accept_up_to(self, total: int, reports: Reports) -> None:
        while self._accepted < total:
            self._accept_oldest(reports)
        if self._accepted > total:
            raise BrokerLost("broke the protocol: a count that fell or cuts a batch in two")

    def _complain(self, text: str, reports: Reports) -> None:
        # An error is about the oldest command. A broker that stops refuses everything: others will take it.
        is_about_message = text.startswith(_REFUSING) and not text.endswith("exiting") and bool(self.outstanding)
        if is_about_message:
            reports.refused(self, self.outstanding.popleft(), text)
        raise BrokerLost(f"the broker refused: {text}", may_return=is_about_message)

    async def _frame(self) -> tuple[FrameType, bytes]:
        while (frame := frames.split(self._input)) is None:
            piece = await self._reader.read(65536)
            if not piece:
                raise BrokerLost("the broker closed the connection")
            self._input += piece
        return frame
