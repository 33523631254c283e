"""Personalized RewardBench (arXiv 2604.07343). In: its rows. Out: `Preference` records, without criteria by default.

``rubric_aspects`` and ``narrative`` say what the asker wanted: the chosen response was written to follow the rubric and
the rejected one to break it. A judge must not see them, so they are withheld, as the authors ask. With
``oracle_rubric`` the aspects become the criteria of the chosen side: the upper bound of a judge that is told them. The
narrative, and an aspect's reason and evidence, never are.

``profile`` holds what the asker posted before (objects with a ``text``), which a judge may be told: with ``told`` it
becomes the criteria of the chosen side, else it is left out; both are counted. The topic is the subset where the files
of a folder are named after the three of them, else ``category``, which is finer. Which side stands as A is drawn.
Source: the keys as github.com/Martin-qyma/Personalized-RewardBench lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, RecordError, query_of, texts
from crm.votes.fields import any_text, asked, identity, items, optional_text, require
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import turn

SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
Tell = Callable[[str, Sequence[str]], tuple[str, ...]]
"""How a profile becomes criteria: a question and posts in, at least one criterion out (`crm.criteria.profiles`)."""


def read(path: Path, reading: Intake, *, oracle_rubric: bool = False, told: Tell | None = None) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder; ids are unique in each file."""
    count = partial(_count, oracle_rubric, told)
    return rows_of(count=count, drop_identical=True)(partial(parse_row, oracle_rubric=oracle_rubric, told=told))(
        path, reading
    )


def _count(oracle_rubric: bool, told: Tell | None, row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    shown = sum(len(record.criteria_a or record.criteria_b) for record in records) if told and _posts(row) else 0
    return {
        "profile_texts_told": shown,
        "profile_texts_left_out": len(_profile(row)) - shown,
        "rows_without_profile": bool(told) and not _posts(row),
        "rows_with_rubric_told": oracle_rubric,
        "rows_with_rubric_withheld": not oracle_rubric and row.get("rubric_aspects") is not None,
    }


def parse_row(row: Row, at: At, *, oracle_rubric: bool, told: Tell | None = None) -> Preference:
    """One row as a record with the id ``personalized-<id>``. Raises `RecordError`."""
    require(row, ("id", "question", "chosen", "rejected"))
    _profile(row)
    prompt = asked(any_text(row["question"], "question"), "question")
    chosen, rejected = (turn("assistant", any_text(row[name], name)) for name in ("chosen", "rejected"))
    criteria: tuple[str, ...] = ()
    if oracle_rubric:
        criteria = _aspects(row.get("rubric_aspects"))
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


def _profile(row: Row) -> list[Any]:
    return [] if row.get("profile") is None else items(row["profile"], "profile")


def _posts(row: Row) -> list[str]:
    """The texts of the profile that are not blank."""
    found = []
    for number, entry in enumerate(_profile(row)):
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise RecordError(f"profile[{number}]", f"expected an object with the key text, got {entry!r:.80}")
        found.append(entry["text"])
    return [post for post in found if post.strip()]


def _aspects(value: Any) -> tuple[str, ...]:
    """The aspects of a list of ``{aspect, reason, evidence}``, at least one."""
    names = []
    for number, entry in enumerate(items(value, "rubric_aspects")):
        if not isinstance(entry, dict) or "aspect" not in entry:
            raise RecordError(f"rubric_aspects[{number}]", f"expected an object with the key aspect, got {entry!r:.80}")
        names.append(entry["aspect"])
    if not names:
        raise RecordError("rubric_aspects", "an empty list; the oracle needs at least one aspect")
    return texts(names, "rubric_aspects")
