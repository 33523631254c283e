"""SummEval: experts' mean ratings of 16 systems' summaries of 100 news articles.

A pair is two summaries of one article. An aspect speaks for the side rated higher on it by more than `MIN_GAP` points;
a pair that no aspect decides is dropped and counted. Where aspects disagree the pair **flips**: its record holds one
aspect per side, and each direction asks for one of the two. Elsewhere the criteria speak for one side only (all
deciding aspects in training, one in suite ``D``), so that the reverse direction is not defined.

``winner`` is the side that the aspects speak for; in a flip pair it is the side with the higher mean over all four
aspects, and a seeded coin where those are equal.

Split by document: 30 in 100 held out (suites ``D``: pairs that do not flip, ``F``: flip pairs), 10 in 100 validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from crm.data.fields import PublicRow, Text
from crm.data.public.pairs import aspects_of
from crm.data.splits import Splits
from crm.io.draws import fraction, hold_out, turn
from crm.io.rows import Intake
from crm.io.words import first_words
from crm.schema import Message, Preference, one_of
from experiments.sources.rated import EQUAL, Rated, flips, pairs_within, rated_pair, wordings_of

SOURCE = "summeval/human"
Score = Annotated[float, Field(ge=1, le=5)]
MIN_GAP = 0.5
"""Of ratings in [1, 5], means of three experts."""
SHARES = (0.3, 0.1)
"""Of the documents: held out, and for validation."""
INSTRUCTION = "Summarise this news article in a few sentences."
WORDINGS = wordings_of("summeval")
Aspect = Annotated[str, one_of(*WORDINGS)]


class Rating(PublicRow):
    """One system's summary of one document; ``scores`` are mean ratings in [1, 5], by aspect."""

    document: Text = Field(alias="doc_id")
    system: Text
    article: Text = Field(alias="source")
    summary: Text
    scores: Annotated[dict[Aspect, Score], Field(min_length=4)]


def load(folder: Path, reading: Intake, *, seed: int, max_words: int, **sizes: int) -> Splits:
    """The article in the prompt is cut to ``max_words`` (0: whole); sizes are drawn in turns over flip or not,
    aspects and documents."""
    ratings = read_ratings(folder, reading)
    held_out, validating = hold_out((rating.document for rating in ratings), SHARES, seed)
    counts = reading.counts
    counts.update(pairs=0, dropped_no_aspect_decides=0)
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": [], "F": []}
    for first, second in _pairs(ratings):
        counts["pairs"] += 1
        held = first.document in held_out
        row = _preference(first, second, max_words, seed, one_aspect=held)
        if row is None:
            counts["dropped_no_aspect_decides"] += 1
            continue
        part = "validation" if first.document in validating else "train"
        parts[part if not held else "F" if flips(row) else "D"].append(row)
    levels = (lambda row: "flip" if flips(row) else "agree", aspects_of, lambda row: row.id.split("-")[1])
    splits = Splits.of(parts, reading).at_most(*levels, seed=seed, **sizes)
    splits.counts["train_flips"] = sum(map(flips, splits.train))
    return splits


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of summaries of one article, whole, with every aspect on which they differ (`rated_pair`)."""
    for first, second in _pairs(read_ratings(folder, reading)):
        a, b = (Rated(side.summary, side.system, side.scores) for side in (first, second))
        yield rated_pair(_name(first, second), prompt_of(first, 0), a, b, WORDINGS, source=SOURCE, topic="News")


def read_ratings(folder: Path, reading: Intake) -> list[Rating]:
    """All summaries with their ratings."""
    path = folder / "ratings.jsonl.gz"
    return list(reading.rows(path, lambda row, _: Rating.model_validate(row), lambda row: (row.document, row.system)))


def _pairs(ratings: Iterable[Rating]) -> Iterator[tuple[Rating, Rating]]:
    return pairs_within(sorted(ratings, key=lambda rating: rating.system), lambda rating: rating.document)


def _name(first: Rating, second: Rating) -> str:
    return f"summeval-{first.document.rsplit('-', 1)[-1]}-{first.system}-{second.system}"


def prompt_of(rating: Rating, max_words: int) -> tuple[Message, ...]:
    """The request, with the article cut to ``max_words`` (0: whole)."""
    return turn("user", f"{INSTRUCTION}\n\n{first_words(rating.article, max_words)}")


def _preference(first: Rating, second: Rating, max_words: int, seed: int, *, one_aspect: bool) -> Preference | None:
    """The record of one pair, sides drawn; ``None`` where no aspect decides."""
    gaps = {aspect: first.scores[aspect] - second.scores[aspect] for aspect in WORDINGS}
    deciding = [aspect for aspect in gaps if abs(gaps[aspect]) > MIN_GAP]
    if not deciding:
        return None
    flip, overall = len({gaps[aspect] > 0 for aspect in deciding}) == 2, sum(gaps.values())
    a, b = (
        Rated(side.summary, side.system, {aspect: side.scores[aspect] for aspect in deciding}, lead if flip else None)
        for side, lead in ((first, overall), (second, 0.0))
    )
    name = _name(first, second)
    row = rated_pair(name, prompt_of(first, max_words), a, b, WORDINGS, source=SOURCE, topic="News", seed=seed)
    if flip and abs(overall) < EQUAL:  # this coin has fallen the other way from the start
        row = replace(row, winner="a" if fraction(seed, name, "winner") > 0.5 else "b")
    kept = 1 if flip or one_aspect else len(deciding)
    names = ("criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b")
    return replace(row, **{name: getattr(row, name)[:kept] for name in names})
