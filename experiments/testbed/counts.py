"""What came to the sinks of one experiment."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class BulkCounts:
    """One bulk flow, by what came to the sink."""

    part: int
    bytes_in_window: int = 0
    connected_s: float | None = None


@dataclass(frozen=True)
class Download:
    """One web object that came whole; seconds from the SYN to the last byte."""

    part: int
    size_bytes: int
    seconds: float


@dataclass
class Counts:
    """What came to the sinks, as payload."""

    bin_s: float
    parts: list[list[int]]
    flows: list[BulkCounts] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    downloads_begun: int = 0
    downloads_failed: int = 0
    downloads_refused: int = 0
    reconnects: int = 0
    busy_s: float = 0.0
