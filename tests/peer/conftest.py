"""Fixtures: hosts on a switch for the whole session, fresh topics, and processes that end with their test."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import command_line
from endpoints import Endpoints
from group import Stranger
from namespace import why_impossible
from switch import Switch

_topic_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def switch() -> Iterator[Switch]:
    """Three hosts: `a` and `b` for endpoints, `c` for strangers."""
    if reason := why_impossible():
        pytest.skip(reason)
    program = command_line()[0]
    if shutil.which(program) is None:
        pytest.fail(f"no srtm at {program}: build it (cargo build -p srtm) or set SRTM_NSQD")
    made = Switch("a", "b", "c")
    yield made
    made.close()


@pytest.fixture
def endpoints(switch: Switch, tmp_path: Path) -> Iterator[Endpoints]:
    """Programs of the test's own, on a topic that no other test uses."""
    made = Endpoints(tmp_path, f"peer_topic_{next(_topic_numbers)}")
    yield made
    made.close()


@pytest.fixture
def stranger(switch: Switch) -> Iterator[Stranger]:
    """A socket in the group that is nobody's."""
    made = Stranger(switch["c"])
    yield made
    made.close()
