"""NSQ's own command-line tools, as the Makefile builds them."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from broker import REPOSITORY
from deadlines import GENEROUS_S


def tool(name: str) -> str:
    """Path of a tool."""
    return str(REPOSITORY / "build/bin" / name)


class Tool:
    """A tool that runs beside the test; its output is kept in files."""

    def __init__(self, folder: Path, name: str, *flags: str) -> None:
        self.out_path, self.log_path = folder / f"{name}.out", folder / f"{name}.log"
        with self.out_path.open("wb") as out, self.log_path.open("wb") as log:
            self.process = subprocess.Popen([tool(name), *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def output(self) -> str:
        """Its standard output so far."""
        return self.out_path.read_text()

    def log(self) -> str:
        """Its standard error so far."""
        return self.log_path.read_text()

    def stop(self) -> int:
        """SIGTERM, then the exit code."""
        self.process.terminate()
        return self.process.wait(timeout=GENEROUS_S)


@contextmanager
def running(folder: Path, name: str, *flags: str) -> Iterator[Tool]:
    """A tool that is stopped at the end, whatever happened."""
    started = Tool(folder, name, *flags)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()


def run(name: str, *flags: str, stdin: bytes = b"") -> str:
    """Runs a tool to its end and returns its standard output."""
    finished = subprocess.run([tool(name), *flags], input=stdin, capture_output=True, timeout=GENEROUS_S, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout.decode()
