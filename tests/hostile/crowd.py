"""Many connections of one address, and questions from another: addresses of this machine stand for others."""

import contextlib
import http.client
import resource
import socket

from broker import Address, HttpAnswer

STRANGER, OTHER = "127.0.0.1", "127.0.0.2"

PATIENCE_S = 20.0
"""Less than a silent connection may stay where nobody needs its place: an answer that waits for that comes too late."""

THIRD = "127.0.0.3"


def ask(at: Address, method: str, path: str, source: str = STRANGER, body: bytes | None = None) -> HttpAnswer:
    """One exchange from an address of this machine."""
    connection = http.client.HTTPConnection(*at, timeout=PATIENCE_S, source_address=(source, 0))
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class Crowd(contextlib.ExitStack):
    """Connections of one address that each begin the same and then say no more."""

    def __init__(self, at: Address, source: str = STRANGER) -> None:
        super().__init__()
        self.at, self.source = at, source

    def connect(self) -> socket.socket:
        """One more."""
        made = socket.create_connection(self.at, timeout=PATIENCE_S, source_address=(self.source, 0))
        return self.enter_context(made)

    def grow(self, count: int, beginning: bytes) -> list[socket.socket]:
        """So many more; one that had to give way meanwhile is no error here."""
        made = []
        for _ in range(count):
            connection = self.connect()
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(beginning)
            made.append(connection)
        return made


def allow_descriptors(count: int) -> None:
    """Lets this process have so many connections and what it has besides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 512)), hard))


def metric(at: Address, name: str, prefix: str = "srtm") -> int:
    """A number of /metrics that has no labels."""
    lines = ask(at, "GET", "/metrics").body.decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"{prefix}_{name} ")]
    return int(float(value))


def summed(at: Address, name: str) -> int:
    """A number of /metrics, over all reactors."""
    lines = ask(at, "GET", "/metrics").body.decode().splitlines()
    return sum(int(float(line.split()[1])) for line in lines if line.startswith(f"{name}{{"))
