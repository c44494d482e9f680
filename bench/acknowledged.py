"""How long a publisher waits until its message is stored: SRTM's durable topics beside nsqd and NATS JetStream.

Every publisher has one message under way and sends the next when that is acknowledged. What is told: messages
per second, the time from send to acknowledgement, CPU time of the broker per message. The brokers run one
after another, in turns, each with an empty folder on the same disk; the broker on one core, this program on
another. Nobody consumes.

    python3 bench/acknowledged.py --srtm target/release/srtm --publishers 1000 --seconds 5 --rounds 3
"""

import argparse
import json
import os
import platform
import select
import signal
import socket
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

PEERS = [
    "srtm-memory",
    "srtm-disk",
    "srtm-fsync",
    "nsqd-disk",
    "nsqd-sync",
    "jetstream",
    "jetstream-sync",
]
START_TIMEOUT_S = 15.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A broker in an empty folder, alone on a core."""

    def __init__(self, peer: str, options: argparse.Namespace) -> None:
        self.peer, self.port, self.http = peer, free_port(), free_port()
        self.folder = Path(options.folder).resolve() / peer
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)
        self.folder.mkdir(parents=True)
        command = ["taskset", "-c", "1", *self._command(options)]
        log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=log,
            stderr=log,
            env=os.environ | {"GOMAXPROCS": "1"},
        )
        self._wait()
        if peer.startswith("srtm-"):
            self._declare(peer.removeprefix("srtm-"))

    def _command(self, options: argparse.Namespace) -> list[str]:
        tcp, http = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.http}"
        bin_dir = Path(options.bin_dir).resolve()
        if self.peer.startswith("srtm"):
            srtm = str(Path(options.srtm).resolve())
            return [
                srtm,
                "broker",
                "--tcp-address",
                tcp,
                "--http-address",
                http,
                "--data-path",
                ".",
                "--mem-queue-size",
                "10000000",
            ]
        if self.peer.startswith("nsqd"):
            extra = ["-sync-every=1"] if self.peer == "nsqd-sync" else []
            fixed = [
                f"-tcp-address={tcp}",
                f"-http-address={http}",
                "-data-path=.",
                "-mem-queue-size=0",
                "-log-level=error",
            ]
            return [str(bin_dir / "nsqd"), *fixed, *extra]
        sync = ", sync_interval: always" if self.peer == "jetstream-sync" else ""
        text = f'listen: "{tcp}"\njetstream {{ store_dir: "stored"{sync} }}\n'
        (self.folder / "nats.conf").write_text(text)
        return [str(bin_dir / "nats-server"), "-c", "nats.conf"]

    def _wait(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{self.peer} does not start; see {self.folder}/log") from None
                time.sleep(0.05)

    def _declare(self, durability: str) -> None:
        body = json.dumps({"durability": durability}).encode()
        url = f"http://127.0.0.1:{self.http}/v1/topics/stored"
        urllib.request.urlopen(urllib.request.Request(url, body, method="PUT"), timeout=START_TIMEOUT_S).close()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class NsqPublisher:
    """PUB, and an OK of ten bytes."""

    def __init__(self, port: int, number: int, body: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.command = b"PUB stored\n" + len(body).to_bytes(4, "big") + body
        self.socket.sendall(b"  V2")

    def acknowledged(self, bytes_: bytes) -> bool:
        if bytes_[4:8] == b"\0\0\0\0" and bytes_[8:10] == b"OK":
            return True
        if bytes_[8:].startswith(b"_heartbeat_"):
            self.socket.sendall(b"NOP\n")
            return False
        raise SystemExit(f"the broker answered {bytes_!r}")


class JetStreamPublisher:
    """PUB with a reply subject of its own, and a message there."""

    def __init__(self, port: int, number: int, body: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        inbox = f"stored.{number}"
        self.command = f"PUB kept {inbox} {len(body)}\r\n".encode() + body + b"\r\n"
        self.socket.sendall(f'CONNECT {{"verbose":false}}\r\nSUB {inbox} 1\r\nPING\r\n'.encode())
        self._until(b"PONG\r\n")

    def make_stream(self) -> None:
        config = b'{"name":"kept","subjects":["kept"],"storage":"file"}'
        self.socket.sendall(b"SUB made 2\r\nPUB $JS.API.STREAM.CREATE.kept made %d\r\n%s\r\n" % (len(config), config))
        if b'"error"' in self._until(b"}\r\n"):
            raise SystemExit("the stream was not made")

    def _until(self, end: bytes) -> bytes:
        heard = b""
        while not heard.endswith(end):
            heard += self.socket.recv(65536)
        return heard

    def acknowledged(self, bytes_: bytes) -> bool:
        if bytes_.startswith(b"PING"):
            self.socket.sendall(b"PONG\r\n")
            return False
        if b'"seq":' not in bytes_:
            raise SystemExit(f"the server answered {bytes_!r}")
        return True


def measure(broker: Broker, options: argparse.Namespace) -> dict:
    """Has all publishers send for some time; the first second does not count."""
    body = b"x" * options.bytes
    kind = JetStreamPublisher if broker.peer.startswith("jetstream") else NsqPublisher
    if kind is JetStreamPublisher:
        JetStreamPublisher(broker.port, 0, body).make_stream()
    poll = select.epoll()
    publishers = {}
    for number in range(1, options.publishers + 1):
        publisher = kind(broker.port, number, body)
        publisher.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        publishers[publisher.socket.fileno()] = publisher
        poll.register(publisher.socket, select.EPOLLIN)
    sent = {}
    for descriptor, publisher in publishers.items():
        sent[descriptor] = time.monotonic()
        publisher.socket.send(publisher.command)
    begin = time.monotonic() + 1.0
    end, cpu, delays_s = begin + options.seconds, None, []
    while (now := time.monotonic()) < end:
        if cpu is None and now >= begin:
            cpu = broker.cpu_s()
        for descriptor, _ in poll.poll(0.1):
            publisher = publishers[descriptor]
            if not publisher.acknowledged(publisher.socket.recv(4096)):
                continue
            now = time.monotonic()
            if cpu is not None:
                delays_s.append(now - sent[descriptor])
            sent[descriptor] = now
            publisher.socket.send(publisher.command)
    used_s = broker.cpu_s() - (cpu or 0.0)
    delays_s.sort()
    if not delays_s:
        raise SystemExit(f"{broker.peer} acknowledged nothing")
    return {
        "per_second": len(delays_s) / options.seconds,
        "p50_ms": delays_s[len(delays_s) // 2] * 1e3,
        "p99_ms": delays_s[len(delays_s) * 99 // 100] * 1e3,
        "cpu_us": used_s * 1e6 / len(delays_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(PEERS), help="brokers, separated by commas")
    parser.add_argument("--srtm", default="target/release/srtm")
    parser.add_argument(
        "--bin-dir",
        default="build/bin",
        help="folder of nsqd and nats-server (bench/peers/build.sh)",
    )
    parser.add_argument(
        "--folder",
        default="build/acknowledged",
        help="where the brokers store; on the disk to be measured",
    )
    parser.add_argument("--publishers", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", default="bench/results/acknowledged.jsonl")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = models[0].split(": ")[1] if models else ""
    machine = {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release()}
    rows: dict[str, list[dict]] = {peer: [] for peer in options.peers.split(",")}
    for round_ in range(1, options.rounds + 1):
        for peer, row in rows.items():
            broker = Broker(peer, options)
            try:
                row.append(measure(broker, options))
            finally:
                broker.stop()
            load = {
                "publishers": options.publishers,
                "bytes": options.bytes,
                "seconds": options.seconds,
            }
            line = {
                "peer": peer,
                "round": round_,
                "at_s": int(time.time()),
                "machine": machine,
                "commit": commit,
                "load": load,
            }
            with Path(options.results).open("a") as results:
                results.write(json.dumps(line | {"result": row[-1]}) + "\n")
    print(
        f"{options.publishers} publishers, one message of {options.bytes} B each under way; "
        f"medians of {options.rounds} rounds"
    )
    print(f"{'peer':<16}{'msg/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us/msg':>12}")
    for peer, row in rows.items():
        middle = {figure: statistics.median(one[figure] for one in row) for figure in row[0]}
        print(
            f"{peer:<16}{middle['per_second']:>9.0f}{middle['p50_ms']:>9.2f}{middle['p99_ms']:>9.2f}{middle['cpu_us']:>12.1f}"
        )


if __name__ == "__main__":
    main()
