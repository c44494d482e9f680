"""Web objects, each over a connection of its own. The sink fetches them, as browsers do: it says a size, zeros come."""

from __future__ import annotations

import contextlib
import functools
import random
import select
import socket

from counts import Download
from loop import WORD, ZEROS, Loop
from scenario import Bulk, Sessions, Web

WEB_PORT = 80
MOST_DOWNLOADS_AT_ONCE = 4_000


def begin_web(loop: Loop) -> None:
    """Has every part of the scenario that fetches web objects begin at its time."""
    loop.listen(loop.sources, WEB_PORT, functools.partial(WebServer, loop))
    for number, part in enumerate(loop.scenario.traffic):
        if not isinstance(part, Bulk):
            loop.at(part.start_s, Fetching(loop, number).begin)


class WebServer:
    """Answers one request, a size, with an object of that size."""

    def __init__(self, loop: Loop, accepted: socket.socket) -> None:
        self._loop = loop
        self._socket = accepted
        self._request = b""
        self._left = 0
        loop.watch(accepted, select.EPOLLIN, self._serve)

    def _serve(self, _events: int) -> None:
        try:
            if len(self._request) < WORD.size:
                self._request += (read := self._socket.recv(WORD.size - len(self._request)))
                if not read:
                    self._loop.forget(self._socket)
                    return
                if len(self._request) < WORD.size:
                    return
                self._left = WORD.unpack(self._request)[0]
                self._loop.watch_for(self._socket, select.EPOLLOUT, self._serve)
            while self._left:
                self._left -= self._socket.send(ZEROS[: self._left])
        except BlockingIOError:
            return
        except OSError:
            pass
        self._loop.forget(self._socket)


class Fetching:
    """The requests of one part of the traffic: at random times, or one after the other."""

    def __init__(self, loop: Loop, part: int) -> None:
        self.loop = loop
        self.part = part
        self.wanted: Web | Sessions = loop.scenario.traffic[part]
        self.stop_s = loop.scenario.stop_of(part)
        self.under_way = 0
        self._chance = random.Random(f"web {loop.scenario.seed} {part}")

    def begin(self) -> None:
        """Begins with the part's first second."""
        if isinstance(self.wanted, Web):
            self._arrive_later(self.loop.now_s)
        else:
            for _ in range(self.wanted.clients):
                self.fetch()

    def fetch(self) -> None:
        """Fetches one object, of a size drawn at random."""
        self.loop.counts.downloads_begun += 1
        size_bytes = self.wanted.sizes.draw(self._chance)
        if self.under_way >= MOST_DOWNLOADS_AT_ONCE:
            self.loop.counts.downloads_refused += 1
        else:
            WebClient(self, size_bytes)

    def ended(self) -> None:
        """One object came, or failed to."""
        self.under_way -= 1
        if isinstance(self.wanted, Sessions) and self.loop.now_s < self.stop_s:
            self.fetch()

    def _arrive_later(self, last_s: float) -> None:
        # From when the last one was due, so a late turn of the loop changes no rate.
        due_s = last_s + self._chance.expovariate(self.wanted.per_second)
        if due_s < self.stop_s:
            self.loop.at(due_s, lambda: (self._arrive_later(due_s), self.fetch()))


class WebClient:
    """Fetches one object."""

    def __init__(self, fetching: Fetching, size_bytes: int) -> None:
        self._fetching = fetching
        self._loop = fetching.loop
        self._size_bytes = size_bytes
        self._left = size_bytes
        self._start_s = self._loop.now_s
        scenario, part = self._loop.scenario, fetching.part
        self._socket = self._loop.connect(
            self._loop.sinks, scenario.sink_of(part), (scenario.source_of(part), WEB_PORT)
        )
        fetching.under_way += 1
        self._loop.watch(self._socket, select.EPOLLOUT, self._ask)
        if isinstance(fetching.wanted, Sessions) and fetching.stop_s < scenario.seconds:
            self._loop.at(fetching.stop_s, self._stop)

    def _ask(self, _events: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(WORD.pack(self._size_bytes))
        self._loop.watch_for(self._socket, select.EPOLLIN, self._receive)

    def _receive(self, _events: int) -> None:
        try:
            size = self._socket.recv_into(self._loop.buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size:
            self._left -= size
            self._loop.count(self._fetching.part, size)
            if self._left > 0:
                return
            seconds = self._loop.now_s - self._start_s
            self._loop.counts.downloads.append(Download(self._fetching.part, self._size_bytes, seconds))
        else:
            self._loop.counts.downloads_failed += 1
        self._end()

    def _stop(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.forget(self._socket, abort=True)
            self._fetching.ended()

    def _end(self) -> None:
        self._loop.forget(self._socket)
        self._fetching.ended()
