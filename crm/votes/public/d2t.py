"""Data to text. In: ``d2t_sfres_sfhot/{sfres,sfhot}.json``, ratings of sentences for a dialogue act. Out: pairs.

A dialogue act such as ``inform(name=x,area=y)`` was put into words by two systems, which are not named. Rows of one
file with the same act make pairs. Raters were asked three things (Novikova et al., 2017): is all the information there,
could a native speaker have said it, how good is the language. The third is published as ``overall`` and is the aspect
``quality`` here. Pairs of equal texts, whose ratings differ by chance alone, are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crm.io.intake import Intake
from crm.schema import Preference
from crm.votes.fields import inner, number, text, whole
from crm.votes.public.rated import Rated, flips, pairs_within, rated_pair
from crm.votes.sampling import turn

INSTRUCTION = "Say this in one sentence to a customer who is looking for a"
PLACES = {"sfres": "restaurant", "sfhot": "hotel"}
FIELDS = {"informativeness": "informativeness", "naturalness": "naturalness", "quality": "overall"}
LOW, HIGH = 1, 6
WORDINGS: dict[str, tuple[str, ...]] = {
    "informativeness": (
        "Every piece of data must be said",
        "I need all the details that are known, not only some",
        "Leave nothing out of the sentence",
        "Prefer the sentence that tells me more of what was asked for",
        "If the name, the area or the price is missing, it is useless to me",
        "Completeness counts most when I look for a place",
        "It should carry the whole content of the message",
    ),
    "naturalness": (
        "It should sound like a native speaker at an information desk",
        "I do not want to be talked to like a database",
        "Prefer the sentence that somebody would really say out loud",
        "Word order and tone should feel effortless",
        "Talk to me like a helpful local",
        "Nothing robotic, please",
        "Choose whichever could pass for a human speaker",
    ),
    "quality": (
        "Flawless language comes first",
        "Mind the grammar: no missing articles, no doubled words",
        "I want a well-made sentence that reads without a stumble",
        "Prefer careful wording and correct syntax",
        "A sentence with mistakes in it is the worse one",
        "It should be good enough to print as it is",
        "Pick the better written sentence",
    ),
}


class _Sentence(NamedTuple):
    number: int
    act: str
    rated: Rated


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of one act; ids are ``d2t-<file>-<doc_id>-<doc_id>``, the topic is the kind of place."""
    for file, place in PLACES.items():
        sentences = reading.array(folder / f"{file}.json", _parse, key=lambda row: row.number)
        for first, second in pairs_within(sentences, lambda row: row.act):
            prompt = turn(
                "user", f"Say this in one sentence to a customer who is looking for a {place}:\n\n{first.act}"
            )
            name = f"d2t-{file}-{first.number}-{second.number}"
            row = rated_pair(name, prompt, first.rated, second.rated, WORDINGS, source="d2t/human", topic=f"{place}s")
            if row.response_a != row.response_b:
                yield row
            else:
                reading.counts["dropped_identical_responses"] += 1
                reading.counts["dropped_identical_responses_that_flip"] += flips(row)


def _parse(row: dict[str, Any], _line: int) -> _Sentence:
    given = inner(row, "scores")
    scores = {aspect: number(given, f"scores.{field}", LOW, HIGH) for aspect, field in FIELDS.items()}
    rated = Rated(text(row, "system_output"), None, scores)
    return _Sentence(whole(row, "doc_id"), text(row, "source").strip(), rated)
