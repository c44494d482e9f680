"""Records of runs as JSON lines: one per run, with where and how it ran, as the other live results have it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from scenario import Scenario

REPOSITORY = Path(__file__).resolve().parents[2]


def commit() -> str:
    """The commit that is checked out, marked if files differ from it; `unknown` outside a repository."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return f"{head}-dirty" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, Any]:
    """What ran it."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {"cpu": names[0] if names else "unknown", "cores": os.cpu_count(), "kernel": os.uname().release}


class Records:
    """Appends to the files of results, one per kind of experiment."""

    def __init__(self, folder: Path, command: str) -> None:
        self._folder = folder
        self._command = command
        self._machine = machine()
        self._commit = commit()
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, kind: str, round_: int, scenario: Scenario, result: dict[str, Any]) -> Path:
        """Writes one run's record; the file it went to."""
        record = {
            "kind": kind,
            "peer": scenario.policy,
            "round": round_,
            "at_s": int(time.time()),
            "machine": self._machine,
            "commit": self._commit,
            "command": self._command,
            "workload": scenario.described(),
            "result": result,
        }
        path = self._folder / f"{kind}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n")
        return path


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(REPOSITORY), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
