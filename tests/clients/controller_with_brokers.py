"""A controller with brokers, as `srtm up` starts them, and where they listen."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from broker import REPOSITORY, Address
from deadlines import GENEROUS_S, wait_until
from lookup_service import request

DEFAULT_PROGRAM = "target/debug/srtm"


def program() -> str:
    """The srtm program; a relative path is meant from the repository's top folder."""
    word = os.environ.get("SRTM", DEFAULT_PROGRAM)
    built = REPOSITORY / word
    found = str(built) if built.exists() else shutil.which(word)
    if found is None:
        raise FileNotFoundError(f"no {word}: build it (cargo build -p srtm) or set SRTM")
    return found


def address(text: str) -> Address:
    """An address from its text."""
    host, _, port = text.rpartition(":")
    return host, int(port)


class Cluster:
    """`srtm up`, on ports that the system chooses; `stop` ends it in order."""

    def __init__(self, folder: Path, *flags: str, brokers: int = 2, token: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.log_path, self.out_path = folder / "up.log", folder / "up.out"
        ports = ["--http", "--link-address", "--lookup-tcp-address", "--lookup-http-address"]
        free = [word for port in ports for word in (port, "127.0.0.1:0")]
        command = [program(), "up", "--brokers", str(brokers), "--tcp-base-port", "0", *free, *flags]
        with self.log_path.open("wb") as log, self.out_path.open("wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, cwd=REPOSITORY)
        shown = wait_until(self._places, "the places that srtm up prints")
        self.http, self.lookup = shown
        self.brokers = {broker["broker"]: broker for broker in self.get("/v1/brokers")["brokers"]}

    def _places(self) -> tuple[Address, Address] | None:
        assert self.process.poll() is None, f"srtm up ended with {self.process.returncode}:\n{self.log()}"
        words = self.out_path.read_text().split()
        lookup = [word.partition("=")[2] for word in words if word.startswith("--lookupd-http-address=")]
        api = [word.removeprefix("http://").partition("/")[0] for word in words if word.startswith("http://")]
        return (address(api[0]), address(lookup[0])) if lookup and api else None

    def log(self) -> str:
        """Everything that it and its brokers have logged."""
        return self.log_path.read_text(errors="replace")

    def get(self, path: str) -> Any:
        """The JSON of a GET at the controller, which must succeed."""
        answer = request(self.http, "GET", path, self.headers)
        assert answer.status == 200, f"GET {path}: {answer}"
        return json.loads(answer.body)

    def post(self, path: str) -> None:
        """A POST at the controller, which must succeed."""
        answer = request(self.http, "POST", path, self.headers)
        assert answer.status < 300, f"POST {path}: {answer}"

    def tcp(self, broker: str) -> Address:
        """Where NSQ clients find a broker."""
        return address(self.brokers[broker]["tcp_address"])

    def broker_http(self, broker: str) -> Address:
        """Where a broker's own HTTP is."""
        return address(self.brokers[broker]["http_address"])

    def stop(self) -> int:
        """SIGTERM, then the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=GENEROUS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"srtm up did not end on SIGTERM:\n{self.log()[-4000:]}") from None
