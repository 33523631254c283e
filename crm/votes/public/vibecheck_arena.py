"""Arena votes. In: ``vibecheck_arena/*.csv`` (``.gz`` too). Out: `Preference` records without criteria.

A question, an answer of Llama-3-70B and one of some other LLM, and the one that a person voted for. The columns are
named after the two. The topic is the category as published. One file is a part of another: a pair that was read
before is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference, prompt_key
from crm.votes.fields import choice, response, text
from crm.votes.sampling import turn

FIRST, SECOND = "llama-3-70b-instruct", "not_llama"


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Records of all files; ids are ``vibecheck_arena-<digest of question and answers>``. Llama stands as A."""
    seen: set[str] = set()
    for file in data_files(folder):
        for row in reading.rows(file, _parse):
            if row.id in seen:
                reading.counts["dropped_repeated_pairs"] += 1
            else:
                seen.add(row.id)
                yield row


def _parse(row: dict[str, Any], _line: int) -> Preference:
    prompt = turn("user", text(row, "question"))
    first, second = response(row, FIRST), response(row, SECOND)
    return Preference(
        id=f"vibecheck_arena-{prompt_key(prompt + first + second)}",
        prompt=prompt,
        response_a=first,
        response_b=second,
        winner=choice(row, "preference", {FIRST: "a", SECOND: "b"}),
        topic=text(row, "category_labels"),
        author_a=FIRST,
        source="vibecheck_arena/human",
    )
