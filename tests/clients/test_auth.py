"""AUTH: stock clients and raw commands against an auth server, at nsqd and here alike; tokens of a file, here."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auth_server import AuthServer, permitting
from broker import Broker, command_line
from deadlines import wait_until
from raw_protocol import Connection, sized
from test_go_nsq import run as run_go_nsq
from test_pynsq import Session, make_channel
from test_pynsq import run as run_pynsq

StartBroker = Callable[..., Broker]

ANSWER = {"identity": "sensor", "identity_url": "http://who/sensor", "permission_count": 1}


def by_secret(asked: dict[str, str]) -> dict[str, Any] | None:
    """What secrets are for."""
    return {
        "all": permitting(".*", "publish", "subscribe"),
        "publish": permitting("^topic_", "publish"),
        "read": permitting("^topic_", "subscribe", channels="^reader$"),
        "never": permitting(".*", "publish", channels="never"),
        "nothing": {"ttl": 60, "authorizations": []},
        "short": permitting(".*", "publish", ttl=1),
        "broken": {"ttl": 60, "authorizations": [{"topic": "(", "channels": [], "permissions": []}]},
        "root": {"ttl": 60, "authorizations": [{"topic": "", "channels": [], "permissions": ["root"]}]},
        "timeless": {"authorizations": []},
    }.get(asked["secret"])


@pytest.fixture
def server() -> Iterator[AuthServer]:
    with AuthServer(by_secret) as server:
        yield server


@pytest.fixture
def guarded(start_broker: StartBroker, server: AuthServer) -> Broker:
    """A broker that asks the server."""
    return start_broker(f"-auth-http-address={server.address}")


def auth(connection: Connection, secret: str) -> None:
    connection.send(b"AUTH\n" + sized(secret.encode()))


def test_identify_says_that_auth_is_required(guarded: Broker, broker: Broker) -> None:
    with Connection(guarded.tcp) as connection:
        assert connection.identify()["auth_required"]
    with Connection(broker.tcp) as connection:
        assert not connection.identify()["auth_required"]
        auth(connection, "all")
        connection.expect_error(b"E_AUTH_DISABLED AUTH disabled")
        connection.expect_closed()


def test_a_server_is_asked_about_the_client(guarded: Broker, server: AuthServer, topic: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, "publish")
        frame = connection.next_frame()
        assert frame and json.loads(frame.data) == ANSWER
        connection.publish(topic, b"x")
        assert server.asked == [{"remote_ip": "127.0.0.1", "tls": "false", "secret": "publish", "common_name": ""}]
        auth(connection, "publish")
        connection.expect_error(b"E_INVALID AUTH already set")
        connection.expect_closed()
    assert guarded.topic(topic)["message_count"] == 1


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (b"PUB topic_x\n" + sized(b"x"), "PUB"),
        (b"MPUB topic_x\n" + sized((1).to_bytes(4, "big") + sized(b"x")), "MPUB"),
        (b"DPUB topic_x 1\n" + sized(b"x"), "DPUB"),
        (b"SUB topic_x reader\n", "SUB"),
    ],
)
def test_commands_need_auth_first_and_permissions(guarded: Broker, command: bytes, verb: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        connection.send(b"NOP\n" + command)
        connection.expect_error(f"E_AUTH_FIRST AUTH required before {verb}".encode())
        connection.expect_closed()
    channel = "reader" if verb == "SUB" else ""
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, "publish" if verb == "SUB" else "read")
        connection.next_frame()
        connection.send(command)
        connection.expect_error(f'E_UNAUTHORIZED AUTH failed for {verb} on "topic_x" "{channel}"'.encode())
        connection.expect_closed()


@pytest.mark.parametrize(
    ("secret", "error"),
    [
        ("guess", b"E_AUTH_FAILED AUTH failed"),
        ("broken", b"E_AUTH_FAILED AUTH failed"),
        ("root", b"E_AUTH_FAILED AUTH failed"),
        ("timeless", b"E_AUTH_FAILED AUTH failed"),
        ("nothing", b"E_UNAUTHORIZED AUTH no authorizations found"),
    ],
)
def test_auth_fails(guarded: Broker, secret: str, error: bytes) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, secret)
        connection.expect_error(error)
        connection.expect_closed()


def test_channels_count_for_publishers_as_an_empty_name(guarded: Broker, topic: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, "never")
        connection.next_frame()
        connection.send(f"PUB {topic}\n".encode() + sized(b"x"))
        connection.expect_error(f'E_UNAUTHORIZED AUTH failed for PUB on "{topic}" ""'.encode())


def test_commands_behind_auth_wait_for_its_answer(guarded: Broker, topic: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        connection.send(b"AUTH\n" + sized(b"publish") + f"PUB {topic}\n".encode() + sized(b"x"))
        frame = connection.next_frame()
        assert frame and json.loads(frame.data) == ANSWER
        connection.expect_response()


def test_a_server_is_asked_again_after_its_time(guarded: Broker, server: AuthServer, topic: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, "short")
        connection.next_frame()

        def asked_twice() -> bool:
            connection.publish(topic, b"x")
            return len(server.asked) > 1

        wait_until(asked_twice, "the second question")
        server.answer = lambda _: None

        def refused() -> bytes | None:
            connection.send(f"PUB {topic}\n".encode() + sized(b"x"))
            frame = connection.next_frame()
            assert frame
            return None if frame.data == b"OK" else frame.data

        assert wait_until(refused, "the server's refusal") == b"E_AUTH_FAILED AUTH failed"


def test_of_several_servers_one_that_answers_is_enough(
    start_broker: StartBroker, server: AuthServer, topic: str
) -> None:
    own = start_broker("-auth-http-address=127.0.0.1:1", f"-auth-http-address=http://{server.address}/who")
    for _ in range(4):
        with Connection(own.tcp) as connection:
            connection.identify()
            auth(connection, "publish")
            frame = connection.next_frame()
            assert frame and json.loads(frame.data) == ANSWER
            connection.publish(topic, b"x")


def test_stats_say_who_it_is(guarded: Broker, topic: str) -> None:
    with Connection(guarded.tcp) as connection:
        connection.identify()
        auth(connection, "all")
        connection.next_frame()
        connection.subscribe(topic, "reader")
        entry = guarded.wait_for_channel(topic, "reader", client_count=1)
        (client,) = entry["clients"]
        assert (client["authed"], client["auth_identity"]) == (True, "sensor")
        assert client["auth_identity_url"] == "http://who/sensor"


def test_go_nsq_gives_its_secret(guarded: Broker, topic: str) -> None:
    run_go_nsq(guarded, "max-in-flight", topic, "reader", settings=["auth_secret=all"])


def test_pynsq_gives_its_secret(guarded: Broker, topic: str) -> None:
    make_channel(guarded, topic)
    heard: list[bytes] = []

    async def scenario(session: Session) -> None:
        session.read(topic, "reader", lambda message: heard.append(message.body) or True)
        session.publish(topic, range(10))
        await session.all_published()
        await session.until(lambda: len(heard) == 10, "ten messages")

    run_pynsq(guarded, scenario, auth_secret="all")


def make_token(*arguments: str) -> tuple[str, str]:
    """A token and its lines."""
    made = subprocess.run(
        [command_line()[0], "access", "token", *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    (token,) = [line for line in made.stderr.splitlines() if line.startswith("srtm_")]
    return token, made.stdout


@pytest.mark.srtm_only
def test_a_token_counts_as_long_as_the_file_says_so(start_broker: StartBroker, tmp_path: Path, topic: str) -> None:
    file = tmp_path / "access.toml"
    publish, publish_lines = make_token("--name", "gateway", "--role", "publish", "--topics", "topic_*")
    admin, admin_lines = make_token("--name", "operator", "--role", "admin", "--topics", "*")
    file.write_text(publish_lines + admin_lines)
    own = start_broker(f"-access={file}", "-threads=2")
    with Connection(own.tcp) as publisher, Connection(own.tcp) as consumer:
        for connection, token in ((publisher, publish), (consumer, admin)):
            connection.identify(heartbeat_interval=1000)
            auth(connection, token)
            frame = connection.next_frame()
            assert frame and b"permission_count" in frame.data
        publisher.publish(topic, b"x")
        consumer.subscribe(topic, "reader", ready=1)
        consumer.finish(consumer.next_message())
        assert own.request("GET", "/stats?format=json").status == 401
        headers = {"Authorization": f"Bearer {publish}"}
        assert own.request("POST", f"/pub?topic={topic}", b"y", headers).status == 200
        assert own.request("POST", "/pub?topic=other", b"y", headers).status == 403
        consumer.finish(consumer.next_message())
        # What is no file changes nothing; what takes a token back ends what it began.
        replace(file, "[[token]]")
        wait_until(lambda: "is of no use" in own.log(), "the line about the file")
        publisher.publish(topic, b"z")
        consumer.finish(consumer.next_message())
        replace(file, publish_lines)
        wait_until(lambda: "1 tokens count" in own.log(), "the line about the file")
        # The answer to a heartbeat is a command, too.
        consumer.expect_error(b"E_AUTH_FAILED AUTH failed")
        publisher.publish(topic, b"z")


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)
