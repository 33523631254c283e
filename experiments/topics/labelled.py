"""Public sets whose texts carry tags, to measure topics on.

A text that occurs in several rows counts once, with the tags of its first row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.io.rows import Intake
from crm.schema import RecordError

RMB = Path("rmb", "Pairwise_set", "Helpfulness")
JUST_EVAL = Path("bank_justeval", "tags_list.json.gz")


@dataclass(frozen=True)
class Labelled:
    """A set and one kind of its tags: ``texts`` (n), ``tags`` (n) main one first; what was read and refused."""

    name: str
    texts: list[str]
    tags: list[list[str]]
    counts: dict[str, int]


def load_labelled(root: str | Path) -> tuple[list[Labelled], list[str]]:
    """Every set below ``root``, and a line for each that is absent."""
    root = Path(root)
    found: list[Labelled] = []
    absent: list[str] = []
    for name, place, loader in (("just-eval", JUST_EVAL, just_eval), ("rmb", RMB, rmb)):
        if (root / place).exists():
            found += loader(root)
        else:
            absent.append(f"{name}: {root / place} is not there; skipped")
    return found, absent


def just_eval(root: Path) -> list[Labelled]:
    """just-eval's 800 queries by topic and by type of task."""
    reading = Intake(strict=False)
    rows = list(reading.rows(root / JUST_EVAL, _tagged_query))
    return [
        _labelled(f"just-eval {field}", [(text, tags[field]) for text, tags in rows], reading)
        for field in ("topics", "task_types")
    ]


def rmb(root: Path) -> list[Labelled]:
    """First user turns of RMB's helpfulness pairs by task (the folder) and by scenario (the file)."""
    reading = Intake(strict=False)
    rows = list(_rmb_rows(root, reading))
    tasks = [(text, [task]) for text, task, _ in rows]
    scenarios = [(text, [f"{task}/{scenario}"]) for text, task, scenario in rows]
    return [_labelled("rmb tasks", tasks, reading), _labelled("rmb scenarios", scenarios, reading)]


def _rmb_rows(root: Path, reading: Intake) -> Iterator[tuple[str, str, str]]:
    for path in sorted((root / RMB).glob("*/*.json.gz")):
        for text, category in reading.rows(path, _first_turn):
            task, scenario = path.parent.name, path.name.removesuffix(".json.gz")
            if category.split("/")[-2:] != [task, scenario]:
                reading.counts["category_is_not_the_folder"] += 1
            yield text, task, scenario


def _labelled(name: str, rows: list[tuple[str, list[str]]], reading: Intake) -> Labelled:
    first: dict[str, list[str]] = {}
    for text, tags in rows:
        first.setdefault(text, tags)
    counts = {**reading.all_counts(), "repeated": len(rows) - len(first)}
    return Labelled(name, list(first), list(first.values()), counts)


def _tagged_query(row: dict[str, Any], _line: int) -> tuple[str, dict[str, list[str]]]:
    return _text(row, "instruction"), {field: _tags(row, field) for field in ("topics", "task_types")}


def _first_turn(row: dict[str, Any], _line: int) -> tuple[str, str]:
    turns = row.get("conversation_input")
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], dict):
        raise RecordError("conversation_input", "expected a list of messages; fetch the file again")
    return _text(turns[0], "content"), _text(row, "category_path")


def _text(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        raise RecordError(field, "missing or not text")
    return value


def _tags(row: dict[str, Any], field: str) -> list[str]:
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise RecordError(field, "expected a list of tags")
    return value
