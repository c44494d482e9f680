"""How long a request and its echo take over the bridge: directly between endpoints, and through a broker.

    sudo PYTHONPATH=tests/clients:experiments/testbed SRTM_NSQD="target/release/srtm nsqd" \
        build/venv/bin/python tests/peer/latency.py

Two loops stand side by side, each of four `srtm` processes: this program writes a line to a publisher on host `a`, a
subscriber on host `b` pipes it into a publisher there, and a subscriber on `a` prints what comes back. Rounds alternate
between the loops, so that both see the same machine. Pipes and this program's own time are part of every figure; the
loop of `cat` shows how much that is. The broker runs on host `c`. What is compared is the way alone: the endpoints are
the same programs in both loops.
"""

import argparse
import contextlib
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from broker import command_line
from endpoints import REPOSITORY, AnnouncedBroker
from group import MULTICAST
from namespace import why_impossible
from switch import Host, Switch

REQUEST, ECHO = "request", "echo"
WARM_UP = 50


class Loop:
    """A way of a line from this program to host `b` and back."""

    def __init__(self, name: str, request: Callable[[], subprocess.Popen], echo: subprocess.Popen) -> None:
        self.name = name
        self.round_trips_us: list[float] = []
        self._request = request()
        self._echo = echo
        self._sent = 0

    def round_trip(self) -> float:
        """Sends a line, waits for it, and returns the microseconds that it took."""
        self._sent += 1
        line = b"%d\n" % self._sent
        start = time.perf_counter_ns()
        self._request.stdin.write(line)
        self._request.stdin.flush()
        answer = self._echo.stdout.readline()
        took_us = (time.perf_counter_ns() - start) / 1000
        if answer != line:
            raise SystemExit(f"{self.name}: sent {line!r}, got {answer!r}")
        return took_us


class Processes:
    """Starts processes on hosts and ends them, each by its own process id."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen] = []

    def start(self, host: Host, *words: str, stdin: object = subprocess.PIPE) -> subprocess.Popen:
        """Starts a program whose input and output are pipes."""
        with host.inside():
            process = subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, cwd=REPOSITORY)
        self._started.append(process)
        return process

    def close(self) -> None:
        """Ends everything, publishers before what they read from, so that none sees an end and reports."""
        for process in reversed(self._started):
            process.kill()
            process.wait()


def announced_loop(name: str, peer: str, switch: Switch, processes: Processes) -> Loop:
    """The loop over `srtm pub --peer` and `srtm sub --peer`."""
    srtm = command_line()[0]
    request, echo = f"{REQUEST}_{name}", f"{ECHO}_{name}"
    back = processes.start(switch["a"], srtm, "sub", echo, "--peer", peer, stdin=subprocess.DEVNULL)
    there = processes.start(switch["b"], srtm, "sub", request, "--peer", peer, stdin=subprocess.DEVNULL)
    processes.start(switch["b"], srtm, "pub", echo, "--peer", peer, stdin=there.stdout)
    return Loop(name, lambda: processes.start(switch["a"], srtm, "pub", request, "--peer", peer), back)


def pipes_loop(switch: Switch, processes: Processes) -> Loop:
    """The same number of processes and pipes without any network: as `cat`, of which two stand for each way."""
    first = processes.start(switch["a"], "cat")
    last = first
    for _ in range(3):
        last = processes.start(switch["a"], "cat", stdin=last.stdout)
    return Loop("pipes", lambda: first, last)


@contextlib.contextmanager
def loops() -> Iterator[list[Loop]]:
    """All loops, ready."""
    with contextlib.ExitStack() as stack:
        logs = Path(stack.enter_context(TemporaryDirectory()))
        switch = Switch("a", "b", "c")
        stack.callback(switch.close)
        broker = AnnouncedBroker(switch["c"], logs / "broker")
        stack.callback(broker.kill)
        processes = Processes()
        stack.callback(processes.close)
        yield [
            announced_loop("peer", MULTICAST, switch, processes),
            announced_loop("broker", broker.announce, switch, processes),
            pipes_loop(switch, processes),
        ]


def quantile(values: list[float], part: float) -> float:
    """The value that this part of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description="Round trips over a bridge: directly and through a broker.")
    parser.add_argument("--rounds", type=int, default=20, help="rounds, each of all loops in turn [20]")
    parser.add_argument("--requests", type=int, default=500, help="requests of a loop in one round [500]")
    flags = parser.parse_args()
    if reason := why_impossible():
        raise SystemExit(reason)
    with loops() as ways:
        for way in ways:
            for _ in range(WARM_UP):
                way.round_trip()
        for number in range(flags.rounds):
            # Every other round backwards, so that none always comes after the same one.
            for way in ways if number % 2 == 0 else reversed(ways):
                way.round_trips_us += [way.round_trip() for _ in range(flags.requests)]
    print(f"{shlex.join(command_line()[:1])}: {flags.rounds} rounds of {flags.requests} requests")
    for way in ways:
        took = way.round_trips_us
        print(f"{way.name:>8}  p50 {quantile(took, 0.5):8.1f} us  p99 {quantile(took, 0.99):8.1f} us")
    direct, brokered = ways[0].round_trips_us, ways[1].round_trips_us
    ratios = ", ".join(
        f"p{part * 100:.0f} {quantile(brokered, part) / quantile(direct, part):.2f}" for part in (0.5, 0.99)
    )
    print(f"broker / peer: {ratios}")


if __name__ == "__main__":
    main()
