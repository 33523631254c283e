"""What a stage of the soak is given, and what it gives back: plain data. In: a `Task`. Out: a `Found`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXAMPLES = 20
"""Failures that are kept in words; all are counted."""
Tell = Callable[[float, str], None]
"""Called with the share that is done, from 0 to 1, and what has been tried so far."""


@dataclass(frozen=True)
class Task:
    """``seconds`` is the most that a stage may take; ``scale`` multiplies its numbers, 1 for 75 minutes in all."""

    seconds: float
    scale: float
    seed: int
    folder: Path
    tell: Tell = lambda _share, _tried: None
    started: float = field(default_factory=time.monotonic)

    def count(self, whole: int) -> int:
        """So many of ``whole``, at least one."""
        return max(1, round(whole * self.scale))

    @property
    def passed(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        return self.passed >= self.seconds


@dataclass(frozen=True)
class Limit:
    """What was found has to lie in a range; ``None`` is not judged, and ``why`` says why."""

    name: str
    found: float | None
    at_least: float | None = None
    at_most: float | None = None
    why: str = ""

    @property
    def held(self) -> bool:
        """Whether it does, or is not judged."""
        if self.found is None:
            return True
        low, high = self.at_least, self.at_most
        return (low is None or self.found >= low) and (high is None or self.found <= high)

    def as_row(self) -> dict[str, Any]:
        """As JSON."""
        allowed = {"at_least": self.at_least, "at_most": self.at_most}
        told = {name: value for name, value in allowed.items() if value is not None}
        return {"found": self.found, **told, "held": self.held, **({"why": self.why} if self.why else {})}


@dataclass
class Found:
    """What a stage tried, what failed, what it measured.

    ``watched`` holds (seconds, MB, descriptors) of each process; ``latency`` a row a minute.
    """

    tried: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    watched: dict[str, list[tuple[float, float, int]]] = field(default_factory=dict)
    latency: list[dict[str, float]] = field(default_factory=list)

    def fail(self, kind: str, example: str = "") -> None:
        """Count a failure, and keep some in words."""
        self.failures[kind] += 1
        if example and len(self.examples) < EXAMPLES:
            self.examples.append(f"{kind}: {example:.300}")

    @property
    def held(self) -> bool:
        """No failure, and every limit held."""
        return not self.failures.total() and all(limit.held for limit in self.limits)

    def as_row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "held": self.held,
            "tried": dict(self.tried),
            "failures": dict(self.failures),
            "examples": self.examples,
            "limits": {limit.name: limit.as_row() for limit in self.limits},
            "measured": self.measured,
            "latency": self.latency,
            "watched": self.watched,
        }
