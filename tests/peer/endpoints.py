"""Endpoints and a broker as processes on hosts: `srtm pub --peer`, `srtm sub --peer`, `srtm broker --announce-address`.

A publisher's lines are written by the test; what a subscriber prints is read from a file. Messages are numbers, so that
order and losses can be seen.
"""

import http.client
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from broker import command_line
from deadlines import GENEROUS_S, wait_until
from switch import Host

REPOSITORY = Path(__file__).resolve().parents[2]
ANNOUNCE_PORT = 14151
TCP_ESTABLISHED = "01"

REPORT = re.compile(r"(\d+) messages published on \S+ to (\d+) subscribers(?:; (\d+) found none)?")


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
        if self.process.stdin:
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()

    def connections_to(self, host: Host) -> int:
        """Established TCP connections from this program's host to `host`, by the kernel's table of the host."""
        quads = [int(part) for part in host.address.split(".")]
        remote = "".join(f"{quad:02X}" for quad in reversed(quads))
        lines = Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]
        rows = (line.split() for line in lines)
        return sum(row[2].startswith(f"{remote}:") and row[3] == TCP_ESTABLISHED for row in rows)


class Publisher(Program):
    """`srtm pub`: publishes numbers, counted from 0 on."""

    def __init__(self, host: Host, log_path: Path, topic: str, *flags: str) -> None:
        super().__init__(host, log_path, "pub", topic, *flags, stdin=subprocess.PIPE)
        self.published = 0

    def publish(self, count: int = 1) -> list[int]:
        """Hands over the next numbers; it may have them waiting."""
        self.assert_runs()
        numbers = list(range(self.published, self.published + count))
        self.published += count
        self.process.stdin.write("".join(f"{number}\n" for number in numbers).encode())
        self.process.stdin.flush()
        return numbers

    def publish_until_heard(self, *subscribers: "Subscriber") -> None:
        """Publishes one after the other until each subscriber has heard one of them."""
        first = self.published
        for subscriber in subscribers:

            def is_heard(subscriber: "Subscriber" = subscriber) -> bool:
                self.publish()
                return any(number >= first for number in subscriber.heard())

            wait_until(is_heard, f"any of {first} and up at {subscriber.host.namespace}")

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

    def wait_for(self, numbers: Iterable[int]) -> None:
        """Waits until all these were heard."""
        wanted = set(numbers)
        wait_until(lambda: wanted <= set(self.heard()), f"{len(wanted)} messages at {self.host.namespace}")


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

    def get(self, path: str) -> bytes:
        """The body of an HTTP answer, which must be 200."""
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

    def terminate(self) -> int:
        """Asks for an orderly end; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


def assert_in_order(subscriber: Subscriber) -> None:
    """Each message at most once, and in the order in which one publisher published them."""
    heard = subscriber.heard()
    assert all(earlier < later for earlier, later in zip(heard, heard[1:], strict=False)), heard
