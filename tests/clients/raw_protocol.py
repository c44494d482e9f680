"""A bare NSQ V2 connection: it sends exactly the bytes it is given and shows every frame that comes back.

It holds no client logic, on purpose: the stock clients are tested elsewhere; here a test must be able to say
anything, in particular what no client would.
"""

import contextlib
import json
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from broker import Address
from deadlines import GENEROUS_S

MAGIC = b"  V2"
HEARTBEAT = b"_heartbeat_"


class FrameType(IntEnum):
    """What a frame from the broker is."""

    RESPONSE = 0
    ERROR = 1
    MESSAGE = 2


@dataclass(frozen=True)
class Frame:
    """One frame as it came."""

    type: FrameType
    data: bytes


@dataclass(frozen=True)
class Message:
    """A message frame taken apart."""

    timestamp_ns: int
    attempts: int
    id: bytes
    body: bytes


def sized(body: bytes, declared_bytes: int | None = None) -> bytes:
    """A body behind its big-endian size, or behind a size that lies."""
    return struct.pack(">i", len(body) if declared_bytes is None else declared_bytes) + body


def batch(*bodies: bytes, declared_count: int | None = None) -> bytes:
    """The inside of an MPUB body: the count and the sized messages."""
    count = len(bodies) if declared_count is None else declared_count
    return struct.pack(">i", count) + b"".join(sized(body) for body in bodies)


class Connection:
    """One TCP connection that has sent its magic."""

    def __init__(self, address: Address, magic: bytes = MAGIC, source: str | None = None) -> None:
        bound = (source, 0) if source else None
        self.socket = socket.create_connection(address, timeout=GENEROUS_S, source_address=bound)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffered = b""
        self.send(magic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes without ceremony."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes. A broker that has already hung up is not an error here: its last frame may still be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def end_sending(self) -> None:
        """Closes the sending half, so that the broker sees the end of the stream."""
        self.socket.shutdown(socket.SHUT_WR)

    def _receive(self) -> bytes:
        return self.socket.recv(65536)

    def _read_exactly(self, count: int) -> bytes | None:
        while len(self.buffered) < count:
            try:
                chunk = self._receive()
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return None
            self.buffered += chunk
        data, self.buffered = self.buffered[:count], self.buffered[count:]
        return data

    def read_frame(self) -> Frame | None:
        """The next frame, heartbeats too; None once the broker has closed the connection."""
        header = self._read_exactly(8)
        if header is None:
            return None
        size, frame_type = struct.unpack(">ii", header)
        data = self._read_exactly(size - 4)
        return None if data is None else Frame(FrameType(frame_type), data)

    def next_frame(self) -> Frame | None:
        """The next frame that is no heartbeat; heartbeats are answered."""
        while (frame := self.read_frame()) is not None:
            if frame != Frame(FrameType.RESPONSE, HEARTBEAT):
                return frame
            self.send(b"NOP\n")
        return None

    def expect_response(self, data: bytes = b"OK") -> None:
        """The next frame must be this response."""
        assert self.next_frame() == Frame(FrameType.RESPONSE, data)

    def expect_error(self, text: bytes) -> None:
        """The next frame must be this error."""
        assert self.next_frame() == Frame(FrameType.ERROR, text)

    def expect_closed(self) -> None:
        """The broker must have closed the connection, with nothing more to read."""
        assert self.next_frame() is None

    def identify(self, **fields: Any) -> dict[str, Any]:
        """IDENTIFY with feature negotiation; returns the broker's answer."""
        self.send(b"IDENTIFY\n" + sized(json.dumps({"feature_negotiation": True, **fields}).encode()))
        frame = self.next_frame()
        assert frame is not None and frame.type is FrameType.RESPONSE, frame
        return json.loads(frame.data)

    def publish(self, topic: str, *bodies: bytes) -> None:
        """PUB of each body, each answered by OK."""
        for body in bodies:
            self.send(f"PUB {topic}\n".encode() + sized(body))
            self.expect_response()

    def publish_batch(self, topic: str, *bodies: bytes) -> None:
        """MPUB, answered by OK."""
        self.send(f"MPUB {topic}\n".encode() + sized(batch(*bodies)))
        self.expect_response()

    def subscribe(self, topic: str, channel: str, ready: int = 0) -> None:
        """SUB, answered by OK, then RDY."""
        self.send(f"SUB {topic} {channel}\n".encode())
        self.expect_response()
        if ready:
            self.send(f"RDY {ready}\n".encode())

    def next_message(self) -> Message:
        """The next frame, which must be a message."""
        frame = self.next_frame()
        assert frame is not None and frame.type is FrameType.MESSAGE, frame
        timestamp_ns, attempts = struct.unpack(">qH", frame.data[:10])
        return Message(timestamp_ns, attempts, frame.data[10:26], frame.data[26:])

    def finish(self, message: Message) -> None:
        """FIN; the broker is silent where it succeeds."""
        self.send(b"FIN " + message.id + b"\n")

    def requeue(self, message: Message, delay_ms: int) -> None:
        """REQ; the broker is silent where it succeeds."""
        self.send(b"REQ " + message.id + f" {delay_ms}\n".encode())

    def touch(self, message: Message) -> None:
        """TOUCH; the broker is silent where it succeeds."""
        self.send(b"TOUCH " + message.id + b"\n")
