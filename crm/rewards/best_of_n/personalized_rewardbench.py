"""Personalized RewardBench's own files. In: its samples. Out: `Candidates`; and what its evaluation script reads.

Its ``BoN/sample.py`` writes ``<subset>_samples.jsonl`` (``id, query, profile, sample_idx, aspects,
generated_response``), ``BoN/score.py`` writes the same rows with a ``score`` and, for each k, the best of the *first* k
of a query in the order of the file (``id, query, output, aspects, score``), which ``BoN/evaluate.py`` has a language
model rate. The files here are those of ``score.py``, by a judge of this project: what they are rated like stands beside
its published numbers. One thing differs: a response that could not be read has the score null and is not picked.

A judge may be told nothing of the user, the posts of the profile, or the aspects of the rubric, which the benchmark
withholds: the upper bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crm.io.files import replace_file
from crm.io.intake import Intake
from crm.rewards.best_of_n.candidates import Candidates
from crm.rewards.best_of_n.estimator import Floats, first_k
from crm.schema import RecordError, short
from crm.votes.fields import any_text
from crm.votes.sampling import turn

_POST = re.compile(r"^Post \d+ \(Category: [^\n]*\):\n", re.MULTILINE)
Tell = Callable[[str, Sequence[str]], tuple[str, ...]]
"""How posts become criteria: a question and posts in, at least one criterion out (`crm.criteria.profiles`)."""


@dataclass(frozen=True)
class Sample:
    """A row of ``<subset>_samples.jsonl``, checked; ``row`` is all of it."""

    id: str
    query: str
    response: str
    row: dict[str, Any]


def read_samples(path: Path) -> list[Sample]:
    """Raises ``ValueError`` with ``file:line: field: why`` for a bad row."""
    return list(Intake(strict=True).lines(path, _parse, key=lambda _sample: None))


def candidates_of(samples: Sequence[Sample], told: str, tell: Tell) -> list[Candidates]:
    """One of each id, in the order of the file; ``told`` is ``nothing``, ``profile`` or ``aspects``."""
    found = []
    for own in by_id(samples).values():
        first = own[0]
        criteria: tuple[str, ...] = ()
        if told == "profile":
            criteria = tell(first.query, posts(any_text(first.row.get("profile"), "profile")))
        elif told == "aspects":
            criteria = (any_text(first.row.get("aspects"), "aspects"),)
        found.append(Candidates(turn("user", first.query), tuple(sample.response for sample in own), criteria))
    return found


def by_id(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Samples of each id, in the order of the file."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.id, []).append(sample)
    return found


def posts(profile: str) -> list[str]:
    """The posts of a profile written as ``Post 1 (Category: ...):`` and the text below."""
    return [post.strip() for post in _POST.split(profile) if post.strip()]


def write_scored(folder: Path, name: str, samples: Sequence[Sample], scores: Floats, ks: Sequence[int]) -> None:
    """``<name>_scored.jsonl`` and a ``<name>_k<k>.jsonl`` for each k, of ``scores`` (Q, n) in the order of `by_id`.

    As in ``score.py`` a query with fewer than k responses gives the best of those it has; one without a score is in no
    file of a k.
    """
    scored: list[dict[str, Any]] = []
    best: dict[int, list[dict[str, Any]]] = {k: [] for k in ks}
    for row, own in zip(scores, by_id(samples).values(), strict=True):
        values = [None if np.isnan(value) else value for value in row[: len(own)].tolist()]
        scored += [sample.row | {"score": value} for sample, value in zip(own, values, strict=True)]
        read = len(own) - values.count(None)
        for k in ks if read else ():
            chosen = int(np.argmax(first_k(row[None], (min(k, read),))[0, 0]))
            best[k].append(_chosen(own[chosen], values[chosen]))
    for ending, rows in {"scored": scored, **{f"k{k}": rows for k, rows in best.items()}}.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        replace_file(folder / f"{name}_{ending}.jsonl", lines)


def _chosen(sample: Sample, score: float | None) -> dict[str, Any]:
    given = sample.row
    return {
        "id": given["id"],
        "query": sample.query,
        "output": sample.response,
        "aspects": given.get("aspects", ""),
        "score": score,
    }


def _parse(row: dict[str, Any], _line: int) -> Sample:
    if isinstance(row.get("id"), bool) or not isinstance(row.get("id"), (str, int)):
        raise RecordError("id", f"expected text or a whole number, got {short(row.get('id'))}")
    query, response = (any_text(row.get(name), name) for name in ("query", "generated_response"))
    return Sample(str(row["id"]), query, response, row)
