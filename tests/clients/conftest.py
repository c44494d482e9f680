"""Fixtures: one broker for the whole session, brokers, lookup services and nsqd's of a test's own, fresh topic names, a
healthy neighbour."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import tools
from broker import LOST, Broker, command_line, is_stock_nsqd
from lookup_service import Nsqd, Nsqlookupd, text
from neighbour import Neighbour

_topic_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "srtm_only: SRTM differs from nsqd here, on purpose and documented")
    program = command_line()[0]
    if not config.option.collectonly and shutil.which(program) is None:
        pytest.exit(f"no broker at {program}: build it (cargo build -p srtm) or set SRTM_NSQD", returncode=2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.collectonly or not any(item.get_closest_marker("srtm_only") for item in items):
        return
    if is_stock_nsqd():
        skip = pytest.mark.skip(reason="SRTM answers better than nsqd here")
        for item in items:
            if item.get_closest_marker("srtm_only"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that most tests share; it must live to the end and then stop in order."""
    shared = Broker(tmp_path_factory.mktemp("broker") / "data")
    yield shared
    assert shared.process.poll() is None, f"the broker died:\n{shared.log()[-4000:]}"
    # Tests leave messages behind.
    assert shared.stop() in (0, LOST)


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Starts brokers of the test's own, with flags; the data path stays the same within the test."""
    started: list[Broker] = []

    def start(*flags: str) -> Broker:
        started.append(Broker(tmp_path / "data", *flags))
        return started[-1]

    yield start
    for own in started:
        own.stop()


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses."""
    return f"topic_{next(_topic_numbers)}"


@pytest.fixture(scope="module")
def neighbour(broker: Broker) -> Iterator[Neighbour]:
    """A publisher and a subscriber that were connected before anything went wrong."""
    with Neighbour(broker, f"neighbour_{next(_topic_numbers)}") as healthy:
        yield healthy


@pytest.fixture
def start_lookup(tmp_path: Path) -> Iterator[Callable[..., Nsqlookupd]]:
    """Starts lookup services of the test's own, with flags."""
    started: list[Nsqlookupd] = []

    def start(*flags: str) -> Nsqlookupd:
        started.append(Nsqlookupd(tmp_path / f"lookup{len(started)}", *flags))
        return started[-1]

    yield start
    for own in started:
        own.stop()


@pytest.fixture
def start_nsqd(tmp_path: Path) -> Iterator[Callable[..., Nsqd]]:
    """Starts stock nsqd's that register with some lookup services."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(*services: Nsqlookupd) -> Nsqd:
            folder = tmp_path / f"nsqd{next(numbers)}"
            folder.mkdir()
            flags = [
                "-tcp-address=127.0.0.1:0",
                "-http-address=127.0.0.1:0",
                "-broadcast-address=127.0.0.1",
                f"-data-path={folder}",
                *(f"-lookupd-tcp-address={text(service.tcp)}" for service in services),
            ]
            return Nsqd(stack.enter_context(tools.running(folder, "nsqd", *flags)))

        yield start
