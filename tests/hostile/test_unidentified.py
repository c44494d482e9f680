"""Those who do not say who they are: they are few and soon gone, and clients beside them are served."""

import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

import certificates
from broker import Broker
from crowd import OTHER, STRANGER, THIRD, Crowd, allow_descriptors, summed
from deadlines import wait_until
from raw_protocol import MAGIC, Connection, Frame, FrameType, sized
from siege import Force, Siege

UNIDENTIFIED = "srtm_reactor_unidentified"

BEGINNINGS = {
    "nothing": b"",
    "half a magic": MAGIC[:2],
    "a magic": MAGIC,
    "half a command": MAGIC + b"PUB ",
    "half an IDENTIFY": MAGIC + b"IDENTIFY\n" + sized(b"{", declared_bytes=5000),
    "half a large message": MAGIC + b"PUB t\n" + sized(b"x" * 20_000, declared_bytes=1024 * 1024),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS.keys())
def test_who_does_not_say_who_it_is_is_let_go(
    start_broker: Callable[..., Broker],
    siege: Callable[[Broker], Siege],
    force: Force,
    beginning: bytes,
    threads: int,
) -> None:
    broker = start_broker("-handshake-timeout=500ms", f"-threads={threads}")
    count = force.of(100, 1000)
    with siege(broker) as attack, Crowd(broker.tcp, OTHER) as crowd:
        crowd.grow(count, beginning)
        attack.look()
        endings = [f"{UNIDENTIFIED}_{how}_total" for how in ("late", "refused", "gave_way")]
        wait_until(lambda: sum(summed(broker.http, name) for name in endings) == count, "all of them are let go")
        assert summed(broker.http, UNIDENTIFIED) == 0
        attack.look()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_crowd_that_says_nothing_keeps_nobody_out(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str, threads: int
) -> None:
    count, of_address = force.of(1_000, 10_000), 100
    allow_descriptors(count)
    broker = start_broker(
        f"-threads={threads}",
        "-handshake-timeout=10m",
        "-max-unidentified=150",
        f"-max-unidentified-per-address={of_address}",
    )
    with siege(broker) as attack, Crowd(broker.tcp, OTHER) as crowd, Crowd(broker.tcp, THIRD) as others:
        others.grow(10, b"")
        crowd.grow(count, b"")
        gave_way = f"{UNIDENTIFIED}_gave_way_total"
        wait_until(lambda: summed(broker.http, gave_way) == count - of_address, "the crowd gives way")
        assert summed(broker.http, UNIDENTIFIED) == of_address + 10
        attack.look()
        # Clients of every address, the crowd's too: whoever says at once who it is is served.
        for source in OTHER, THIRD, STRANGER:
            with Connection(broker.tcp, source=source) as client:
                client.identify()
                client.publish(topic, b"x" * 100)
        # This machine's own are bound by all places only; those who have waited longest go.
        with Crowd(broker.tcp, STRANGER) as own:
            own.grow(150, b"")
            wait_until(lambda: summed(broker.http, UNIDENTIFIED) == 150, "all places are taken")
            with Connection(broker.tcp, source=OTHER) as client:
                client.publish(topic, b"x")
    assert broker.topic(topic)["message_count"] == 4


def test_first_commands_that_are_large_have_little_memory(
    start_broker: Callable[..., Broker], siege: Callable[[Broker], Siege], force: Force, topic: str
) -> None:
    broker = start_broker("-memory-budget=64MiB")
    half = MAGIC + f"PUB {topic}\n".encode() + sized(b"x" * 30_000, declared_bytes=1024 * 1024)
    with siege(broker) as attack, Crowd(broker.tcp, OTHER) as crowd:
        crowd.grow(force.of(50, 500), half)
        wait_until(lambda: summed(broker.http, f"{UNIDENTIFIED}_refused_total"), "a refusal")
        attack.look()
        with Connection(broker.tcp, source=OTHER) as client:
            client.identify()
            client.publish(topic, b"x" * 1024 * 1024)
        with Connection(broker.tcp, source=OTHER) as stranger:
            stranger.send(half.removeprefix(MAGIC))
            frame = stranger.next_frame()
            assert frame is None or frame.data.startswith(b"E_INVALID no room for a first command of"), frame


def can_publish(broker: Broker, topic: str) -> bool:
    """Whether a new client gets a message through before the broker closes its connection."""
    with Connection(broker.tcp, source=OTHER) as client:
        client.send(f"PUB {topic}\n".encode() + sized(b"x"))
        return client.next_frame() == Frame(FrameType.RESPONSE, b"OK")


def test_half_a_handshake_of_tls_makes_nobody_known(
    start_broker: Callable[..., Broker],
    siege: Callable[[Broker], Siege],
    force: Force,
    topic: str,
    tmp_path: Path,
) -> None:
    certificate, key = certificates.Authority(tmp_path / "certificates").sign("broker")
    broker = start_broker(
        "-threads=2",
        f"-tls-cert={certificate}",
        f"-tls-key={key}",
        "-handshake-timeout=10m",
        "-max-unidentified-per-address=50",
    )
    wish = json.dumps({"feature_negotiation": True, "tls_v1": True}).encode()
    asks = MAGIC + b"IDENTIFY\n" + sized(wish)
    hello = client_hello()
    count = force.of(100, 2_000)
    with siege(broker) as attack, Crowd(broker.tcp, OTHER) as crowd:
        for kind, beginning in {"none": b"", "half": hello[: len(hello) // 2], "one side": hello}.items():
            for connection in crowd.grow(count, asks):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.recv(4096)
                    connection.sendall(beginning)
            attack.look()
            wait_until(lambda: summed(broker.http, UNIDENTIFIED) <= 50, f"the crowd gives way, {kind}")
        # A client is refused while the broker still works at handshakes of the crowd in all places.
        tries: list[bool] = []
        wait_until(lambda: tries.append(can_publish(broker, topic)) or tries[-1], "a client gets through")
        gone = [f"{UNIDENTIFIED}_{how}_total" for how in ("gave_way", "refused")]
        all_gone = 3 * count - 50 + tries.count(False)
        wait_until(lambda: sum(summed(broker.http, name) for name in gone) >= all_gone, "all the others are gone")
    wait_until(lambda: summed(broker.http, UNIDENTIFIED) == 0, "the crowd is gone")
    # A handshake that is done makes one known.
    with Connection(broker.tcp, source=OTHER) as client:
        client.identify(tls_v1=True)
        trusting = ssl.create_default_context(cafile=str(tmp_path / "certificates" / "authority.pem"))
        client.socket = trusting.wrap_socket(client.socket, server_hostname=broker.tcp[0])
        client.expect_response()
        client.publish(topic, b"x")


def client_hello() -> bytes:
    """What a client of TLS says first."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="127.0.0.1").do_handshake()
    return said.read()


def test_a_client_that_takes_its_time_is_served(start_broker: Callable[..., Broker], topic: str) -> None:
    """By the byte, and within the time that every newcomer has."""
    broker = start_broker("-handshake-timeout=1m")
    with socket.create_connection(broker.tcp) as client:
        for byte in MAGIC + f"PUB {topic}\n".encode() + sized(b"x"):
            client.sendall(bytes([byte]))
        assert client.recv(10) == b"\0\0\0\x06\0\0\0\0OK"
