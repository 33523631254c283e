"""PandaLM's test. In: ``pandalm/testset-v1.json``, three annotators' votes on each pair. Out: `Preference` records.

A vote is 1, 2, or 0 for neither. Two of three decide; where all three differ it is a tie, and counted. The topic is
the application that the instruction was made for, the authors are the models. A response that JSON spells as
``true`` or ``false`` was the word: it is read as that word, and counted. Records have no criteria.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, RecordError
from crm.votes.fields import choice, response, text, whole
from crm.votes.public.pairs import text as any_text
from crm.votes.public.published import Conversation
from crm.votes.sampling import turn

ANNOTATORS = ("annotator1", "annotator2", "annotator3")
RESPONSES = ("response1", "response2")
VOTES = {0: "tie", 1: "a", 2: "b"}


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """One record a row; ids are ``pandalm-<idx>``. Responses stand as published."""
    for record, counts in reading.array(folder / "testset-v1.json", _parse, key=lambda parsed: parsed[0].id):
        reading.counts.update(counts)
        yield record


def _parse(row: dict[str, Any], _line: int) -> tuple[Preference, dict[str, int]]:
    """The record, and what is to be counted about it."""
    votes = Counter(choice(row, name, VOTES) for name in ANNOTATORS)
    record = _preference(row, votes)
    return record, {
        "unanimous": len(votes) == 1,
        "three_way_splits": len(votes) == len(ANNOTATORS),
        "ties": record.winner == "tie",
        "responses_given_as_true_or_false": sum(isinstance(row[name], bool) for name in RESPONSES),
    }


def _preference(row: dict[str, Any], votes: Counter[str]) -> Preference:
    authors = text(row, "cmp_key").split("_")
    if len(authors) != len(RESPONSES):
        raise RecordError("cmp_key", "expected the names of two models with one _ between them")
    ((side, most),) = votes.most_common(1)
    return Preference(
        id=f"pandalm-{whole(row, 'idx')}",
        prompt=_prompt(row),
        response_a=_response(row, RESPONSES[0]),
        response_b=_response(row, RESPONSES[1]),
        winner=side if most > 1 else "tie",
        topic=text(row, "motivation_app"),
        author_a=authors[0],
        author_b=authors[1],
        source="pandalm/human",
    )


def _prompt(row: dict[str, Any]) -> Conversation:
    """Instruction and input, either of which may be blank."""
    parts = [part for name in ("instruction", "input") if (part := any_text(row.get(name), name)).strip()]
    if not parts:
        raise RecordError("instruction", "blank, and so is input; expected text in one of them")
    return turn("user", "\n\n".join(parts))


def _response(row: dict[str, Any], name: str) -> Conversation:
    value = row.get(name)
    return turn("assistant", str(value)) if isinstance(value, bool) else response(row, name)
