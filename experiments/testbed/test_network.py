"""Sources and sinks over a real network, with a stand-in for the limiter: a token bucket and a delay, nothing else.

Shows that namespaces and traffic do what they should whatever the limiter does.
"""

import contextlib
import fcntl
import heapq
import multiprocessing
import os
import select
import struct
import time
from collections.abc import Iterator

import pytest

from counts import Counts
from measure import mbps
from namespace import Namespace
from network import INNER, OUTER, TUN, Network, why_impossible
from scenario import Bulk, Scenario, Sessions, Sizes, Web
from traffic import Traffic

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000


def attach(namespace: Namespace, device: str) -> int:
    """Opens a TUN device of a namespace."""
    with namespace.inside():
        opened = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
    return opened


def route(network: Network, limit_mbps: float, depth_bytes: int, delay_s: float) -> None:
    """Forwards until the process ends: delayed both ways, limited from sources to sinks."""
    inner, outer = attach(network.sources, INNER), attach(network.sinks, OUTER)
    rate, tokens, counted = limit_mbps * 1e6 / 8, float(depth_bytes), time.monotonic()
    waiting: list[tuple[float, int, int, bytes]] = []
    order = 0
    while True:
        wait_s = max(waiting[0][0] - time.monotonic(), 0) if waiting else 1.0
        ready, _, _ = select.select([inner, outer], [], [], wait_s)
        now = time.monotonic()
        tokens, counted = min(tokens + rate * (now - counted), depth_bytes), now
        for device in ready:
            with contextlib.suppress(BlockingIOError):
                while True:
                    packet = os.read(device, 2048)
                    if device == inner:
                        if tokens < len(packet):
                            continue
                        tokens -= len(packet)
                    order += 1
                    heapq.heappush(waiting, (now + delay_s, order, outer if device == inner else inner, packet))
        while waiting and waiting[0][0] <= now:
            _, _, device, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):
                os.write(device, packet)


@pytest.fixture
def network() -> Iterator[Network]:
    if reason := why_impossible():
        pytest.skip(reason)
    made = Network("reno")
    yield made
    made.close()


def run(network: Network, scenario: Scenario) -> Counts:
    """The scenario's traffic behind the stand-in."""
    routing = multiprocessing.get_context("fork").Process(target=route, args=(network, 8.0, 60_000, 0.01), daemon=True)
    routing.start()
    traffic = Traffic(scenario, network.sources, network.sinks)
    try:
        return traffic.run(time.monotonic())
    finally:
        traffic.close()
        routing.terminate()
        routing.join()


def test_greedy_flows_fill_the_limit_and_departed_ones_send_nothing(network: Network):
    traffic = (Bulk(0, 3), Bulk(1, 2, stop_s=2.0))
    counts = run(network, Scenario("smoke", "static", 2, traffic, seconds=4.0, warmup_s=2.5))
    staying, leaving = counts.parts
    assert [flow.part for flow in counts.flows].count(0) == 3
    assert sum(leaving[5:20]) > 0
    assert sum(leaving[25:]) == 0
    # Payload, not packets; the lower bound is for a machine that is busy with something else.
    assert 5.0 < mbps(sum(staying[25:40]), 1.5) < 8.0 * 1448 / 1500 + 0.5
    assert all(flow.bytes_in_window > 0 for flow in counts.flows if flow.part == 0)
    assert all(flow.bytes_in_window == 0 for flow in counts.flows if flow.part == 1)


def test_objects_come_whole_and_clients_fetch_one_after_the_other(network: Network):
    sizes = Sizes(least_bytes=1_000, most_bytes=20_000)
    traffic = (Web(0, 40.0, sizes, stop_s=2.0), Sessions(1, 2, sizes, stop_s=2.0))
    counts = run(network, Scenario("smoke", "static", 2, traffic, seconds=3.0, warmup_s=0.0))
    assert counts.downloads_failed == counts.downloads_refused == 0
    assert 40 <= sum(1 for download in counts.downloads if download.part == 0) <= 130
    assert all(1_000 <= download.size_bytes <= 20_000 for download in counts.downloads)
    # A round trip for the handshake and one for the object.
    assert all(download.seconds > 0.035 for download in counts.downloads)
    assert sum(counts.parts[0]) == sum(download.size_bytes for download in counts.downloads if download.part == 0)
    assert 10 <= sum(1 for download in counts.downloads if download.part == 1) <= 2 * 2.0 / 0.035
