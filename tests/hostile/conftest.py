"""Fixtures: brokers of a test's own, fresh topic names, how hard to attack.

`--full` attacks with all that the tests have, and wants prompt answers meanwhile; without it, sizes are small enough
to run beside other tests, and answers only have to come.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker import Broker
from daemons import Controller
from siege import Force, Siege

_topic_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="attack with all there is; answers must be prompt")


@pytest.fixture(scope="session")
def force(pytestconfig: pytest.Config) -> Force:
    """How hard to attack."""
    return Force(pytestconfig.getoption("--full"))


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Starts brokers of the test's own, with flags; the data path stays the same within the test."""
    started: list[Broker] = []

    def start(*flags: str) -> Broker:
        started.append(Broker(tmp_path / "data", *flags))
        return started[-1]

    yield start
    for own in started:
        if own.process.poll() is None:
            own.process.kill()
            own.process.wait()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    """A controller of the test's own, without brokers."""
    own = Controller(tmp_path)
    yield own
    own.stop()


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"topic_{next(_topic_numbers)}"


@pytest.fixture
def siege(force: Force) -> Callable[[Broker], Siege]:
    """Puts a broker under siege: `with siege(broker) as attack: … attack.look()`."""
    return lambda broker: Siege(broker, f"canary_{next(_topic_numbers)}", force.answer_within_s)
