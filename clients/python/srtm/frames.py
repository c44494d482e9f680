"""Bytes: commands to a broker, frames from it. NSQ V2 and the SRTM extension."""

import json
import struct
from collections.abc import Sequence
from enum import IntEnum

from .errors import BrokerLost

MAGIC = b"  V2"
NOP = b"NOP\n"
#: A publisher gets short frames only.
MAX_FRAME_BYTES = 1 << 20


class FrameType(IntEnum):
    """The second field of a frame."""

    RESPONSE = 0
    ERROR = 1
    ACK = 16
    MIGRATE = 17
    THROTTLED = 18


def identify(body: dict) -> bytes:
    """IDENTIFY with its JSON."""
    encoded = json.dumps(body).encode()
    return b"IDENTIFY\n" + struct.pack(">I", len(encoded)) + encoded


def auth(token: str) -> bytes:
    """AUTH."""
    encoded = token.encode()
    return b"AUTH\n" + struct.pack(">I", len(encoded)) + encoded


def publish(topic: str, body: bytes) -> bytes:
    """PUB."""
    return b"PUB %s\n%s%s" % (topic.encode(), struct.pack(">I", len(body)), body)


def publish_batch(topic: str, bodies: Sequence[bytes]) -> bytes:
    """MPUB: all messages or none."""
    messages = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    sizes = struct.pack(">II", len(messages) + 4, len(bodies))
    return b"MPUB %s\n%s%s" % (topic.encode(), sizes, messages)


def split(buffer: bytearray) -> tuple[FrameType, bytes] | None:
    """Takes the first frame off the buffer; None while it is not whole."""
    if len(buffer) < 8:
        return None
    size, kind = struct.unpack_from(">iI", buffer)
    if not 4 <= size <= MAX_FRAME_BYTES:
        raise BrokerLost(f"broke the protocol: a frame of {size} bytes")
    if kind not in iter(FrameType):
        raise BrokerLost(f"broke the protocol: frame type {kind}")
    if len(buffer) < 4 + size:
        return None
    data = bytes(buffer[8 : 4 + size])
    del buffer[: 4 + size]
    return FrameType(kind), data


def ack(data: bytes) -> int:
    """Messages accepted since IDENTIFY."""
    if len(data) != 8:
        raise BrokerLost("broke the protocol: an Ack of a wrong size")
    return struct.unpack(">Q", data)[0]


def migrate(data: bytes) -> tuple[str, str]:
    """Topic and address."""
    try:
        (topic_bytes,) = struct.unpack_from(">H", data)
        topic = data[2 : 2 + topic_bytes]
        (address_bytes,) = struct.unpack_from(">H", data, 2 + topic_bytes)
        address = data[4 + topic_bytes :]
        if len(address) != address_bytes:
            raise ValueError("lengths do not add up")
        return topic.decode(), address.decode()
    except (struct.error, ValueError) as error:
        raise BrokerLost(f"broke the protocol: Migrate: {error}") from None


def throttled(data: bytes) -> tuple[int, str]:
    """Microseconds that messages wait, and the topic."""
    if len(data) < 5:
        raise BrokerLost("broke the protocol: a Throttled of a wrong size")
    return struct.unpack_from(">I", data)[0], data[4:].decode(errors="replace")
