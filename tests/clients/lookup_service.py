"""A lookup service under test, a bare peer that speaks its TCP protocol, and stock nsqd's that register.

The command line comes from SRTM_NSQLOOKUPD, so that the same tests run against SRTM and against the nsqlookupd it must
be compatible with.
"""

import contextlib
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import tools
from broker import BOUND_LINE, REPOSITORY, Address, HttpAnswer
from deadlines import GENEROUS_S, wait_until
from raw_protocol import sized

DEFAULT_COMMAND = "target/debug/srtm nsqlookupd"
STOCK_VERSION = "1.3.0"
"""Version of the nsqd's and of the nsqlookupd that these tests are written down from."""

OWN_FLAGS = ["-tcp-address=127.0.0.1:0", "-http-address=127.0.0.1:0", "-broadcast-address=127.0.0.1"]
"""Flags of every service, where a test does not give them."""

PRODUCER_FIELDS = {"remote_address", "hostname", "broadcast_address", "tcp_port", "http_port", "version"}
IDENTITY = {
    "broadcast_address": "peer.example",
    "hostname": "peer",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": STOCK_VERSION,
}


def command_line() -> list[str]:
    """Command line of the lookup service under test; relative programs are meant from the repository's top folder."""
    words = shlex.split(os.environ.get("SRTM_NSQLOOKUPD", DEFAULT_COMMAND))
    program = REPOSITORY / words[0]
    return [str(program) if program.exists() else words[0], *words[1:]]


def bound_addresses(log: str) -> dict[str, Address] | None:
    """Addresses from the lines that NSQ's daemons write when they listen."""
    bound = {kind: (host, int(port)) for kind, host, port in BOUND_LINE.findall(log)}
    return bound if bound.keys() == {"TCP", "HTTP"} else None


def text(address: Address) -> str:
    """An address as flags and URLs have it."""
    return f"{address[0]}:{address[1]}"


def request(
    address: Address, method: str, path: str, headers: dict[str, str] | None = None, **query: str
) -> HttpAnswer:
    """One HTTP exchange."""
    connection = http.client.HTTPConnection(*address, timeout=GENEROUS_S)
    try:
        connection.request(method, f"{path}?{urlencode(query)}" if query else path, headers=headers or {})
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def post(address: Address, path: str, **query: str) -> None:
    """A POST that must succeed."""
    answer = request(address, "POST", path, **query)
    assert answer.status == 200, f"POST {path} {query}: {answer}"


class Nsqlookupd:
    """A running lookup service: the one under test, or with `program` another one."""

    def __init__(self, folder: Path, *flags: str, program: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / "nsqlookupd.log"
        named = [flag.partition("=")[0] for flag in flags]
        command = [
            *([program] if program else command_line()),
            *(flag for flag in OWN_FLAGS if flag.partition("=")[0] not in named),
            *flags,
        ]
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(f"no {command[0]}: build it (cargo build -p srtm)")
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY)
        bound = wait_until(self._bound_addresses, f"the listening lines of {shlex.join(command)}")
        self.tcp, self.http = bound["TCP"], bound["HTTP"]

    def _bound_addresses(self) -> dict[str, Address] | None:
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
        return bound_addresses(self.log())

    def log(self) -> str:
        """Everything it has written to stdout and stderr."""
        return self.log_path.read_text(errors="replace")

    def get(self, path: str, **query: str) -> Any:
        """The JSON of a GET that must succeed."""
        answer = request(self.http, "GET", path, **query)
        assert answer.status == 200, f"GET {path} {query}: {answer}"
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        return answer.json()

    def producers(self, topic: str) -> list[dict[str, Any]] | None:
        """Where consumers of a topic are sent; None while the topic is unknown."""
        answer = request(self.http, "GET", "/lookup", topic=topic)
        return answer.json()["producers"] if answer.status == 200 else None

    def names(self, topic: str) -> list[str] | None:
        """Broadcast addresses of the topic's producers, in order."""
        producers = self.producers(topic)
        return None if producers is None else sorted(producer["broadcast_address"] for producer in producers)

    def node(self, **fields: object) -> dict[str, Any] | None:
        """The entry of `/nodes` with these fields, or None."""
        nodes = self.get("/nodes")["producers"]
        return next((node for node in nodes if all(node[name] == value for name, value in fields.items())), None)

    def stop(self) -> int:
        """SIGTERM, then the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=GENEROUS_S)


class Peer:
    """A bare connection to the TCP port: what an nsqd says, and everything that no nsqd would."""

    def __init__(self, address: Address, magic: bytes = b"  V1") -> None:
        self.socket = socket.create_connection(address, timeout=GENEROUS_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = "{}:{}".format(*self.socket.getsockname())
        self.send(magic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes; a service that has already hung up is no error here: its last answer may still be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def _read(self, size_bytes: int) -> bytes:
        data = b""
        while len(data) < size_bytes:
            piece = self.socket.recv(size_bytes - len(data))
            if not piece:
                raise EOFError(data)
            data += piece
        return data

    def answer(self) -> bytes:
        """The next answer."""
        (size_bytes,) = struct.unpack(">i", self._read(4))
        return self._read(size_bytes)

    def ask(self, data: bytes) -> bytes:
        """Sends and returns the answer."""
        self.send(data)
        return self.answer()

    def identify(self, **changes: object) -> Any:
        """IDENTIFY with some fields changed; returns the answer's JSON."""
        return json.loads(self.ask(identify(**changes)))

    def register(self, *names: str) -> None:
        """REGISTER topic [channel]."""
        assert self.ask(f"REGISTER {' '.join(names)}\n".encode()) == b"OK"

    def unregister(self, *names: str) -> None:
        """UNREGISTER topic [channel]."""
        assert self.ask(f"UNREGISTER {' '.join(names)}\n".encode()) == b"OK"

    def has_ended(self) -> bool:
        """Whether the other side closes the connection; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def identify(**changes: object) -> bytes:
    """IDENTIFY with its body."""
    return b"IDENTIFY\n" + sized(json.dumps(IDENTITY | changes).encode())


class Nsqd:
    """A stock nsqd; with `-lookupd-tcp-address` it registers."""

    def __init__(self, started: tools.Tool) -> None:
        self.tool = started
        bound = wait_until(lambda: bound_addresses(started.log()), "the listening lines of nsqd")
        self.tcp, self.http = bound["TCP"], bound["HTTP"]
