"""Namespaces are worlds of their own, and nothing is left of them, not even where making them fails."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import network
from namespace import Namespace, why_impossible
from network import NAMES, PREFIX, Network


@pytest.fixture(autouse=True)
def _possible():
    if reason := network.why_impossible():
        pytest.skip(reason)


def left() -> tuple[list[str], list[Path]]:
    """What a namespace leaves while it lasts: open files of this process, and names of this process's."""
    return sorted(os.listdir("/proc/self/fd")), sorted(NAMES.glob(f"{PREFIX}{os.getpid()}-*"))


def test_nothing_but_a_loopback_interface_is_inside_and_nothing_remains():
    before, own = left(), socket.if_nameindex()
    made = Namespace()
    with made.inside():
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
        assert "state UNKNOWN" in subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert socket.if_nameindex() == own
    made.close()
    assert left() == before


def test_a_command_that_fails_is_named():
    made = Namespace()
    with pytest.raises(OSError, match=r"ip link set dev nowhere up .*nowhere"):
        made.ip("link set dev nowhere up", "link add name bridge type bridge")
    with made.inside():
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
    made.close()


def test_a_namespace_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    before = left()

    def fail(*_commands: str) -> None:
        raise OSError("no")

    monkeypatch.setattr(Namespace, "ip", fail)
    with pytest.raises(OSError, match="no"):
        Namespace()
    assert left() == before


def test_a_network_that_cannot_be_made_leaves_nothing():
    before = left()
    with pytest.raises(OSError, match="no congestion control 'none'"):
        Network("none")
    assert left() == before


def test_names_last_as_long_as_the_network():
    before = left()
    made = Network("reno")
    assert {name.name for name in left()[1]} == {made.sources_name, made.sinks_name}
    made.close()
    assert left() == before


def test_who_lacks_a_capability_is_told():
    program = "import namespace; print(namespace.why_impossible())"
    told = subprocess.run(
        ["setpriv", "--bounding-set=-net_admin", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=True,
    ).stdout
    assert told.strip() == "network namespaces need root: this process lacks CAP_NET_ADMIN"
    assert why_impossible() is None
