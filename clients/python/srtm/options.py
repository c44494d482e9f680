"""What a publisher says of itself, and its bounds."""

import math
import re
import ssl
from dataclasses import dataclass, field

_TOPIC = re.compile(r"[.a-zA-Z0-9_-]{1,64}(#ephemeral)?")
_MAX_TOPIC_BYTES = 64


@dataclass(frozen=True)
class Options:
    """Who a publisher is, where its controller is, and how much it keeps. Raises ValueError for what is not valid."""

    #: The controller's HTTP address, such as ``http://127.0.0.1:4180``; the scheme may be left out. Several, of which
    #: one leads, have commas between them.
    controller: str
    #: The one topic that it publishes to.
    topic: str
    #: Unique within the topic: 1 to 128 printable ASCII characters without blanks.
    id: str
    #: Correlation group key: publishers that send at about the same time share one.
    group: str | None = None
    #: Messages per second that it means to send.
    rate: float = 1.0
    #: Messages that it sends at once, 1 to 65536.
    batch: int = 1
    #: Acknowledge so many messages at once (1 to 65536) instead of every command.
    ack_every_messages: int | None = None
    #: Longest wait for such an acknowledgement, 1 to 1000 ms; None: the broker's default.
    ack_interval_ms: int | None = None
    #: Declare it at the controller. If not, someone else has done it, or it goes to the topic's first broker.
    register: bool = True
    #: Most messages without an acknowledgement; then publishing waits. A larger batch goes alone.
    window_messages: int = 10_000
    #: Most bytes of commands without an acknowledgement. A larger command goes alone.
    window_bytes: int = 16 << 20
    #: Largest message. Above a broker's own bound (nsqd's default is the same) it could not be published at all.
    max_message_bytes: int = 1 << 20
    #: Interval of the broker's heartbeats, 1 to 60 s. A broker that is silent for twice as long counts as dead.
    heartbeat_seconds: float = 10.0
    #: TLS with controller and brokers, such as ``ssl.create_default_context(cafile="ca.pem")``, with
    #: ``load_cert_chain`` where they want a certificate; None: without. With it, a scheme that is left out is https.
    tls: ssl.SSLContext | None = None
    #: Shown to controller and brokers that ask for it; not part of what is printed of these options.
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (_TOPIC.fullmatch(self.topic) and len(self.topic) <= _MAX_TOPIC_BYTES):
            raise _invalid("topic", self.topic, "1 to 64 of . - _ a-z A-Z 0-9, and optionally the ending #ephemeral")
        if not (1 <= len(self.id) <= 128 and all("!" <= character <= "~" for character in self.id)):
            raise _invalid("id", self.id, "1 to 128 printable ASCII characters without blanks")
        if self.group is not None and not 1 <= len(self.group.encode()) <= 128:
            raise _invalid("group", self.group, "1 to 128 bytes")
        if not (math.isfinite(self.rate) and 0 < self.rate <= 1e9):
            raise _invalid("rate", self.rate, "messages per second, above 0 and at most 1e9")
        if not 1 <= self.batch <= 65536:
            raise _invalid("batch", self.batch, "1 to 65536 messages")
        if not 1 <= self.heartbeat_seconds <= 60:
            raise _invalid("heartbeat_seconds", self.heartbeat_seconds, "1 to 60 s")

    def identify(self) -> dict:
        """The JSON body of IDENTIFY."""
        publisher = {"topic": self.topic, **self.declaration()}
        srtm: dict = {"publisher": publisher}
        if self.ack_every_messages is not None or self.ack_interval_ms is not None:
            srtm["ack_every_messages"] = self.ack_every_messages or 0
            srtm["ack_interval_ms"] = self.ack_interval_ms or 0
        return {
            "client_id": self.id,
            "user_agent": "srtm-python/0.1.0",
            "feature_negotiation": True,
            "heartbeat_interval": round(self.heartbeat_seconds * 1000),
            "srtm": srtm,
        }

    def declaration(self) -> dict:
        """The publisher as the controller wants it declared."""
        declared: dict = {"id": self.id, "rate": self.rate, "batch": self.batch}
        if self.group is not None:
            declared["group"] = self.group
        return declared


def _invalid(field: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{field} {value!r} is not valid: {allowed}")
