"""The controller's HTTP, as far as publishers need it: HTTP/1.0 on asyncio streams, one request per connection."""

import asyncio
import json
from urllib.parse import quote, urlsplit

from .errors import ControllerFailed, NotPlaced
from .options import Options
from .servers import Servers

#: Longest wait for an answer; with many publishers registering at once a controller needs a while.
TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 1 << 20
#: HTTP status of a controller that does not lead.
_DOES_NOT_LEAD = 421


class Unknown(Exception):
    """The controller does not know the publisher (404)."""


class Controller:
    """The controller of these options, or the one of several that leads."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._servers = Servers(options.controller, "http" if options.tls is None else "https")

    async def register(self) -> str | None:
        """Declares the publisher; gives the broker's address, None while it has none."""
        body = {"publishers": [self._options.declaration()]}
        answer = await self._ask("POST", "/publishers", body)
        return _address(_first(answer, "publishers"))

    async def place(self, avoid: str | None) -> str | None:
        """The broker's address; None while there is none. `avoid` is one that did not answer."""
        query = f"?avoid={quote(avoid, safe='')}" if avoid else ""
        try:
            answer = await self._ask("GET", f"/publishers/{quote(self._options.id, safe='')}{query}")
        except Unknown:
            if self._options.register:
                raise
            answer = await self._ask("GET", "/placement")
            return _tcp_address(_first(answer, "brokers"))
        return _address(answer)

    async def _ask(self, method: str, path: str, body: dict | None = None) -> dict:
        """The answer of the first that answers and leads, each within the time that there is."""
        target = f"/v1/topics/{quote(self._options.topic, safe='')}{path}"
        turn, failure = self._servers.turn(), ControllerFailed("no controller was asked")
        for base in turn:
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    status, answer = await _request(base, method, target, body, self._options)
            except (OSError, ValueError, TimeoutError) as error:
                failure = ControllerFailed(f"the controller is out of reach: {error or 'no answer in time'}")
                continue
            if status != _DOES_NOT_LEAD:
                self._servers.answered(base)
                return _judge(status, answer)
            failure = ControllerFailed(_refusal(status, answer))
            if isinstance(leader := answer.get("leader"), str):
                turn.led_to(leader)
        raise failure


def _judge(status: int, answer: dict) -> dict:
    if 200 <= status < 300:
        return answer
    if status == 404:
        raise Unknown
    text = _refusal(status, answer)
    if 400 <= status < 500 and status not in (408, 429):
        raise NotPlaced(text)
    raise ControllerFailed(text)


def _refusal(status: int, answer: dict) -> str:
    reason = answer.get("message") or answer.get("error") or "nothing more"
    return f"the controller answered {status}: {reason}"


async def _request(base: str, method: str, target: str, body: dict | None, options: Options) -> tuple[int, dict]:
    url = urlsplit(base)
    is_secure = url.scheme == "https"
    reader, writer = await asyncio.open_connection(
        url.hostname, url.port or (443 if is_secure else 80), ssl=(options.tls or True) if is_secure else None
    )
    try:
        content = b"" if body is None else json.dumps(body).encode()
        shown = "" if options.token is None else f"Authorization: Bearer {options.token}\r\n"
        head = (
            f"{method} {url.path}{target} HTTP/1.0\r\nHost: {url.netloc}\r\n{shown}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()
        answer = await _read_all(reader)
    finally:
        writer.close()
    head_bytes, _, content = answer.partition(b"\r\n\r\n")
    status_line = head_bytes.split(b" ", 2)
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/1."):
        raise ValueError("this is no HTTP")
    status = int(status_line[1])
    try:
        parsed = json.loads(content) if content else {}
    except ValueError:
        parsed = {}
    return status, parsed if isinstance(parsed, dict) else {}


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Reads to the end of the connection, or of the announced content."""
    answer = bytearray()
    while piece := await reader.read(65536):
        answer += piece
        if len(answer) > _MAX_ANSWER_BYTES:
            raise ValueError("the answer is too long")
        head, found, content = bytes(answer).partition(b"\r\n\r\n")
        if found and len(content) >= _content_length(head, default=_MAX_ANSWER_BYTES + 1):
            break
    return bytes(answer)


def _content_length(head: bytes, default: int) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return default


def _first(answer: dict, field: str) -> dict:
    entries = answer.get(field)
    return entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else {}


def _address(publisher: dict) -> str | None:
    if not isinstance(publisher.get("id"), str):
        raise ControllerFailed("the controller's answer names no publisher")
    broker = publisher.get("broker")
    return _tcp_address(broker) if isinstance(broker, dict) else None


def _tcp_address(broker: dict) -> str | None:
    address = broker.get("tcp_address")
    return address if isinstance(address, str) else None
