"""The far end of TLS and compression over a bare connection, in Python's own libraries."""

import ssl
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import snappy

from broker import Address
from raw_protocol import Connection

KINDS = ["snappy", "deflate", "tls", "tls+snappy", "tls+deflate"]
"""What a client may ask for."""


def wishes(kind: str) -> dict[str, Any]:
    """IDENTIFY's fields for a kind."""
    fields = {"tls": "tls_v1", "snappy": "snappy", "deflate": "deflate"}
    return {fields[layer]: True for layer in kind.split("+")}


def context(authority: Path, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client that trusts the authority, with a certificate of its own or without."""
    trusting = ssl.create_default_context(cafile=str(authority))
    if certificate:
        trusting.load_cert_chain(*map(str, certificate))
    return trusting


class Layered(Connection):
    """A bare connection that has negotiated layers; what is sent and read goes through them."""

    def __init__(self, address: Address, kind: str, tls: ssl.SSLContext | None = None) -> None:
        self.pack: Callable[[bytes], bytes] = bytes
        self.unpacker: Any = None
        super().__init__(address)
        answer = self.identify(**wishes(kind))
        assert {field: answer[field] for field in wishes(kind)} == wishes(kind)
        if "tls" in kind:
            assert tls is not None
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
            self.expect_response()
        if "snappy" in kind:
            self.pack = snappy.StreamCompressor().compress
            self.unpacker = snappy.StreamDecompressor()
        if "deflate" in kind:
            packer, self.unpacker = zlib.compressobj(wbits=-15), zlib.decompressobj(wbits=-15)
            self.pack = lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
        if self.unpacker:
            # It may have come with what was read before.
            self.buffered = self.unpacker.decompress(self.buffered) if self.buffered else b""
            self.expect_response()

    def send(self, data: bytes) -> None:
        """Sends bytes through the layers."""
        self.send_packed(self.pack(data))

    def send_packed(self, data: bytes) -> None:
        """Sends bytes past compression."""
        super().send(data)

    def _receive(self) -> bytes:
        while True:
            data = self.socket.recv(65536)
            if not data or self.unpacker is None:
                return data
            if unpacked := self.unpacker.decompress(data):
                return bytes(unpacked)
