"""What statsd gets, and the percentiles of the time until messages are finished; the same at nsqd."""

import re
import socket
from collections.abc import Callable, Iterator

import pytest

from broker import Broker
from deadlines import GENEROUS_S, wait_until
from raw_protocol import Connection

StartBroker = Callable[..., Broker]

TOPIC_FIGURES = {"message_count": "c", "message_bytes": "c", "depth": "g", "backend_depth": "g"}
CHANNEL_FIGURES = {
    "message_count": "c",
    "depth": "g",
    "backend_depth": "g",
    "in_flight_count": "g",
    "deferred_count": "g",
    "requeue_count": "c",
    "timeout_count": "c",
    "clients": "g",
}
MEMORY_FIGURES = {
    "heap_objects": "g",
    "heap_idle_bytes": "g",
    "heap_in_use_bytes": "g",
    "heap_released_bytes": "g",
    "gc_pause_usec_100": "g",
    "gc_pause_usec_99": "g",
    "gc_pause_usec_95": "g",
    "next_gc_bytes": "g",
    "gc_runs": "c",
}


class Statsd:
    """A statsd that remembers: kinds by name, sums of counters, the last value of each gauge."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.1)
        self.kinds: dict[str, str] = {}
        self.values: dict[str, int] = {}
        self.largest_bytes = 0

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.socket.getsockname()[1]}"

    def listen(self) -> None:
        """Takes a packet, if one comes soon."""
        try:
            packet = self.socket.recv(65536)
        except TimeoutError:
            return
        self.largest_bytes = max(self.largest_bytes, len(packet))
        assert packet.endswith(b"\n"), packet
        for line in packet.decode().splitlines():
            name, value, kind = re.fullmatch(r"(\S+):(-?\d+)\|([cg])", line).groups()
            self.kinds[name] = kind
            self.values[name] = int(value) + (self.values.get(name, 0) if kind == "c" else 0)

    def wait_for(self, *names: str, **values: int) -> None:
        """Until all of them have come, and those with a value have it."""

        def has_come() -> bool:
            self.listen()
            return all(name in self.kinds for name in names)

        wait_until(has_come, f"{names}, of {sorted(self.kinds)}", 2 * GENEROUS_S)


@pytest.fixture
def statsd() -> Iterator[Statsd]:
    """A statsd of the test's own."""
    own = Statsd()
    yield own
    own.socket.close()


def test_names_kinds_and_counts(start_broker: StartBroker, statsd: Statsd, topic: str) -> None:
    broker = start_broker(
        f"-statsd-address={statsd.address}",
        "-statsd-interval=1100ms",
        "-statsd-prefix=fleet.%s",
        "-statsd-udp-packet-size=200",
        "-e2e-processing-latency-percentile=0.95,1.0",
        "-e2e-processing-latency-percentile=0.99",
    )
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as publisher:
        consumer.subscribe(topic, "c", ready=1)
        publisher.publish(topic, b"abc", b"de", b"f")
        consumer.finish(consumer.next_message())
        start = f"fleet.127_0_0_1_{broker.http[1]}."
        of_topic, of_channel = f"{start}topic.{topic}.", f"{start}topic.{topic}.channel.c."
        latencies = {f"e2e_processing_latency_{percent}": "g" for percent in (100, 99, 95)}
        expected = {of_topic + name: kind for name, kind in (TOPIC_FIGURES | latencies).items()}
        expected |= {of_channel + name: kind for name, kind in (CHANNEL_FIGURES | latencies).items()}
        expected |= {f"{start}mem.{name}": kind for name, kind in MEMORY_FIGURES.items()}
        statsd.wait_for(*expected)
        assert statsd.kinds == expected

        def told() -> bool:
            statsd.listen()
            values = statsd.values
            counts = (values[of_topic + "message_count"], values[of_topic + "message_bytes"])
            state = (values[of_channel + "depth"], values[of_channel + "in_flight_count"])
            return counts == (3, 6) and state == (1, 1) and values[of_channel + "clients"] == 1

        wait_until(told, f"counts of {statsd.values}")
        assert statsd.values[of_channel + "e2e_processing_latency_99"] > 0
        assert statsd.values[f"{start}mem.heap_in_use_bytes"] > 0
        assert statsd.largest_bytes <= 200


def test_ephemeral_ones_and_memory_may_be_left_out(start_broker: StartBroker, statsd: Statsd, topic: str) -> None:
    broker = start_broker(
        f"-statsd-address={statsd.address}",
        "-statsd-interval=1100ms",
        "-statsd-prefix=",
        "-statsd-mem-stats=false",
        "-statsd-exclude-ephemeral",
    )
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as other:
        consumer.subscribe(topic, "c#ephemeral", ready=1)
        other.subscribe(f"{topic}#ephemeral", "c", ready=1)
        statsd.wait_for(f"topic.{topic}.depth")
        assert statsd.kinds == {f"topic.{topic}.{name}": kind for name, kind in TOPIC_FIGURES.items()}


def test_percentiles_are_in_stats(start_broker: StartBroker, topic: str) -> None:
    broker = start_broker("-e2e-processing-latency-percentile=0.5,1", "-e2e-processing-latency-window-time=1h")
    with Connection(broker.tcp) as consumer, Connection(broker.tcp) as publisher:
        consumer.subscribe(topic, "c", ready=2)
        publisher.publish(topic, b"a", b"b")
        for _ in range(2):
            consumer.finish(consumer.next_message())
        broker.wait_for_channel(topic, "c", in_flight_count=0)
        channel, entry = broker.channel(topic, "c"), broker.topic(topic)
        for told in (channel["e2e_processing_latency"], entry["e2e_processing_latency"]):
            assert list(told) == ["count", "percentiles"]
            assert told["count"] == 2
            assert [list(each) for each in told["percentiles"]] == [["quantile", "value"]] * 2
            assert [each["quantile"] for each in told["percentiles"]] == [1, 0.5]
            highest, median = (each["value"] for each in told["percentiles"])
            assert highest >= median > 0
        page = broker.get("/stats", format="text", topic=topic).body.decode()
        assert len(re.findall(r"e2e%: [\d.]+(?:ns|us|ms|s), [\d.]+(?:ns|us|ms|s)\n", page)) == 2
        assert broker.get("/config/e2e_processing_latency_percentiles").json() == [1, 0.5]
        assert broker.get("/config/e2e_processing_latency_window_time").json() == 3_600_000_000_000


def test_options_are_read_as_they_are_in_force(start_broker: StartBroker) -> None:
    broker = start_broker("-statsd-prefix=a.%s", "-statsd-interval=7s", "-sync-every=9", "-max-bytes-per-file=5000")
    for option, expected in {
        "statsd_prefix": f"a.127_0_0_1_{broker.http[1]}.",
        "statsd_address": "",
        "statsd_interval": "7000000000",
        "statsd_mem_stats": "true",
        "statsd_udp_packet_size": "508",
        "statsd_exclude_ephemeral": "false",
        "sync_every": "9",
        "sync_timeout": "2000000000",
        "max_bytes_per_file": "5000",
        "e2e_processing_latency_percentiles": "[]",
        "tls_cert": "",
        "tls_client_auth_policy": "",
        "tls_required": "0",
        "auth_http_addresses": "[]",
        "broadcast_tcp_port": str(broker.tcp[1]),
        "broadcast_http_port": str(broker.http[1]),
    }.items():
        assert broker.get(f"/config/{option}").body.decode() == expected, option


@pytest.mark.parametrize("quantile", ["0", "1.5", "-1"])
def test_percentiles_that_are_none_end_the_start(start_broker: StartBroker, quantile: str) -> None:
    with pytest.raises(AssertionError, match="ended with"):
        start_broker(f"-e2e-processing-latency-percentile={quantile}")
