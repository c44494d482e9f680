"""What every source and sink works with: one epoll loop, its sockets in two namespaces, and actions at their time."""

from __future__ import annotations

import errno
import gc
import heapq
import itertools
import select
import socket
import struct
import time
from collections.abc import Callable

from counts import Counts
from namespace import Namespace
from network import BACKLOG
from scenario import Scenario

BIN_S = 0.1

# Linux numbers that this Python's socket module does not have.
TCP_NOTSENT_LOWAT = 25
IP_BIND_ADDRESS_NO_PORT = 24
# Enough that a source is never what a flow waits for, and little enough for thousands of them.
UNSENT_BYTES = 32_768

WORD = struct.Struct("!I")
"""What a connection begins with: the number of a flow, or the size of an object."""

ZEROS = bytes(UNSENT_BYTES)
READ_BYTES = 262_144
ACCEPTS_AT_ONCE = 64
MOST_WAIT_S = 0.5


class Loop:
    """Runs the sources and sinks of a scenario, and keeps what they count."""

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

    def listen(self, namespace: Namespace, port: int, accept: Callable[[socket.socket], None]) -> None:
        """Calls `accept` with every connection to the port, at whatever address of the namespace."""
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
