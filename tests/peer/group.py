"""A stranger in the group: hears what endpoints announce, sends what it likes, and belongs to none of them.

Knows as much of docs/protocol.md as is needed to tell announcements apart.
"""

import socket
import struct
from dataclasses import dataclass

from deadlines import GENEROUS_S, wait_until
from switch import Host

GROUP = "239.77.0.1"
PORT = 14177
MULTICAST = f"{GROUP}:{PORT}"

MAGIC = b"TMPA"
SIGNED = 8
SUBSCRIBES = 1
TAG_BYTES = 16
IPV4_HEADER = struct.Struct(">4sBBQIIHHB4s")


@dataclass(frozen=True)
class Announcement:
    """One datagram of an endpoint with an IPv4 data address."""

    datagram: bytes
    instance: int
    data: tuple[str, int]
    entries: bytes

    def id_of(self, topic: str, kind: int = SUBSCRIBES) -> int | None:
        """The identifier under which the topic is announced so, if it is."""
        name = bytes([len(topic)]) + topic.encode()
        at = self.entries.find(name)
        if at < 5 or self.entries[at - 5] != kind:
            return None
        return int.from_bytes(self.entries[at - 4 : at], "big")


def decode(datagram: bytes, source: str) -> Announcement | None:
    """The announcement in a datagram from `source`; None for anything else."""
    if len(datagram) < IPV4_HEADER.size or not datagram.startswith(MAGIC):
        return None
    _, _, flags, instance, _, _, _, port, family, ip = IPV4_HEADER.unpack_from(datagram)
    if family != 4:
        return None
    entries = datagram[IPV4_HEADER.size : -TAG_BYTES if flags & SIGNED else None]
    address = socket.inet_ntoa(ip)
    return Announcement(datagram, instance, (source if address == "0.0.0.0" else address, port), entries)


class Stranger:
    """A socket in the group, on a host of its own."""

    def __init__(self, host: Host) -> None:
        self.host = host
        with host.inside():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((GROUP, PORT))
        membership = socket.inet_aton(GROUP) + socket.inet_aton(host.address)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        self._socket.setblocking(False)

    def close(self) -> None:
        """Leaves the group."""
        self._socket.close()

    def hear_subscribers(self, topic: str, count: int) -> list[Announcement]:
        """Waits until so many endpoints have announced from now on that they subscribe the topic; the last of each."""
        self._hear_all()
        found: dict[int, Announcement] = {}

        def are_heard() -> bool:
            found.update({heard.instance: heard for heard in self._hear_all() if heard.id_of(topic) is not None})
            return len(found) >= count

        wait_until(are_heard, f"{count} subscribers of {topic}")
        return list(found.values())

    def say(self, datagram: bytes, to: tuple[str, int] = (GROUP, PORT)) -> None:
        """Sends a datagram to the group, or to somebody else."""
        wait_until(lambda: self._sent(datagram, to), "room for a datagram")

    def connect(self, address: tuple[str, int]) -> socket.socket:
        """A TCP connection from the stranger's host."""
        with self.host.inside():
            return socket.create_connection(address, timeout=GENEROUS_S)

    def _sent(self, datagram: bytes, to: tuple[str, int]) -> bool:
        try:
            return self._socket.sendto(datagram, to) == len(datagram) or not datagram
        except BlockingIOError:
            return False

    def _hear_all(self) -> list[Announcement]:
        """Everything that has come so far."""
        heard = []
        while True:
            try:
                datagram, (source, _) = self._socket.recvfrom(65536)
            except BlockingIOError:
                return heard
            if announcement := decode(datagram, source):
                heard.append(announcement)
