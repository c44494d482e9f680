"""Brokers and a controller on real sockets, as small as the publisher allows."""

import asyncio
import json
import struct
from urllib.parse import unquote

OK = struct.pack(">II", 6, 0) + b"OK"
HEARTBEAT = struct.pack(">II", 15, 0) + b"_heartbeat_"


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">II", len(data) + 4, kind) + data


def migrate(topic: str, address: str) -> bytes:
    texts = [topic.encode(), address.encode()]
    return frame(17, b"".join(struct.pack(">H", len(text)) + text for text in texts))


class Broker:
    """Keeps what it accepts."""

    def __init__(self, acks: bool = False) -> None:
        self.bodies: list[bytes] = []
        self.identities: list[dict] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.nops = 0
        self.closed = 0
        self.is_mute = False
        self.is_dead = False
        self.refuses: tuple[bytes, bytes] | None = None
        self._acks = acks
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []

    async def start(self) -> "Broker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    def send(self, data: bytes) -> None:
        self.writers[-1].write(data)

    def unmute(self) -> None:
        self.is_mute = False
        for writer, data in self._held:
            writer.write(data)
        self._held.clear()

    def kill(self) -> None:
        self.is_dead = True
        for writer in self.writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_dead:
            writer.close()
            return
        self.writers.append(writer)
        try:
            await self._converse(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.closed += 1
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = 0
        assert await reader.readexactly(4) == b"  V2"
        while True:
            verb, *parameters = (await reader.readuntil(b"\n")).split()
            if verb == b"NOP":
                self.nops += 1
                continue
            (size,) = struct.unpack(">I", await reader.readexactly(4))
            body = await reader.readexactly(size)
            if verb == b"IDENTIFY":
                self.identities.append(json.loads(body))
                srtm = {"version": 2, "publisher": True, **({"ack_every_messages": 64} if self._acks else {})}
                writer.write(frame(0, json.dumps({"srtm": srtm}).encode()))
                continue
            assert parameters == [b"t"]
            bodies = [body] if verb == b"PUB" else list(split_batch(body))
            if self.refuses is not None and self.refuses[0] in bodies:
                writer.write(frame(1, self.refuses[1]))
                await writer.drain()
                return
            self.bodies += bodies
            accepted += len(bodies)
            answer = frame(16, struct.pack(">Q", accepted)) if self._acks else OK
            if self.is_mute:
                self._held.append((writer, answer))
            else:
                writer.write(answer)


def split_batch(body: bytes):
    (count,) = struct.unpack_from(">I", body)
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">I", body, at)
        yield body[at + 4 : at + 4 + size]
        at += 4 + size
    assert at == len(body)


class Controller:
    """Answers by a table from `METHOD target` to status and JSON."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict]] = {}
        self.asked: list[str] = []
        self.bodies: list[dict] = []

    async def start(self) -> "Controller":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "http://{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    def places(self, first: Broker, second: Broker) -> None:
        """At `first`; at `second` when it is to avoid `first`."""
        self.answers["POST /v1/topics/t/publishers"] = (200, {"publishers": [placed(first)]})
        self.answers["GET /v1/topics/t/publishers/s/1"] = (200, placed(first))
        self.answers[f"GET /v1/topics/t/publishers/s/1?avoid={first.address}"] = (200, placed(second))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
        if body := await reader.readexactly(length):
            self.bodies.append(json.loads(body))
        request = f"{method} {unquote(target)}"
        self.asked.append(request)
        status, answer = self.answers.get(request, (404, {"message": "nothing here"}))
        content = json.dumps(answer).encode()
        writer.write(b"HTTP/1.0 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(content), content))
        writer.close()


def placed(broker: Broker) -> dict:
    return {"id": "s/1", "rate": 1.0, "batch": 1, "broker": {"broker": "b", "tcp_address": broker.address}}
