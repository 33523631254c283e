"""Eight personas. In: ``personas8/user<n>_test.json.gz`` and ``user_prompts.jsonl``. Out: `Preference` records.

An LLM told to be a persona chose between two responses to one prompt, 1,000 pairs a persona. A persona is a text that
speaks to an assistant ("You are ... Your tone ..."). Its sentences, turned into what a user asks of an assistant, are
the criteria of the chosen side; the other side was nobody's wish and has none. The criteria topic is the user's name,
so that users can be held out whole. Which side stands as A is drawn; pairs of equal texts are dropped and counted.

Rows read are the eight persona texts and the pairs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import MAX_CRITERIA, Preference, RecordError
from crm.votes.fields import choice, response, text
from crm.votes.public.pairs import chosen_pair
from crm.votes.sampling import turn

USERS = tuple(f"user{number}" for number in range(1, 9))
_OPENINGS = (
    (re.compile(r"\AYou are\b"), "The assistant should be"),
    (re.compile(r"\AYou\b"), "The assistant should"),
    (re.compile(r"\AYour\b"), "The assistant's"),
    (re.compile(r"\byour\b"), "their"),
)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """One record a pair; ids are ``personas8-<user>-<item of the file>``."""
    personas = dict(reading.lines(folder / "user_prompts.jsonl", _parse_persona, key=lambda item: item[0]))
    for user in USERS:
        parse = partial(_parse, user=user, criteria=personas.get(user))
        for row in reading.array(folder / f"{user}_test.json.gz", parse):
            if row.response_a == row.response_b:
                reading.counts["dropped_identical_responses"] += 1
            else:
                yield row


def as_criteria(persona: str) -> tuple[str, ...]:
    """The sentences of a persona, as a user would ask for them."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+", persona.strip()) if sentence]
    for pattern, ours in _OPENINGS:
        sentences = [pattern.sub(ours, sentence) for sentence in sentences]
    return tuple(sentence.removesuffix(".") for sentence in sentences if sentence.strip("."))


def _parse_persona(row: dict[str, Any], _line: int) -> tuple[str, tuple[str, ...]]:
    criteria = as_criteria(text(row, "prompt"))
    if not 0 < len(criteria) <= MAX_CRITERIA:
        raise RecordError("prompt", f"{len(criteria)} sentences; expected 1 to {MAX_CRITERIA}")
    return choice(row, "user", {user: user for user in USERS}), criteria


def _parse(row: dict[str, Any], number: int, *, user: str, criteria: tuple[str, ...] | None) -> Preference:
    if criteria is None:
        raise RecordError("row", f"user_prompts.jsonl has no row of {user} that can be read")
    prompt, name = turn("user", text(row, "prompt")), f"personas8-{user}-{number}"
    chosen, rejected = response(row, "chosen"), response(row, "rejected")
    record = chosen_pair(name, prompt, chosen, rejected, source="personas8/llm", criteria=criteria)
    return replace(
        record,
        criteria_topics_a=tuple(user for _ in record.criteria_a),
        criteria_topics_b=tuple(user for _ in record.criteria_b),
    )
