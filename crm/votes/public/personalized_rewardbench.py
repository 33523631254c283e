"""Personalized RewardBench (arXiv 2604.07343), without criteria by default.

``rubric_aspects`` and ``narrative`` say what the asker wanted: the chosen response was written to follow the rubric and
the rejected one to break it. A judge must not see them, so they are withheld, as the authors ask. With
``oracle_rubric`` the aspects become the criteria of the chosen side: the upper bound of a judge.

``profile`` holds what the asker posted before (objects with a ``text``), which a judge may see: with ``told`` it
becomes the criteria of the chosen side, else it is left out; both are counted. The topic is the subset where the files
of a folder are named after the three of them, else ``category``, which is finer. Which side is A is drawn.
Keys are as github.com/Martin-qyma/Personalized-RewardBench lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, RecordError, query_of, short, texts
from crm.votes.fields import any_text, asked, identity, items, optional_text, require
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of

SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
Tell = Callable[[str, Sequence[str]], tuple[str, ...]]
"""How a profile becomes criteria: a question and posts in, at least one criterion out (`crm.criteria.profiles`)."""


def read(path: Path, reading: Intake, *, oracle_rubric: bool = False, told: Tell | None = None) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder, with the id ``personalized-<id>``."""

    def count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
        posts = _posts(row) if told else []
        shown = sum(len(record.criteria_a or record.criteria_b) for record in records) if posts else 0
        return {
            "profile_texts_told": shown,
            "profile_texts_left_out": len(_entries(row, "profile")) - shown,
            "rows_without_profile": bool(told) and not posts,
            "rows_with_rubric_told": oracle_rubric,
            "rows_with_rubric_withheld": not oracle_rubric and row.get("rubric_aspects") is not None,
        }

    @rows_of(count=count, drop_identical=True)
    def records(row: Row, at: At) -> Preference:
        require(row, ("id", "question", "chosen", "rejected"))
        _entries(row, "profile")
        prompt = asked(any_text(row["question"], "question"), "question")
        chosen, rejected = (any_text(row[name], name) for name in ("chosen", "rejected"))
        criteria: tuple[str, ...] = ()
        if oracle_rubric:
            criteria = texts(_listed(row, "rubric_aspects", "aspect"), "rubric_aspects")
            if not criteria:
                raise RecordError("rubric_aspects", "an empty list; the oracle needs at least one aspect")
        elif told:
            criteria = told(query_of(prompt), _posts(row))
        subset = next((name for name in SUBSETS if name in str(at.file.relative_to(at.source))), None)
        return chosen_pair(
            f"personalized-{identity(row['id'], 'id', at.repeats)}",
            prompt,
            chosen,
            rejected,
            source="personalized_rewardbench/construction",
            topic=subset or optional_text(row.get("category"), "category"),
            criteria=criteria,
        )

    return records(path, reading)


def _posts(row: Row) -> list[str]:
    """The texts of the profile that are not blank."""
    return [post for post in _listed(row, "profile", "text") if post.strip()]


def _entries(row: Row, field: str) -> list[Any]:
    return [] if row.get(field) is None else items(row[field], field)


def _listed(row: Row, field: str, key: str) -> list[Any]:
    """What a list of objects has under ``key``."""
    found = []
    for number, entry in enumerate(_entries(row, field)):
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
            raise RecordError(f"{field}[{number}]", f"expected an object with the key {key}, got {short(entry)}")
        found.append(entry[key])
    return found
