"""Runs the experiments of "Cloud Control with Distributed Rate Limiting" with real TCP through `srtm limiter`.

    sudo python3 experiments/testbed/run.py drl-fig5 [--runs 10] [--policies ctb,fps] [--seconds 60] [--parallel 10]

Appends a record per run to experiments/results/live/*.jsonl. See experiments/testbed/README.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import multiprocessing
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import experiment
from libc import end_with_parent
from limiter import LimiterError
from limiter_record import RecordError
from network import why_impossible
from records import REPOSITORY, Records
from scenario import CENTRAL, DISTRIBUTED, Scenario
from targets import TARGETS, Target

PROGRAMS = ("target/release/srtm", "target/debug/srtm")
CHANGES = {
    "seconds": "seconds",
    "warmup": "warmup_s",
    "interval_ms": "interval_ms",
    "branching": "branching",
    "congestion": "congestion",
    "gossip": "gossip",
}
"""Flags that change a target's scenarios, and the field that each sets."""

# Experiments begin so far apart, lest they all set up at once.
BEGIN_APART_S = 0.3

Runner = Callable[[Scenario], dict[str, Any]]


def main() -> int:
    """Runs the targets; exit code 1 if a run failed, 2 if none can be."""
    flags = parse(sys.argv[1:])
    program = flags.srtm or program_built()
    if program is None or not program.is_file():
        return refuse("there is no srtm: build it (cargo build --release -p srtm) or say --srtm PATH")
    if reason := why_impossible():
        return refuse(reason)
    failed = 0
    for figure in flags.target:
        target = TARGETS[figure]
        try:
            planned = list(plan(target, flags))
        except ValueError as error:
            return refuse(str(error))
        parallel = min(flags.parallel or target.parallel, len(planned))
        took_s = sum(scenario.seconds for _, scenario in planned) / parallel
        print(f"{figure}: {len(planned)} runs of {target.kind}, {parallel} at once, {took_s:.0f} s", flush=True)
        records = Records(flags.results, command(figure, flags))
        runner = functools.partial(run_in_worker, program=program.resolve(), realtime=not flags.no_realtime)
        failed += run_all(target.kind, planned, parallel, runner, records)
    return 1 if failed else 0


def program_built() -> Path | None:
    """The program that cargo has built last."""
    built = (REPOSITORY / name for name in PROGRAMS)
    return max((path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime, default=None)


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs DRL's experiments with real TCP through srtm limiter.")
    parser.add_argument("target", nargs="+", choices=sorted(TARGETS), help="figure or table")
    parser.add_argument("--runs", type=int, help="runs of each scenario")
    parser.add_argument("--policies", help=f"some of {','.join((*CENTRAL, *DISTRIBUTED))}")
    parser.add_argument("--seconds", type=float, help="length of a run")
    parser.add_argument("--warmup", type=float, help="seconds that count for nothing")
    parser.add_argument("--interval-ms", type=float, help="estimate interval")
    parser.add_argument("--branching", type=int, help="others that a limiter tells per interval")
    parser.add_argument("--gossip", choices=("udp", "memory"), help="what carries gossip")
    parser.add_argument("--congestion", help="congestion control: reno, cubic")
    parser.add_argument("--parallel", type=int, help="runs at once")
    parser.add_argument("--no-realtime", action="store_true", help="leave the processes among the ordinary ones")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run")
    parser.add_argument("--srtm", type=Path, help="the program")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "experiments/results/live", help="folder")
    flags = parser.parse_args(words)
    for name in ("runs", "parallel", "branching", "seconds", "interval_ms"):
        value = getattr(flags, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be greater than 0")
    return flags


def command(figure: str, flags: argparse.Namespace) -> str:
    """The command line of one target, without paths."""
    words = ["experiments/testbed/run.py", figure]
    for name in ("runs", "policies", *CHANGES, "parallel"):
        if getattr(flags, name) is not None:
            words += [f"--{name.replace('_', '-')}", f"{getattr(flags, name)}"]
    if flags.no_realtime:
        words.append("--no-realtime")
    return shlex.join(words if flags.seed == 1 else [*words, "--seed", str(flags.seed)])


def plan(target: Target, flags: argparse.Namespace) -> Iterator[tuple[int, Scenario]]:
    """Every run: its round and its scenario. A round's policies run side by side and share the machine's moods."""
    policies = flags.policies.split(",") if flags.policies else target.policies
    changed = {field: value for flag, field in CHANGES.items() if (value := getattr(flags, flag)) is not None}
    for round_, policy in itertools.product(range(1, (flags.runs or target.runs) + 1), policies):
        for scenario in target.build(policy):
            yield round_, dataclasses.replace(scenario, seed=flags.seed + round_ - 1, **changed)


def run_all(kind: str, planned: list[tuple[int, Scenario]], parallel: int, runner: Runner, records: Records) -> int:
    """Runs everything that is planned, so many at once; how many failed."""
    failed = done = 0
    left = iter(planned)
    with ProcessPoolExecutor(parallel, multiprocessing.get_context("fork"), initializer=prepare_to_end) as pool:
        under_way: dict[Future[dict[str, Any]], tuple[int, Scenario]] = {}
        while True:
            for round_, scenario in itertools.islice(left, parallel - len(under_way)):
                under_way[pool.submit(runner, scenario)] = (round_, scenario)
                time.sleep(BEGIN_APART_S)
            if not under_way:
                return failed
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in ended:
                round_, scenario = under_way.pop(future)
                done += 1
                name = f"[{done}/{len(planned)}] {scenario.policy} {scenario.interval_ms:g} ms, run {round_}"
                try:
                    result = future.result()
                except (LimiterError, RecordError, OSError, ValueError) as error:
                    failed += 1
                    print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
                except Exception:
                    failed += 1
                    print(f"{name}: failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                else:
                    records.append(kind, round_, scenario, result)
                    print(f"{name}: {experiment.summary(scenario, result)}", flush=True)


def prepare_to_end() -> None:
    """Has a worker take its network apart whatever ends the command."""
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))


def run_in_worker(scenario: Scenario, program: Path, realtime: bool) -> dict[str, Any]:
    """Runs a scenario. A worker that was told to end takes its network apart, and does not wait for more to do."""
    try:
        return experiment.run(scenario, program, realtime=realtime)
    except SystemExit:
        os._exit(1)


def refuse(reason: str) -> int:
    """Says why nothing runs."""
    print(f"run.py: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
