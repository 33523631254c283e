"""Memory, descriptors and waiting over time. In: processes, seconds. Out: points, slopes, percentiles a minute."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil

from bench.soak.stage import Limit

EVERY_S = 5.0
WARM_UP = 1 / 3
"""Share of a stage after which memory counts: caches fill first."""
ENOUGH_S = 300.0
"""Seconds behind the warm-up from which on a slope says something."""
MOST_GROWTH = 1.0
"""Percent in ten minutes."""
Point = tuple[float, float, int]


@dataclass
class Watch:
    """Looks at one process every `EVERY_S` seconds, however often it is asked to; ``started`` is a monotonic clock."""

    started: float
    points: list[Point] = field(default_factory=list)

    def look(self, process: psutil.Process, *, now: bool = False) -> None:
        """Add a point where one is due; a process that is gone has none."""
        passed = time.monotonic() - self.started
        if not now and self.points and passed - self.points[-1][0] < EVERY_S:
            return
        try:
            self.points.append((round(passed, 2), round(process.memory_info().rss / 1e6, 2), process.num_fds()))
        except psutil.Error:
            return

    def limit(self, name: str) -> Limit:
        """Growth of memory behind the warm-up at most `MOST_GROWTH`; not judged where that was too short."""
        ends = self.points[-1][0] if self.points else 0.0
        kept = [point for point in self.points if point[0] >= WARM_UP * ends]
        measured = kept[-1][0] - kept[0][0] if kept else 0.0
        if measured < ENOUGH_S:
            why = f"{measured:.0f} s behind the warm-up, {ENOUGH_S:.0f} are needed"
            return Limit(f"{name}: memory, % in 10 min", None, at_most=MOST_GROWTH, why=why)
        return Limit(f"{name}: memory, % in 10 min", round(slope(kept), 3), at_most=MOST_GROWTH)


def slope(points: Sequence[Point]) -> float:
    """Percent of the median memory in ten minutes: the line of least squares through at least two points."""
    seconds, megabytes = np.array([point[0] for point in points]), np.array([point[1] for point in points])
    rise: float = np.polyfit(seconds - seconds.mean(), megabytes, 1)[0]
    return float(600 * 100 * rise / np.median(megabytes))


def by_minute(waited: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """Percentiles of seconds waited, by the minute in which the waiting ended: (when, how long) in seconds each."""
    minutes: dict[int, list[float]] = {}
    for when, seconds in waited:
        minutes.setdefault(int(when // 60), []).append(seconds)
    return [{"minute": minute, "n": len(own), **percentiles(own)} for minute, own in sorted(minutes.items())]


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99 of at least one."""
    return {f"p{share}": round(float(np.percentile(seconds, share)), 4) for share in (50, 95, 99)}
