"""A cluster in which everything is encrypted: who is let in, who is not, and what goes on when it changes."""

import asyncio
import contextlib
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import srtm
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from broker import REPOSITORY, Address
from certificates import Authority, name
from controller_with_brokers import address, program
from deadlines import wait_until
from secure_cluster import BROKER_LINES, Daemon, Keys, Recorder, SecureCluster, ask, environment, free_port, run

pytestmark = pytest.mark.srtm_only

DISBELIEVED = re.compile("no TLS: ")
"""What a broker logs that does not believe its controller."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Keys that tests share which do not change them."""
    return Keys(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture
def start(tmp_path: Path, keys: Keys) -> Iterator[Callable[..., SecureCluster]]:
    """Starts clusters with brokers b1 and b2."""
    started: list[SecureCluster] = []

    def begin(own: Keys | None = None, link_through: Recorder | None = None) -> SecureCluster:
        cluster = SecureCluster(tmp_path / f"cluster{len(started)}", own or keys, link_through)
        started.append(cluster)
        for broker in ("b1", "b2"):
            cluster.add(broker)
        return cluster

    yield begin
    for cluster in started:
        cluster.stop()


def publish(cluster: SecureCluster, topic: str, bodies: list[str]) -> None:
    """By the publisher for Python, wherever the controller places it."""

    async def all_of_them() -> None:
        options = {"controller": f"127.0.0.1:{cluster.http[1]}", "topic": topic, "id": "sensor-1"}
        async with srtm.Publisher(**options, tls=cluster.keys.context()) as publisher:
            for body in bodies:
                await publisher.publish(body.encode())

    asyncio.run(all_of_them())


def received(cluster: SecureCluster, topic: str, count: int, and_also: str | None = None) -> set[str]:
    """What `srtm sub` prints at all brokers, until so many came, and that one."""
    seen: list[str] = []
    commands = []
    for broker in cluster.brokers:
        at = f"127.0.0.1:{cluster.ports(broker)['TCP'][1]}"
        command = [program(), "sub", topic, "archive", "--tcp", at, *cluster.keys.trust()]
        output = (cluster.folder / f"{broker}.sub").open("w+")
        commands.append((subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE), output))

    def look() -> bool:
        seen.clear()
        for _, output in commands:
            output.seek(0)
            seen.extend(output.read().split())
        return len(set(seen)) >= count and (and_also is None or and_also in seen)

    try:
        wait_until(look, f"{count} messages of {topic}")
    finally:
        for process, output in commands:
            process.kill()
            process.communicate()
            output.close()
    return set(seen)


def test_messages_pass_whatever_is_killed(start: Callable[..., SecureCluster], topic: str) -> None:
    cluster = start()
    declared = cluster.command("topic", "set", topic, "--rate", "5000", "--burst", "100", "--controller", api(cluster))
    assert declared.returncode == 0, declared.stderr
    bodies = [f"first-{number}" for number in range(50)]
    publish(cluster, topic, bodies)
    assert received(cluster, topic, 50) == set(bodies)
    cluster.controller.kill()
    cluster.controller.start()
    for broker in cluster.brokers:
        cluster.until_up(broker)
    cluster.brokers["b1"].kill()
    cluster.brokers["b1"].start()
    cluster.until_up("b1")
    bodies = [f"second-{number}" for number in range(50)]
    publish(cluster, topic, bodies)
    assert received(cluster, topic, 50) >= set(bodies)


def test_publishers_for_rust_and_go_speak_tls(start: Callable[..., SecureCluster], topic: str) -> None:
    cluster = start()
    tcp = f"127.0.0.1:{cluster.ports('b1')['TCP'][1]}"
    told = cluster.command("pub", topic, "--message", "by-rust", "--tcp", tcp)
    assert told.returncode == 0, told.stderr
    least = 1
    if shutil.which("go"):
        _, ca, _, cert, _, key = cluster.keys.trust()
        sensor = [
            "go",
            "run",
            "./examples",
            "-controller",
            api(cluster),
            "-topic",
            topic,
            "-rate",
            "20",
            "-seconds",
            "0.5",
        ]
        own = ["-ca", ca, "-cert", cert, "-key", key]
        subprocess.run([*sensor, *own], cwd=REPOSITORY / "clients/go", check=True, timeout=300)
        least += 1
    received(cluster, topic, least, and_also="by-rust")
    # The environment says the same as flags do.
    where = run("where", topic, "--controller", api(cluster), env=environment(cluster.keys))
    assert where.returncode == 0 and "b" in where.stdout, where


def test_a_stranger_gets_nothing(start: Callable[..., SecureCluster], tmp_path: Path) -> None:
    cluster = start()
    other = Authority(tmp_path / "other")
    strangers = {
        "no certificate": None,
        "another authority's": other.sign("operator"),
        "an expired one": expired(cluster.keys, tmp_path),
    }
    doors = [cluster.http, cluster.lookup, address(cluster.link)]
    doors += [cluster.ports("b1")["HTTPS"]]
    for what, own in strangers.items():
        context = cluster.keys.context(own, is_known=False)
        for door in doors:
            assert is_refused(door, context), f"{what} at {door}"
        assert is_refused_by_broker(cluster.ports("b1")["TCP"], context), what
    # Who is not of the authority is not believed either.
    someone = ssl.create_default_context(cafile=other.path)
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(cluster.http, someone, "GET", "/v1/brokers")
    # Without TLS at all.
    plain = http.client.HTTPConnection(*cluster.http, timeout=30)
    plain.request("GET", "/v1/topics")
    answer = plain.getresponse()
    assert (answer.status, b"https" in answer.read()) == (400, True)
    told = run("topic", "ls", "--controller", f"https://{api(cluster)}")
    assert told.returncode == 1 and "--ca" in told.stderr, told
    # A certificate of the authority does not replace the key of the link.
    assert is_silent_after_tls(address(cluster.link), cluster.keys.context())
    for broker in cluster.brokers:
        cluster.until_up(broker)


def test_a_controller_that_is_none_is_told_nothing(
    keys: Keys, tmp_path: Path, start: Callable[..., SecureCluster]
) -> None:
    other = Keys(tmp_path / "other")
    recorder = Recorder()
    cluster = start(link_through=recorder)
    impostor = SecureCluster(tmp_path / "impostor", other)
    try:
        moved = cluster.brokers["b2"]
        moved.stop()
        moved.arguments = tuple(impostor.link if word == cluster.link else word for word in moved.arguments)
        moved.start()
        moved.found(DISBELIEVED)
        assert impostor.get("/v1/brokers")["brokers"] == []
    finally:
        impostor.stop()
        recorder.close()


def test_words_of_the_link_are_hidden(start: Callable[..., SecureCluster], topic: str) -> None:
    recorder = Recorder()
    cluster = start(link_through=recorder)
    declared = cluster.command("topic", "set", topic, "--rate", "50", "--burst", "10", "--controller", api(cluster))
    assert declared.returncode == 0, declared.stderr
    publish(cluster, topic, ["a-payload"])
    received(cluster, topic, 1)
    assert recorder.connections >= 2 and len(recorder.heard) > 1000
    for word in (topic, "broker", "tcp_address", "a-payload", "SRTMLINK"):
        assert word.encode() not in recorder.heard, word
    recorder.close()


def test_renewed_certificates_are_taken_up_while_daemons_run(
    start: Callable[..., SecureCluster], tmp_path: Path
) -> None:
    own = Keys(tmp_path / "own")
    cluster = start(own)
    doors = {"controller": cluster.http, "b1": cluster.ports("b1")["HTTPS"]}
    before = {who: certificate(door, own) for who, door in doors.items()}
    for who, door in doors.items():
        renewed = run("keys", "node", who, str(own.folder), "--renew", "--days", "30")
        assert renewed.returncode == 0, renewed.stderr
        wait_until(lambda who=who, door=door: certificate(door, own) != before[who], f"{who} shows the new one")
    for broker in cluster.brokers:
        cluster.until_up(broker)
    # What dials in from now on does so with the new ones.
    cluster.controller.kill()
    cluster.controller.start()
    for broker in cluster.brokers:
        cluster.until_up(broker)


def test_a_drained_broker_hands_over(start: Callable[..., SecureCluster], topic: str) -> None:
    cluster = start()
    b1 = cluster.ports("b1")
    cluster.ask("POST", f"/topic/create?topic={topic}", at=b1["HTTPS"])
    cluster.ask("POST", f"/channel/create?topic={topic}&channel=archive", at=b1["HTTPS"])
    for number in range(20):
        told = ask(b1["HTTPS"], cluster.keys.context(), "POST", f"/pub?topic={topic}", f"m{number}")
        assert told[0] == 200, told
    cluster.ask("POST", "/v1/brokers/b1/drain")

    def depth() -> int:
        stats = cluster.get(f"/stats?format=json&topic={topic}", at=cluster.ports("b2")["HTTPS"])
        return sum(channel["depth"] for known in stats["topics"] or [] for channel in known["channels"] or [])

    wait_until(lambda: depth() == 20, "b2 has what waited at b1")


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    made = Keys(folder)
    secrets = [folder / "ca.key", folder / "link.key", folder / "gossip.key", folder / "nodes" / "b1.key"]
    assert all(secret.stat().st_mode & 0o777 == 0o600 for secret in secrets)
    before = [secret.read_bytes() for secret in secrets]
    for again in (["init", str(folder)], ["node", "b1", str(folder)]):
        refused = run("keys", *again)
        assert refused.returncode == 2 and "never overwritten" in refused.stderr, refused
    assert [secret.read_bytes() for secret in secrets] == before
    shown = run("keys", "show", str(made.folder))
    assert shown.returncode == 0 and all(who in shown.stdout for who in ("b1", "b2", "controller", "operator"))
    unknown = run("broker", "--secure", str(folder), "--broker-name", "b9", "--controller", "127.0.0.1:1")
    assert unknown.returncode == 2 and "srtm keys node b9" in unknown.stderr, unknown


def test_gossip_is_of_one_folder_of_keys(keys: Keys, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other")
    at = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    started = []
    for number, (own, broker) in enumerate([(keys, "b1"), (keys, "b2"), (other, "b1")]):
        flags = ["--secure", str(own.folder), "--broker-name", broker, "--gossip-join", ",".join(at)]
        ports = ["--tcp-address", at[number], "--http-address", "127.0.0.1:0"]
        started.append(Daemon(tmp_path, f"broker{number}", "broker", *flags, *ports, "--threads", "2"))
    try:
        https = [address(broker.found(BROKER_LINES)[0][1]) for broker in started]

        def heard(number: int, own: Keys) -> set[str]:
            status, answer = ask(https[number], own.context(), "GET", "/v1/sharers")
            assert status == 200, answer
            found = json.loads(answer)["found"]
            return {sharer["address"] for sharer in found if sharer["heard_ms"] is not None}

        wait_until(lambda: at[1] in heard(0, keys) and at[0] in heard(1, keys), "b1 and b2 hear each other")
        assert at[2] not in heard(0, keys) | heard(1, keys)
        assert not heard(2, other)
    finally:
        for broker in started:
            broker.stop()


def test_up_sets_everything_up(tmp_path: Path, topic: str) -> None:
    data = tmp_path / "data"
    ports = [word for port in ("--http", "--link-address", "--lookup-http-address") for word in (port, "127.0.0.1:0")]
    command = [program(), "up", "--secure", "--brokers", "2", "--tcp-base-port", "0", "--data-dir", str(data), *ports]
    with (tmp_path / "up.out").open("wb") as out, (tmp_path / "up.log").open("wb") as log:
        up = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, cwd=REPOSITORY)
    try:

        def shown() -> str | None:
            assert up.poll() is None, (tmp_path / "up.log").read_text()
            text = (tmp_path / "up.out").read_text()
            return text if "curl --cacert" in text else None

        text = wait_until(shown, "what srtm up prints")
        base = next(word for word in text.split() if word.startswith("https://")).removesuffix("/v1/topics")
        words = dict(word.split("=", 1) for word in text.split() if word.startswith("SRTM_"))
        env = {**os.environ, **words}
        for arguments in (["topic", "set", topic, "--rate", "50", "--burst", "5"], ["topic", "show", topic]):
            told = run(*arguments, "--controller", base, env=env)
            assert told.returncode == 0, told
        where = run("where", topic, "--controller", base, env=env)
        assert where.returncode == 0, where
        broker = where.stdout.split()[0]
        assert run("pub", topic, "--message", "hello", "--tcp", broker, env=env).returncode == 0
        heard = run("sub", topic, "archive", "--count", "1", "--tcp", broker, env=env)
        assert heard.stdout.strip() == "hello", heard
        refused = run("pub", topic, "--message", "hello", "--tcp", broker)
        assert refused.returncode == 1, refused
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=60) == 0, (tmp_path / "up.log").read_text()


def api(cluster: SecureCluster) -> str:
    """The controller's address, without a scheme."""
    return f"127.0.0.1:{cluster.http[1]}"


def expired(keys: Keys, folder: Path) -> tuple[Path, Path]:
    """A certificate of the keys' own authority that counts no more."""
    authority = x509.load_pem_x509_certificate((keys.folder / "ca.pem").read_bytes())
    signing = serialization.load_pem_private_key((keys.folder / "ca.key").read_bytes(), None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name("operator"))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * day)
        .not_valid_after(now - day)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signing, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    paths = folder / "expired.pem", folder / "expired.key"
    paths[0].write_bytes(certificate.public_bytes(pem))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(pem, form, plain))
    return paths


def is_refused(door: Address, context: ssl.SSLContext) -> bool:
    """Whether whoever comes so is told nothing."""
    try:
        with (
            socket.create_connection(door, timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=door[0]) as own,
        ):
            own.sendall(b"GET /v1/brokers HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            return own.recv(1) == b""
    except OSError:
        return True


def is_refused_by_broker(door: Address, context: ssl.SSLContext) -> bool:
    """The same for NSQ's clients: TLS is agreed on, and the handshake fails."""
    wish = b'{"tls_v1":true,"feature_negotiation":true}'
    with socket.create_connection(door, timeout=30) as plain:
        plain.sendall(b"  V2IDENTIFY\n" + len(wish).to_bytes(4, "big") + wish)
        size = int.from_bytes(plain.recv(4, socket.MSG_WAITALL), "big")
        assert b'"tls_v1":true' in plain.recv(size, socket.MSG_WAITALL)
        try:
            with context.wrap_socket(plain, server_hostname=door[0]) as own:
                return own.recv(1) == b""
        except OSError:
            return True


def is_silent_after_tls(door: Address, context: ssl.SSLContext) -> bool:
    """Whether the link ends for one that has a certificate and not the key."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(door, timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=door[0]) as own,
    ):
        first = b"SRTMLINK" + (8).to_bytes(4, "big") + bytes(32)
        own.sendall(len(first).to_bytes(4, "big") + first)
        answer = own.recv(4096)
        wrong = bytes(32)
        own.sendall(len(wrong).to_bytes(4, "big") + wrong)
        return len(answer) < 128 and own.recv(1) == b""
    return True


def certificate(door: Address, keys: Keys) -> bytes | None:
    """What is shown at a door."""
    with (
        socket.create_connection(door, timeout=30) as plain,
        keys.context().wrap_socket(plain, server_hostname=door[0]) as own,
    ):
        return own.getpeercert(binary_form=True)
