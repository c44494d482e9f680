"""A stranger who provokes log lines fills no disk with them, and forges none."""

from pathlib import Path

from lookup_service import Nsqlookupd, Peer
from siege import Force

LINES_MAX = 400
"""What a place in the code may log in the time of the short attack, and all other places with it."""


def test_strangers_write_no_log(tmp_path: Path, force: Force) -> None:
    service = Nsqlookupd(tmp_path)
    try:
        forged = b"REGISTER \x1b[2J\x1b[31m\r[nsqlookupd] FORGED \xe2\x80\xae" + b"x" * 200 + b"\n"
        for number in range(force.of(1500, 20_000)):
            peer = Peer(service.tcp, b"  V9" if number % 2 else b"  V1")
            if number % 2 == 0:
                peer.send(forged)
            peer.socket.close()
        # Connections are taken in their order: whoever is answered comes after all of them.
        with Peer(service.tcp) as last:
            last.identify()
    finally:
        service.stop()
    log = service.log()
    assert len(log.splitlines()) <= force.of(LINES_MAX, 10 * LINES_MAX), log[:4000]
    assert "left out" in log
    assert "\x1b" not in log
    assert not any(line.startswith("[nsqlookupd] FORGED") for line in log.splitlines())
    assert max(len(line) for line in log.splitlines()) <= 1400
