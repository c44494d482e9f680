"""A small disk that a test can fill and empty again: a file system in memory, mounted for the time of a test."""

import contextlib
import os
import subprocess
import warnings
from pathlib import Path
from typing import Self

import pytest

FILLER = "filler"
PIECES_BYTES = (65536, 4096, 512, 1)


class Disk(contextlib.AbstractContextManager):
    """A disk of `mebibytes`; as a context it is there, and afterwards it is not."""

    def __init__(self, path: Path, mebibytes: int) -> None:
        self.path = path
        self.mebibytes = mebibytes

    def __enter__(self) -> Self:
        self.path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={self.mebibytes}m", "tmpfs", str(self.path)]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            why = f"no disk can be mounted, so none can be filled (run as root): {mounted.stderr.strip()}"
            warnings.warn(why, stacklevel=2)
            pytest.skip(why)
        return self

    def __exit__(self, *_: object) -> None:
        # A process that is about to end may still have files open.
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def fill(self) -> None:
        """Takes all the room that is left."""
        file = os.open(self.path / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for piece_bytes in PIECES_BYTES:
                with contextlib.suppress(OSError):
                    while True:
                        os.write(file, bytes(piece_bytes))
        finally:
            os.close(file)

    def make_room(self) -> None:
        """Gives back what `fill` took."""
        (self.path / FILLER).unlink()
