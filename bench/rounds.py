"""Contests in rounds, in which contestants alternate in rotated order: a slower machine is slower for all of them."""

from __future__ import annotations

import gc
import json
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from crm.io.files import replace_file
from crm.io.installed import commit

RESULTS = Path(__file__).parent / "results"
Answer = Sequence[float]
"""What a contestant found out: logits, or a mean loss. Contestants of one contest have to agree."""
Check = Callable[[str, Answer, str, Answer], None]


class Stopwatch:
    """Sums up what runs inside ``with stopwatch``: process CPU seconds, or seconds between events of a GPU."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device.startswith("cuda")
        self.seconds = 0.0

    def start(self) -> Stopwatch:
        """Begin a timed part."""
        if self._on_gpu:
            torch.cuda.synchronize()
            event: Any = torch.cuda.Event
            self._events = [event(enable_timing=True) for _ in range(2)]
            self._events[0].record()
        else:
            self._begun = time.process_time()
        return self

    def stop(self, *_: object) -> None:
        """End it, once everything that was begun is done."""
        if self._on_gpu:
            self._events[1].record()
            torch.cuda.synchronize()
            self.seconds += self._events[0].elapsed_time(self._events[1]) / 1000.0
        else:
            self.seconds += time.process_time() - self._begun

    __enter__, __exit__ = start, stop


Contestant = Callable[[Stopwatch], Answer]


def contest(contestants: Mapping[str, Contestant], *, rounds: int, check: Check) -> dict[str, list[float]]:
    """Seconds of every counted round by contestant.

    ``check`` is called with every answer and the first one given. Raises what it raises: a contestant that answers
    otherwise did other work.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds}: give at least 1, and 5 for numbers to be quoted")
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    first: tuple[str, Answer] | None = None
    for turn in range(rounds + 1):
        names = list(seconds)
        at = turn % max(1, len(names))
        for name in names[at:] + names[:at]:
            gc.collect()
            stopwatch = Stopwatch("cpu")
            answer = contestants[name](stopwatch)
            first = first or (name, answer)
            check(*first, name, answer)
            if turn:
                seconds[name].append(stopwatch.seconds)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], *, peer: str, ours: str) -> dict[str, Any]:
    """``{"median": ..., "rounds": [...]}`` of peer time over our time, round by round: above 1 we are faster."""
    rounds = [theirs / own for theirs, own in zip(seconds[peer], seconds[ours], strict=True)]
    return {"median": round(statistics.median(rounds), 3), "rounds": [round(value, 3) for value in rounds]}


def within(tolerance: float) -> Check:
    """A check that all numbers of two answers differ by at most ``tolerance``."""

    def check(one: str, expected: Answer, other: str, found: Answer) -> None:
        assert len(expected) == len(found), f"{other} gave {len(found)} answers, {one} {len(expected)}"
        worst = max(abs(a - b) for a, b in zip(expected, found, strict=True))
        if not worst <= tolerance:
            raise ValueError(f"{other} and {one} differ by {worst:.2g}, allowed is {tolerance:.2g}: not the same work")

    return check


def save(path: Path, measured: Mapping[str, Any], table: str) -> None:
    """Write ``path`` and the table beside it."""
    replace_file(path, json.dumps(measured, indent=1) + "\n")
    replace_file(path.with_suffix(".md"), table)


def origin(seed: int) -> dict[str, Any]:
    """What to know to take the same numbers again."""
    return {"seeds": [seed], "versions": versions(), "commit": commit()}


def versions() -> dict[str, str]:
    """Name to version; ``absent`` for a package that is not installed."""
    found = {"python": platform.python_version(), "cpu": cpu_name()}
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    for name in ("torch", "transformers", "trl", "lightning"):
        found[name] = version(name) if find_spec(name) else "absent"
    return found


def about(measured: Mapping[str, Any]) -> str:
    """The last line of a table: versions, commit and seeds."""
    found = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    return f"{found}; commit {measured['commit']}; seed {', '.join(map(str, measured['seeds']))}."


def cpu_name() -> str:
    """The processor's model, as the system names it."""
    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*: (.+)", info.read_text(encoding="utf-8")) if info.is_file() else None
    return named[1].strip() if named else platform.processor() or platform.machine()
