"""Daemons of a cluster in which everything is encrypted, each a process of its own, and those who ask them."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

from broker import REPOSITORY, Address
from controller_with_brokers import address, program
from deadlines import GENEROUS_S, wait_until

CONTROLLER_LINE = re.compile(r"controller: HTTPS on (\S+), brokers dial (\S+)")
LOOKUP_LINE = re.compile(r"controller: lookup on (?:\S+ \(TCP\) and )?(\S+) \(HTTPS\)")
BROKER_LINES = re.compile(r"TCP: listening on (\S+)\n(?:.*\n)*?.*HTTPS: listening on (\S+)\n")

UNASKED_PORTS = range(15_000, 30_000)
"""Ports that the kernel gives nobody who asks for just any."""


def run(*arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """The program with these arguments, to its end."""
    return subprocess.run(
        [program(), *arguments], check=False, capture_output=True, text=True, timeout=GENEROUS_S, **kwargs
    )


class Keys:
    """A folder of `srtm keys init`."""

    def __init__(self, folder: Path, brokers: str = "b1,b2") -> None:
        self.folder = folder
        made = run("keys", "init", str(folder), "--brokers", brokers)
        assert made.returncode == 0, made.stderr

    def trust(self) -> list[str]:
        """Flags of a command that asks as the operator."""
        own = self.folder / "clients" / "operator"
        return ["--ca", str(self.folder / "ca.pem"), "--cert", f"{own}.pem", "--cert-key", f"{own}.key"]

    def context(self, own: tuple[Path, Path] | None = None, is_known: bool = True) -> ssl.SSLContext:
        """TLS of a client that believes the authority, with the operator's certificate, another one or none."""
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if is_known:
            operator = self.folder / "clients" / "operator"
            own = own or (operator.with_suffix(".pem"), operator.with_suffix(".key"))
        if own is not None:
            context.load_cert_chain(*own)
        return context


class Daemon:
    """One process, which ends with the test."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_path, self.arguments = folder / f"{name}.log", arguments
        self.start()

    def start(self) -> None:
        """Starts it, anew or for the first time."""
        with self.log_path.open("wb") as log:
            command = [program(), *self.arguments]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd=REPOSITORY
            )

    def log(self) -> str:
        """What it has logged since its last start."""
        return self.log_path.read_text(errors="replace")

    def found(self, line: re.Pattern[str]) -> list[Any]:
        """What its log says, once it does."""

        def look() -> list[Any]:
            assert self.process.poll() is None, self.log()[-4000:]
            return line.findall(self.log())

        return wait_until(look, line.pattern)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM, then the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=GENEROUS_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(self.log()[-4000:]) from None


def free_port() -> int:
    """A port that nobody has now, and that no connection gets by chance while a daemon is away."""
    while True:
        port = random.choice(UNASKED_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class SecureCluster:
    """A controller and brokers of two threads, all with `--secure`, on ports that stay theirs over restarts."""

    def __init__(self, folder: Path, keys: Keys, link_through: "Recorder | None" = None) -> None:
        self.folder, self.keys = folder, keys
        ports = [free_port() for _ in range(3)]
        self.http, self.lookup = ("127.0.0.1", ports[0]), ("127.0.0.1", ports[2])
        self.link = f"127.0.0.1:{ports[1]}"
        self.controller = Daemon(
            folder, "controller", "controller", "--secure", str(keys.folder), "--http", f"127.0.0.1:{ports[0]}",
            "--link-address", self.link, "--lookup-http-address", f"127.0.0.1:{ports[2]}",
            "--data-dir", str(folder / "controller"), "--report-interval", "200ms",
        )  # fmt: skip
        self.controller.found(CONTROLLER_LINE)
        if link_through is not None:
            self.link = link_through.begin(address(self.link))
        self.brokers: dict[str, Daemon] = {}

    def add(self, name: str, *flags: str) -> Daemon:
        """One more broker; returns once the controller counts it."""
        self.brokers[name] = Daemon(
            self.folder, name, "broker", "--secure", str(self.keys.folder), "--controller", self.link,
            "--broker-name", name, "--broadcast-address", "127.0.0.1", "--threads", "2",
            "--tcp-address", f"127.0.0.1:{free_port()}", "--http-address", f"127.0.0.1:{free_port()}",
            "--data-path", str(self.folder / name), *flags,
        )  # fmt: skip
        self.until_up(name)
        return self.brokers[name]

    def ports(self, name: str) -> dict[str, Address]:
        """Where a broker listens: TCP and HTTPS."""
        tcp, https = self.brokers[name].found(BROKER_LINES)[0]
        return {"TCP": address(tcp), "HTTPS": address(https)}

    def until_up(self, name: str) -> dict[str, Any]:
        """The controller's view of a broker, once it is up."""

        def look() -> dict[str, Any] | None:
            with contextlib.suppress(OSError):
                views = self.get("/v1/brokers")["brokers"]
                return next((view for view in views if view["broker"] == name and view["state"] == "up"), None)
            return None

        return wait_until(look, f"{name} is up")

    def get(self, path: str, at: Address | None = None) -> Any:
        """The JSON of a GET at the controller, or elsewhere, by HTTPS as the operator."""
        return self.ask("GET", path, at=at)

    def ask(self, method: str, path: str, body: Any = None, at: Address | None = None) -> Any:
        """A question as the operator, which must succeed."""
        status, answer = ask(at or self.http, self.keys.context(), method, path, body)
        assert status < 300, (method, path, status, answer)
        return json.loads(answer) if answer[:1] in (b"{", b"[") else answer

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command as the operator."""
        return run(*arguments, *self.keys.trust())

    def stop(self) -> None:
        """Ends all."""
        for daemon in [*self.brokers.values(), self.controller]:
            daemon.stop()


def ask(at: Address, context: ssl.SSLContext, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """One question by HTTPS."""
    connection = http.client.HTTPSConnection(*at, context=context, timeout=GENEROUS_S)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"} if content else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Recorder:
    """A TCP proxy that keeps what goes through it."""

    def __init__(self) -> None:
        self.heard, self.connections = bytearray(), 0
        self._listener = socket.create_server(("127.0.0.1", 0))

    def begin(self, to: Address) -> str:
        """Passes connections on to an address; gives where."""
        threading.Thread(target=self._accept, args=(to,), daemon=True).start()
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self, to: Address) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                try:
                    far = socket.create_connection(to)
                except OSError:
                    near.close()
                    continue
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(65536):
                self.heard += piece
                other.sendall(piece)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accepts nobody any more."""
        self._listener.close()


def environment(keys: Keys) -> dict[str, str]:
    """What says to commands whom they believe and what they prove themselves by."""
    _, ca, _, cert, _, key = keys.trust()
    return {**os.environ, "SRTM_CA": ca, "SRTM_CERT": cert, "SRTM_CERT_KEY": key}
