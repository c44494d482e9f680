"""Bulk flows. Each is opened by its source, so its SYN passes the limiter too, and says first which flow it is."""

from __future__ import annotations

import functools
import select
import socket

from counts import BulkCounts
from loop import WORD, ZEROS, Loop

BULK_PORT = 5001
RECONNECT_AFTER_S = 1.0


def begin_bulk(loop: Loop) -> None:
    """Has every bulk flow of the scenario begin at its time."""
    loop.listen(loop.sinks, BULK_PORT, functools.partial(BulkSink, loop))
    for start_s, stop_s, part in loop.scenario.bulk_starts():
        loop.at(start_s, functools.partial(_begin_flow, loop, part, stop_s))


def _begin_flow(loop: Loop, part: int, stop_s: float) -> None:
    loop.counts.flows.append(BulkCounts(part))
    BulkSource(loop, len(loop.counts.flows) - 1, stop_s).begin()


class BulkSource:
    """Sends as much as TCP takes, until it is stopped."""

    def __init__(self, loop: Loop, flow: int, stop_s: float) -> None:
        self._loop = loop
        self._flow = flow
        self._part = loop.counts.flows[flow].part
        self._stop_s = stop_s
        self._socket: socket.socket | None = None
        self._greeted = False
        if stop_s < loop.scenario.seconds:
            loop.at(stop_s, self._stop)

    def begin(self) -> None:
        """Opens the connection; tried again while the source is to send."""
        if self._loop.now_s >= self._stop_s:
            return
        scenario = self._loop.scenario
        self._greeted = False
        self._socket = self._loop.connect(
            self._loop.sources, scenario.source_of(self._part), (scenario.sink_of(self._part), BULK_PORT)
        )
        self._loop.watch(self._socket, select.EPOLLOUT, self._send)

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
            self._loop.forget(self._socket)
            self._loop.counts.reconnects += 1
            self._loop.at(self._loop.now_s + RECONNECT_AFTER_S, self.begin)

    def _stop(self) -> None:
        if self._socket is not None:
            # A flow that departs sends nothing more, not even what waits.
            self._loop.forget(self._socket, abort=True)


class BulkSink:
    """Counts what comes, and throws it away."""

    def __init__(self, loop: Loop, accepted: socket.socket) -> None:
        self._loop = loop
        self._socket = accepted
        self._name = b""
        self._flow: BulkCounts | None = None
        loop.watch(accepted, select.EPOLLIN, self._receive)

    def _receive(self, _events: int) -> None:
        loop = self._loop
        try:
            if self._flow is None:
                self._name += (read := self._socket.recv(WORD.size - len(self._name)))
                if not read:
                    loop.forget(self._socket)
                elif len(self._name) == WORD.size:
                    self._flow = loop.counts.flows[WORD.unpack(self._name)[0]]
                    self._flow.connected_s = loop.now_s
                return
            size = self._socket.recv_into(loop.buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size == 0:
            loop.forget(self._socket)
            return
        loop.count(self._flow.part, size)
        if loop.in_window():
            self._flow.bytes_in_window += size
