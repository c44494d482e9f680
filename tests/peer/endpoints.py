"""Endpoints and a broker as processes on hosts: `srtm pub --peer`, `srtm sub --peer`, `srtm broker --announce-address`.

A publisher's lines are written by the test; what a subscriber prints is read from a file. Messages are numbers, so that
order and losses can be seen.
"""

import contextlib
import http.client
import itertools
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from broker import command_line
from deadlines import GENEROUS_S, wait_until
from switch import Host

REPOSITORY = Path(__file__).resolve().parents[2]
ANNOUNCE_PORT = 14151
TCP_ESTABLISHED = "01"

REPORT = re.compile(r"(\d+) messages published on \S+, subscribers: (\d+)(?:; (\d+) had no subscriber)?")


Started = TypeVar("Started", bound="Program")


class Program:
    """One `srtm` process on a host. What it writes goes to files beside each other."""

    def __init__(self, host: Host, log_path: Path, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        self.host = host
        self.words = words
        self.output_path = log_path.with_suffix(".out")
        self.errors_path = log_path.with_suffix(".err")
        with self.output_path.open("wb") as output, self.errors_path.open("wb") as errors, host.inside():
            self.process = subprocess.Popen(
                [command_line()[0], *words], stdin=stdin, stdout=output, stderr=errors, cwd=REPOSITORY
            )

    def errors(self) -> str:
        """What it has written to stderr."""
        return self.errors_path.read_text(errors="replace")

    def assert_runs(self) -> None:
        """Fails with what it said last if it has ended."""
        ended = self.process.poll()
        assert ended is None, f"srtm {' '.join(self.words)} ended with {ended}:\n{self.errors()[-4000:]}"

    def wait(self) -> int:
        """Waits until it ends by itself; its exit code."""
        try:
            return self.process.wait(timeout=GENEROUS_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"srtm {' '.join(self.words)} does not end:\n{self.errors()[-4000:]}") from None

    def kill(self) -> None:
        """Ends it at once, so that it takes no leave of anybody."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def datagrams_read(self) -> int:
        """UDP datagrams that programs of this one's host have read, by the kernel's count."""
        names, values = (
            line.split()[1:]
            for line in Path(f"/proc/{self.process.pid}/net/snmp").read_text().splitlines()
            if line.startswith("Udp:")
        )
        return int(values[names.index("InDatagrams")])

    def connections_to(self, host: Host) -> int:
        """Established TCP connections from this program's host to `host`."""
        return len(self._established(host))

    def unacknowledged_bytes(self, host: Host) -> int:
        """Bytes that were written to those connections and that `host` has not acknowledged."""
        return sum(int(row[4].partition(":")[0], 16) for row in self._established(host))

    def _established(self, host: Host) -> list[list[str]]:
        """Rows of the kernel's table of TCP connections (proc_pid_net(5))."""
        quads = [int(part) for part in host.address.split(".")]
        remote = "".join(f"{quad:02X}" for quad in reversed(quads))
        lines = Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]
        rows = [line.split() for line in lines]
        return [row for row in rows if row[2].startswith(f"{remote}:") and row[3] == TCP_ESTABLISHED]


class Publisher(Program):
    """`srtm pub`: publishes numbers, counted from `first` on."""

    def __init__(self, host: Host, log_path: Path, topic: str, *flags: str, first: int = 0) -> None:
        super().__init__(host, log_path, "pub", topic, *flags, stdin=subprocess.PIPE)
        self.published = first

    def publish(self, count: int = 1) -> list[int]:
        """Hands over the next numbers; it may have them waiting."""
        self.assert_runs()
        numbers = list(range(self.published, self.published + count))
        self.published += count
        self.process.stdin.write("".join(f"{number}\n" for number in numbers).encode())
        self.process.stdin.flush()
        return numbers

    def publish_until(self, condition: Callable[[], bool], what: str) -> None:
        """Publishes one after the other until `condition` holds."""

        def publish_and_look() -> bool:
            self.publish()
            return condition()

        wait_until(publish_and_look, what)

    def publish_until_heard(self, *subscribers: "Subscriber") -> None:
        """Publishes one after the other until each subscriber has heard one of them."""
        first = self.published
        self.publish_until(
            lambda: all(subscriber.last_heard() >= first for subscriber in subscribers), f"any of {first} and up"
        )

    def finish(self) -> tuple[int, int, int]:
        """Ends its input and waits; its report: published, subscribers at the end, and how many found none."""
        self.process.stdin.close()
        code = self.wait()
        report = REPORT.search(self.errors())
        assert code == 0 and report, f"exit code {code}: {self.errors()}"
        published, subscribers, found_none = report.groups()
        return int(published), int(subscribers), int(found_none or 0)


class Subscriber(Program):
    """`srtm sub`: its output are the numbers that it has heard."""

    def __init__(self, host: Host, log_path: Path, topic: str, *flags: str) -> None:
        super().__init__(host, log_path, "sub", topic, *flags)

    def heard(self) -> list[int]:
        """The numbers so far. A line that is being written does not count yet."""
        self.assert_runs()
        text = self.output_path.read_text()
        return [int(line) for line in text[: text.rfind("\n") + 1].split()]

    def last_heard(self) -> int:
        """The last number so far; -1 before the first."""
        return next(reversed(self.heard()), -1)

    def wait_for(self, numbers: Iterable[int]) -> None:
        """Waits until all these were heard."""
        wanted = set(numbers)
        wait_until(lambda: wanted <= set(self.heard()), f"{len(wanted)} messages at {self.host.address}")


class AnnouncedBroker(Program):
    """`srtm broker` that takes announcements at `announce`, with its HTTP port for the host itself."""

    def __init__(self, host: Host, log_path: Path, *flags: str) -> None:
        self.announce = f"{host.address}:{ANNOUNCE_PORT}"
        super().__init__(
            host,
            log_path,
            "broker",
            f"--tcp-address={host.address}:0",
            "--http-address=127.0.0.1:0",
            "--insecure",
            f"--broadcast-address={host.address}",
            f"--announce-address={self.announce}",
            *flags,
        )
        self._http_port = wait_until(self._bound_http_port, "the broker's listening lines")

    def _bound_http_port(self) -> int | None:
        self.assert_runs()
        said = self.output_path.read_text() + self.errors()
        port = re.search(r"HTTP: listening on \S+:(\d+)", said)
        return int(port[1]) if port and "announcements: listening on" in said else None

    def messages(self, topic: str) -> int:
        """Messages of the topic that have come to the broker."""
        topics = json.loads(self._get(f"/stats?format=json&topic={topic}"))["topics"] or []
        return sum(entry["message_count"] for entry in topics)

    def announcements(self) -> dict[str, Any]:
        """What has become of the announcements that came to the broker."""
        return json.loads(self._get("/v1/announcements"))

    def _get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._http_port, timeout=GENEROUS_S)
        with self.host.inside():
            connection.connect()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, f"GET {path}: {answer.status} {body!r}"
            return body
        finally:
            connection.close()


class Endpoints:
    """Starts programs for one test and one topic, and ends those that are left, each by its own process id."""

    def __init__(self, logs: Path, topic: str) -> None:
        self.topic = topic
        self._logs = logs
        self._started: list[Program] = []

    def subscriber(self, host: Host, peer: str, *flags: str) -> Subscriber:
        """Starts `srtm sub TOPIC --peer PEER`."""
        return self._keep(Subscriber(host, self._log("sub"), self.topic, "--peer", peer, *flags))

    def publisher(self, host: Host, peer: str, *flags: str, first: int = 0) -> Publisher:
        """Starts `srtm pub TOPIC --peer PEER`."""
        return self._keep(Publisher(host, self._log("pub"), self.topic, "--peer", peer, *flags, first=first))

    def broker(self, host: Host) -> AnnouncedBroker:
        """Starts a broker and waits until it listens."""
        return self._keep(AnnouncedBroker(host, self._log("broker")))

    def close(self) -> None:
        """Ends everything."""
        for program in self._started:
            program.kill()

    def _log(self, kind: str) -> Path:
        return self._logs / f"{kind}{len(self._started)}"

    def _keep(self, program: Started) -> Started:
        self._started.append(program)
        return program


def assert_in_order(*subscribers: Subscriber) -> None:
    """Each message at most once, and in the order in which they were published."""
    for subscriber in subscribers:
        heard = subscriber.heard()
        assert all(earlier < later for earlier, later in itertools.pairwise(heard)), heard
