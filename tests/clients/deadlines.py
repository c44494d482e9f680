"""Waiting for a condition, never for a time: every wait polls and fails loudly at its deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

GENEROUS_S = 60.0
"""Deadline of a wait that takes milliseconds on an idle machine and may take seconds on a busy one."""

POLL_INTERVAL_S = 0.01


def wait_until(condition: Callable[[], Seen], what: str, deadline_s: float = GENEROUS_S) -> Seen:
    """Polls `condition` until it is true and returns its value; raises when the deadline passes first."""
    end = time.monotonic() + deadline_s
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"not seen within {deadline_s} s: {what} (last seen: {seen!r})")
        time.sleep(POLL_INTERVAL_S)
