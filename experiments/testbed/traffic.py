"""The traffic of one experiment: every source and every sink, in one thread with one epoll loop.

Data go from sources to sinks. A bulk flow is opened by its source, so its SYN passes the limiter too; a web object is
fetched by the sink, as browsers do. What a source sends is zeros, after the few bytes that say which flow it is.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import heapq
import itertools
import random
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from network import BACKLOG, Namespace
from scenario import Bulk, Scenario, Sessions, Web

BULK_PORT = 5001
WEB_PORT = 80
BIN_S = 0.1

# Linux numbers that this Python's socket module does not have.
TCP_NOTSENT_LOWAT = 25
IP_BIND_ADDRESS_NO_PORT = 24
# Enough that a source is never what a flow waits for, and little enough for thousands of them.
UNSENT_BYTES = 32_768

WORD = struct.Struct("!I")
ZEROS = bytes(UNSENT_BYTES)
READ_BYTES = 262_144
ACCEPTS_AT_ONCE = 64
MOST_DOWNLOADS_AT_ONCE = 4_000
RECONNECT_AFTER_S = 1.0
MOST_WAIT_S = 0.5


@dataclass
class BulkCounts:
    """One bulk flow, by what came to the sink."""

    part: int
    start_s: float
    bytes_in_window: int = 0
    bytes_total: int = 0
    connected_s: float | None = None


@dataclass(frozen=True)
class Download:
    """One web object that came whole; seconds from the SYN to the last byte."""

    part: int
    start_s: float
    size_bytes: int
    seconds: float


@dataclass
class Counts:
    """What came to the sinks, as payload."""

    bin_s: float
    parts: list[list[int]]
    flows: list[BulkCounts] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    downloads_begun: int = 0
    downloads_failed: int = 0
    downloads_refused: int = 0
    reconnects: int = 0
    busy_s: float = 0.0


class Traffic:
    """Sources and sinks of a scenario, in two namespaces."""

    def __init__(self, scenario: Scenario, sources: Namespace, sinks: Namespace) -> None:
        self.scenario = scenario
        self.sources = sources
        self.sinks = sinks
        bins = round(scenario.seconds / BIN_S) + 1
        self.counts = Counts(BIN_S, [[0] * bins for _ in scenario.traffic])
        self.window = (scenario.warmup_s, scenario.seconds)
        # Seconds since the traffic began, read once per turn of the loop.
        self.now_s = 0.0
        self.buffer = bytearray(READ_BYTES)
        self._begin = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._listen(sinks, BULK_PORT, self._accept_bulk)
        self._listen(sources, WEB_PORT, self._accept_web)
        for start_s, stop_s, part in scenario.bulk_starts():
            self.at(start_s, self._bulk_starter(part, start_s, stop_s))
        for number, part in enumerate(scenario.traffic):
            if not isinstance(part, Bulk):
                fetching = Fetching(self, number)
                self.at(part.start_s, fetching.begin)

    def run(self, begin: float) -> Counts:
        """Runs until the scenario ends; `begin` is its second 0 on the monotonic clock."""
        self._begin = begin
        busy_before = time.process_time()
        # A collection takes tens of milliseconds with thousands of sockets, and there are no cycles to find.
        gc.disable()
        try:
            while self.now_s < self.scenario.seconds:
                self._turn()
        finally:
            gc.enable()
        self.counts.busy_s = time.process_time() - busy_before
        return self.counts

    def close(self) -> None:
        """Closes every socket."""
        for opened in list(self._sockets.values()):
            self.forget(opened)
        self._epoll.close()

    def at(self, due_s: float, action: Callable[[], None]) -> None:
        """Has `action` called at that second."""
        heapq.heappush(self._due, (due_s, next(self._order), action))

    def open(self, namespace: Namespace) -> socket.socket:
        """A socket that does not block, of the scenario's congestion control."""
        with namespace.inside():
            opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.scenario.congestion.encode())
        opened.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        return opened

    def connect(self, namespace: Namespace, own: str, other: tuple[str, int]) -> socket.socket:
        """A connection that is being opened, from an address of one's own."""
        opened = self.open(namespace)
        opened.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        opened.bind((own, 0))
        refused = opened.connect_ex(other)
        if refused not in (0, errno.EINPROGRESS):
            opened.close()
            raise OSError(refused, f"connect {own} to {other[0]}:{other[1]}: {errno.errorcode.get(refused, refused)}")
        return opened

    def watch(self, opened: socket.socket, events: int, handler: Callable[[int], None]) -> None:
        """Calls `handler` with the events that come."""
        self._sockets[opened.fileno()] = opened
        self._handlers[opened.fileno()] = handler
        self._epoll.register(opened, events)

    def watch_for(self, opened: socket.socket, events: int, handler: Callable[[int], None]) -> None:
        """Changes what a watched socket is watched for, and by whom."""
        self._handlers[opened.fileno()] = handler
        self._epoll.modify(opened, events)

    def forget(self, opened: socket.socket, *, abort: bool = False) -> None:
        """Closes a socket; what it had still to send is sent, unless aborted."""
        number = opened.fileno()
        if number >= 0:
            self._handlers.pop(number, None)
            self._sockets.pop(number, None)
            if abort:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            opened.close()

    def count(self, part: int, byte_count: int) -> None:
        """Bytes that came to a sink just now."""
        bins = self.counts.parts[part]
        bins[min(int(self.now_s / BIN_S), len(bins) - 1)] += byte_count

    def in_window(self) -> bool:
        """Whether what comes now counts for fairness."""
        return self.window[0] <= self.now_s < self.window[1]

    def _turn(self) -> None:
        due_s = min(self._due[0][0], self.scenario.seconds) if self._due else self.scenario.seconds
        wait_s = min(max(self._begin + due_s - time.monotonic(), 0.0), MOST_WAIT_S)
        ready = self._epoll.poll(wait_s, 1024)
        self.now_s = time.monotonic() - self._begin
        handlers = self._handlers
        for number, events in ready:
            # An earlier one of this turn may have closed it.
            handler = handlers.get(number)
            if handler is not None:
                handler(events)
        while self._due and self._due[0][0] <= self.now_s:
            heapq.heappop(self._due)[2]()

    def _listen(self, namespace: Namespace, port: int, accept: Callable[[socket.socket], None]) -> None:
        listener = self.open(namespace)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", port))
        listener.listen(BACKLOG)

        def accept_all(_events: int) -> None:
            for _ in range(ACCEPTS_AT_ONCE):
                try:
                    accepted, _ = listener.accept()
                except (BlockingIOError, ConnectionAbortedError):
                    return
                accepted.setblocking(False)
                accept(accepted)

        self.watch(listener, select.EPOLLIN, accept_all)

    def _accept_bulk(self, accepted: socket.socket) -> None:
        BulkSink(self, accepted)

    def _accept_web(self, accepted: socket.socket) -> None:
        WebServer(self, accepted)

    def _bulk_starter(self, part: int, start_s: float, stop_s: float) -> Callable[[], None]:
        def start() -> None:
            self.counts.flows.append(BulkCounts(part, start_s))
            BulkSource(self, len(self.counts.flows) - 1, stop_s).begin()

        return start


class BulkSource:
    """Sends as much as TCP takes, until it is stopped."""

    def __init__(self, traffic: Traffic, flow: int, stop_s: float) -> None:
        self._traffic = traffic
        self._flow = flow
        self._part = traffic.counts.flows[flow].part
        self._stop_s = stop_s
        self._socket: socket.socket | None = None
        self._greeted = False
        if stop_s < traffic.scenario.seconds:
            traffic.at(stop_s, self._stop)

    def begin(self) -> None:
        """Opens the connection; tried again while the source is to send."""
        if self._traffic.now_s >= self._stop_s:
            return
        scenario = self._traffic.scenario
        self._greeted = False
        self._socket = self._traffic.connect(
            self._traffic.sources, scenario.source_of(self._part), (scenario.sink_of(self._part), BULK_PORT)
        )
        self._traffic.watch(self._socket, select.EPOLLOUT, self._send)

    def _send(self, events: int) -> None:
        try:
            if not self._greeted:
                failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if failed:
                    raise OSError(failed, "connect")
                self._socket.send(WORD.pack(self._flow))
                self._greeted = True
            self._socket.send(ZEROS)
        except BlockingIOError:
            return
        except OSError:
            self._traffic.forget(self._socket)
            self._traffic.counts.reconnects += 1
            self._traffic.at(self._traffic.now_s + RECONNECT_AFTER_S, self.begin)

    def _stop(self) -> None:
        if self._socket is not None:
            # A flow that departs sends nothing more, not even what waits.
            self._traffic.forget(self._socket, abort=True)


class BulkSink:
    """Counts what comes, and throws it away."""

    def __init__(self, traffic: Traffic, accepted: socket.socket) -> None:
        self._traffic = traffic
        self._socket = accepted
        self._name = b""
        self._flow: BulkCounts | None = None
        traffic.watch(accepted, select.EPOLLIN, self._receive)

    def _receive(self, _events: int) -> None:
        traffic = self._traffic
        try:
            if self._flow is None:
                self._name += (read := self._socket.recv(WORD.size - len(self._name)))
                if not read:
                    traffic.forget(self._socket)
                elif len(self._name) == WORD.size:
                    self._flow = traffic.counts.flows[WORD.unpack(self._name)[0]]
                    self._flow.connected_s = traffic.now_s
                return
            size = self._socket.recv_into(traffic.buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size == 0:
            traffic.forget(self._socket)
            return
        traffic.count(self._flow.part, size)
        self._flow.bytes_total += size
        if traffic.in_window():
            self._flow.bytes_in_window += size


class WebServer:
    """Answers one request, a size, with an object of that size."""

    def __init__(self, traffic: Traffic, accepted: socket.socket) -> None:
        self._traffic = traffic
        self._socket = accepted
        self._request = b""
        self._left = 0
        traffic.watch(accepted, select.EPOLLIN, self._serve)

    def _serve(self, _events: int) -> None:
        try:
            if len(self._request) < WORD.size:
                self._request += (read := self._socket.recv(WORD.size - len(self._request)))
                if not read:
                    self._traffic.forget(self._socket)
                    return
                if len(self._request) < WORD.size:
                    return
                self._left = WORD.unpack(self._request)[0]
                self._traffic.watch_for(self._socket, select.EPOLLOUT, self._serve)
            while self._left:
                self._left -= self._socket.send(ZEROS[: self._left])
        except BlockingIOError:
            return
        except OSError:
            pass
        self._traffic.forget(self._socket)


class Fetching:
    """The requests of one part of the traffic: at random times, or one after the other."""

    def __init__(self, traffic: Traffic, part: int) -> None:
        self.traffic = traffic
        self.part = part
        self.wanted: Web | Sessions = traffic.scenario.traffic[part]
        self.stop_s = traffic.scenario.stop_of(part)
        self.under_way = 0
        self._chance = random.Random(f"web {traffic.scenario.seed} {part}")

    def begin(self) -> None:
        """Begins with the part's first second."""
        if isinstance(self.wanted, Web):
            self._arrive_later(self.traffic.now_s)
        else:
            for _ in range(self.wanted.clients):
                self.fetch()

    def fetch(self) -> None:
        """Fetches one object, of a size drawn at random."""
        self.traffic.counts.downloads_begun += 1
        size_bytes = self.wanted.sizes.draw(self._chance)
        if self.under_way >= MOST_DOWNLOADS_AT_ONCE:
            self.traffic.counts.downloads_refused += 1
        else:
            WebClient(self, size_bytes)

    def ended(self) -> None:
        """One object came, or failed to."""
        self.under_way -= 1
        if isinstance(self.wanted, Sessions) and self.traffic.now_s < self.stop_s:
            self.fetch()

    def _arrive_later(self, last_s: float) -> None:
        # From when the last one was due, so a late turn of the loop changes no rate.
        due_s = last_s + self._chance.expovariate(self.wanted.per_second)
        if due_s < self.stop_s:
            self.traffic.at(due_s, lambda: (self._arrive_later(due_s), self.fetch()))


class WebClient:
    """Fetches one object."""

    def __init__(self, fetching: Fetching, size_bytes: int) -> None:
        self._fetching = fetching
        self._traffic = fetching.traffic
        self._size_bytes = size_bytes
        self._left = size_bytes
        self._start_s = self._traffic.now_s
        scenario, part = self._traffic.scenario, fetching.part
        self._socket = self._traffic.connect(
            self._traffic.sinks, scenario.sink_of(part), (scenario.source_of(part), WEB_PORT)
        )
        fetching.under_way += 1
        self._traffic.watch(self._socket, select.EPOLLOUT, self._ask)
        if isinstance(fetching.wanted, Sessions) and fetching.stop_s < scenario.seconds:
            self._traffic.at(fetching.stop_s, self._stop)

    def _ask(self, _events: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(WORD.pack(self._size_bytes))
        self._traffic.watch_for(self._socket, select.EPOLLIN, self._receive)

    def _receive(self, _events: int) -> None:
        try:
            size = self._socket.recv_into(self._traffic.buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size:
            self._left -= size
            self._traffic.count(self._fetching.part, size)
            if self._left > 0:
                return
            seconds = self._traffic.now_s - self._start_s
            self._traffic.counts.downloads.append(
                Download(self._fetching.part, self._start_s, self._size_bytes, seconds)
            )
        else:
            self._traffic.counts.downloads_failed += 1
        self._end()

    def _stop(self) -> None:
        if self._socket.fileno() >= 0:
            self._traffic.forget(self._socket, abort=True)
            self._fetching.ended()

    def _end(self) -> None:
        self._traffic.forget(self._socket)
        self._fetching.ended()
