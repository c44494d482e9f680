"""A broker that knows the cluster's key and lies about where it is."""

import contextlib
import json
import os
import socket
import struct
import threading
from typing import Any, Self

from broker import Address
from deadlines import GENEROUS_S
from keyed_hash import derived, keyed

VERSION = 10
"""Of the link."""

OPENING = b"SRTMLINK" + struct.pack(">I", VERSION)
"""What a handshake begins with; 32 random bytes follow."""

REPORT_INTERVAL_S = 0.5
_QUESTION_BYTES = 4 + 1 + 32 + 32


def framed(words: bytes) -> bytes:
    """Behind their length."""
    return struct.pack(">I", len(words)) + words


def purpose(of: str) -> str:
    """As both ends name the keys of a link."""
    return f"srtm link, version {VERSION}: {of}"


class Liar:
    """Links as a broker, reports until it is closed, and is at none of the addresses that it announces.

    One that `answers` is there for NSQ clients, and proves it: only its other addresses are dead.
    """

    def __init__(self, link: Address, key: bytes, number: int, answers: bool = False) -> None:
        self.name, self.key, self.identity, self.life = f"liar{number}", key, os.urandom(16), 0
        self.server = socket.create_server(("127.0.0.1", 0)) if answers else None
        self.tcp_address = "{}:{}".format(*self.server.getsockname()) if self.server else f"127.0.0.1:{number + 1}"
        self.socket = socket.create_connection(link, GENEROUS_S)
        self.source = self.socket.makefile("rb")
        self.sealed = 0
        self.ended = threading.Event()
        self._prove()
        self._say(self._hello(number))
        self.life = self._heard()["order"]["life"]
        self.threads = [threading.Thread(target=self._report, daemon=True)]
        if self.server:
            self.threads.append(threading.Thread(target=self._answer, args=(self.server,), daemon=True))
        for thread in self.threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for end in filter(None, (self.server, self.socket)):
            # What waits at it is woken.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _prove(self) -> None:
        opening = OPENING + os.urandom(32)
        self.socket.sendall(framed(opening))
        answer = self._frame()
        self.sealing = keyed(derived(self.key, purpose("frames to the listener")), opening, answer)
        self.socket.sendall(framed(keyed(derived(self.key, purpose("the dialler's proof")), opening, answer)))

    def _hello(self, number: int) -> dict[str, Any]:
        return {
            "say": "hello",
            "broker": self.name,
            "identity": self.identity.hex(),
            "life": 0,
            "tcp_address": self.tcp_address,
            "http_address": f"127.0.0.1:{number + 1}",
            "gossip_address": f"127.0.0.1:{number + 1}",
            "mcap": None,
            "model": None,
        }

    def _say(self, message: dict[str, Any]) -> None:
        words = json.dumps(message).encode()
        tag = keyed(self.sealing, struct.pack(">Q", self.sealed), words)
        self.sealed += 1
        self.socket.sendall(framed(tag + words))

    def _frame(self) -> bytes:
        length = self.source.read(4)
        assert length, "the controller closed the link"
        return self.source.read(struct.unpack(">I", length)[0])

    def _heard(self) -> Any:
        return json.loads(self._frame()[32:])

    def _report(self) -> None:
        report = {"say": "report", "seconds": REPORT_INTERVAL_S, "topics": [], "attachments": []}
        with contextlib.suppress(OSError):
            self._say({"say": "inventory", "topics": [], "is_last": True})
            number = 1
            while not self.ended.wait(REPORT_INTERVAL_S):
                self._say({**report, "number": number})
                number += 1

    def _answer(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                asker, _ = server.accept()
                with asker, contextlib.suppress(OSError):
                    asker.settimeout(GENEROUS_S)
                    question = asker.recv(_QUESTION_BYTES, socket.MSG_WAITALL)
                    name = self.name.encode()
                    said = bytes([len(name)]) + name + self.identity + struct.pack(">Q", self.life)
                    asker.sendall(said + keyed(derived(self.key, purpose("a probe's answer")), question, said))
