"""Reads live measurements and finds what a picture shows of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path

from results import parse_lines

KEYS = {"kind", "peer", "round", "at_s", "command", "workload", "result"}

# What a record's place on an axis is; a run without a rate has none on an axis of rates.
Key = Callable[[dict], float | None]
Figure = Callable[[dict], float]


def read_records(path: Path) -> list[dict]:
    """The records of a file, none if there is no file; a line that is no record is named."""
    if not path.exists():
        return []
    return parse_lines(path, path.read_text(encoding="utf-8"), KEYS)


def last_command(records: list[dict], kind: str) -> list[dict]:
    """The records of the last command of this kind: a command's records stand together, and rounds only rise."""
    last: list[dict] = []
    for record in (record for record in records if record["kind"] == kind):
        begins_anew = last and (
            record["command"] != last[-1]["command"]
            or record["round"] < last[-1]["round"]
            or point_of(record) in {point_of(earlier) for earlier in last}
        )
        if begins_anew:
            last = []
        last.append(record)
    return last


def point_of(record: dict) -> tuple:
    """What two records of one command never have in common."""
    place = json.dumps(record["workload"], sort_keys=True)
    return (record["peer"], record["round"], place, record["result"].get("situation"))


def curves(records: list[dict], key: Key, figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """Medians over the rounds, by row and sorted by the key; records without a key are left out."""
    groups: dict[str, dict[float, list[float]]] = {}
    for record in records:
        x = key(record)
        if x is not None:
            groups.setdefault(record["peer"], {}).setdefault(x, []).append(figure(record["result"]))
    return {row: [(x, statistics.median(points[x])) for x in sorted(points)] for row, points in groups.items()}


def distribution(records: list[dict]) -> list[tuple[float, int]]:
    """The rows of the delays of all records together."""
    rows: dict[float, int] = {}
    for record in records:
        for row in record["result"]["delays"]["rows"]:
            rows[row["up_to_us"]] = rows.get(row["up_to_us"], 0) + row["messages"]
    return sorted(rows.items())
