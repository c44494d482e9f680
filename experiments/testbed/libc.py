"""System calls that Python 3.11 has no function for, by way of the C library."""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def unshare_network() -> None:
    """Moves this thread into a new network namespace."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare")


def enter_network(descriptor: int) -> None:
    """Moves this thread into the network namespace that was opened."""
    _check(_libc.setns(descriptor, CLONE_NEWNET), "setns")


def end_with_parent() -> None:
    """Has this process told to end (SIGTERM) when the one that started it dies, however that happens."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}")
