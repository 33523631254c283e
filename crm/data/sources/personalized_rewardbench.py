"""Personalized RewardBench (arXiv 2604.07343). In: its rows. Out: `Preference` records, without criteria by default.

``rubric_aspects`` and ``narrative`` say what the asker wanted: the chosen response was written to follow the rubric and
the rejected one to break it. A judge must not see them, so they are withheld, as the authors ask. With
``oracle_rubric`` the aspects become the criteria of the chosen side: the upper bound of a judge that is told them. The
narrative, and an aspect's reason and evidence, never are.

``profile`` (the asker's earlier questions) is no list of criteria: its texts are left out and counted. The topic is
``category``. Which side stands as A is drawn. Source: the keys as github.com/Martin-qyma/Personalized-RewardBench
lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from crm.data.reading import Reading
from crm.data.sources.pairs import asked, chosen_pair, identity, items, optional_text, records_and_rows, text
from crm.data.sources.published import require
from crm.data.sources.sampling import turn
from crm.schema import Preference, RecordError, texts


def read(path: Path, reading: Reading, *, oracle_rubric: bool = False) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder; ids are unique in each file."""
    for record, row in records_and_rows(path, reading, partial(parse_row, oracle_rubric=oracle_rubric)):
        reading.counts["profile_texts_left_out"] += len(_profile(row))
        reading.counts["rows_with_rubric_withheld"] += not oracle_rubric and row.get("rubric_aspects") is not None
        yield record


def parse_row(row: dict[str, Any], _line: int, *, oracle_rubric: bool) -> Preference:
    """One row as a record with the id ``personalized-<id>``. Raises `RecordError`."""
    require(row, ("id", "question", "chosen", "rejected"))
    _profile(row)
    prompt = asked(text(row["question"], "question"), "question")
    chosen, rejected = (turn("assistant", text(row[name], name)) for name in ("chosen", "rejected"))
    return chosen_pair(
        f"personalized-{identity(row['id'], 'id')}",
        prompt,
        chosen,
        rejected,
        source="personalized_rewardbench/construction",
        topic=optional_text(row.get("category"), "category"),
        criteria=_aspects(row.get("rubric_aspects")) if oracle_rubric else (),
    )


def _profile(row: dict[str, Any]) -> list[Any]:
    return [] if row.get("profile") is None else items(row["profile"], "profile")


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
