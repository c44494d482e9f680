"""One broker process under test and its HTTP port.

The command line comes from SRTM_NSQD, so that the same suite runs against SRTM and against the nsqd it must be
compatible with. What the suite relies on is part of nsqd's surface: the flags below, and the two lines on stderr
that tell which addresses were bound.
"""

import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from deadlines import GENEROUS_S, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_COMMAND = "target/debug/srtm nsqd"

LOST = 3
"""Exit code of a stop that lost messages: SRTM keeps them in memory only."""

BOUND_LINE = re.compile(r"(TCP|HTTP): listening on (\S+):(\d+)")

Address = tuple[str, int]


def command_line() -> list[str]:
    """The broker's command line; relative programs are meant from the repository's top folder."""
    words = shlex.split(os.environ.get("SRTM_NSQD", DEFAULT_COMMAND))
    program = REPOSITORY / words[0]
    return [str(program) if program.exists() else words[0], *words[1:]]


def is_stock_nsqd() -> bool:
    """Whether the broker under test is the original: it names the Go version that built it."""
    answer = subprocess.run(
        [*command_line(), "-version"], capture_output=True, text=True, timeout=GENEROUS_S, check=True
    )
    return "built w/go" in answer.stdout


def stock_fields(document: dict[str, Any]) -> list[str]:
    """A document's fields in their order, without those that SRTM adds: their names begin with `srtm`."""
    return [field for field in document if not field.startswith("srtm")]


@dataclass(frozen=True)
class HttpAnswer:
    """Status, headers and body of one HTTP exchange."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def message(self) -> str:
        """nsqd's error text, the `message` of the JSON body."""
        return self.json()["message"]


class Broker:
    """A running broker; `stop` ends it with SIGTERM and returns its exit code."""

    def __init__(self, data_path: Path, *flags: str) -> None:
        self.data_path = data_path
        data_path.mkdir(parents=True, exist_ok=True)
        self.log_path = data_path / "broker.log"
        self.terminated = False
        command = [
            *command_line(),
            "-tcp-address=127.0.0.1:0",
            "-http-address=127.0.0.1:0",
            "-broadcast-address=127.0.0.1",
            f"-data-path={data_path}",
            *flags,
        ]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY)
        bound = wait_until(self._bound_addresses, f"the listening lines of {shlex.join(command)}")
        self.tcp, self.http = bound["TCP"], bound["HTTP"]

    def _bound_addresses(self) -> dict[str, Address] | None:
        lines = self.log()
        assert self.process.poll() is None, f"the broker ended with {self.process.returncode}:\n{lines}"
        bound = {kind: (host, int(port)) for kind, host, port in BOUND_LINE.findall(lines)}
        return bound if bound.keys() == {"TCP", "HTTP"} else None

    def log(self) -> str:
        """Everything the broker has written to stdout and stderr."""
        return self.log_path.read_text(errors="replace")

    @property
    def tcp_text(self) -> str:
        """The NSQ address as clients write it."""
        return f"{self.tcp[0]}:{self.tcp[1]}"

    @property
    def http_text(self) -> str:
        """The HTTP address as tools write it."""
        return f"{self.http[0]}:{self.http[1]}"

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, **query: Any
    ) -> HttpAnswer:
        """One HTTP exchange on a connection of its own. The path goes out as it is; `query` is encoded."""
        target = f"{path}?{urlencode(query)}" if query else path
        connection = http.client.HTTPConnection(*self.http, timeout=GENEROUS_S)
        try:
            # A broker may refuse a body and hang up before it has all come; its answer can be read all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **query: Any) -> HttpAnswer:
        """GET."""
        return self.request("GET", path, **query)

    def post(self, path: str, body: bytes = b"", **query: Any) -> HttpAnswer:
        """POST that must succeed; see `request` for one that may fail."""
        answer = self.request("POST", path, body, **query)
        assert answer.status == 200, f"POST {path} {query}: {answer}"
        return answer

    def stats(self, **query: Any) -> dict[str, Any]:
        """`/stats` as JSON."""
        return self.get("/stats", format="json", **query).json()

    def topic(self, topic: str) -> dict[str, Any] | None:
        """The topic's entry in `/stats`, or None where there is no such topic."""
        # nsqd answers `null` instead of an empty list where the filter matches nothing.
        topics = self.stats(topic=topic)["topics"] or []
        return topics[0] if topics else None

    def channel(self, topic: str, channel: str) -> dict[str, Any] | None:
        """The channel's entry in `/stats`, or None."""
        entry = self.topic(topic)
        channels = entry["channels"] if entry else []
        return next((c for c in channels if c["channel_name"] == channel), None)

    def wait_for_channel(self, topic: str, channel: str, **counts: Any) -> dict[str, Any]:
        """Waits until the channel's entry shows these values."""

        def shown() -> dict[str, Any] | None:
            entry = self.channel(topic, channel)
            return entry if entry and all(entry[name] == value for name, value in counts.items()) else None

        return wait_until(shown, f"{counts} at {topic}/{channel}: {self.channel(topic, channel)}")

    def terminate(self) -> None:
        """Asks for an orderly end, once: a second signal means `at once` to many servers."""
        if not self.terminated:
            self.terminated = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Ends the broker in order and returns its exit code."""
        if self.process.poll() is None:
            self.terminate()
        try:
            return self.process.wait(timeout=GENEROUS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the broker did not end on SIGTERM:\n{self.log()[-4000:]}") from None
