"""SummEval. In: ``summeval/ratings.jsonl.gz``, experts' mean ratings of 16 systems' summaries. Out: `Splits`.

A pair is two summaries of one article. An aspect speaks for the side rated higher on it by more than ``min_gap`` points
(ratings are in [1, 5], means of three experts); a pair that no aspect decides is dropped and counted. Where aspects
disagree the pair **flips**: its record holds one aspect per side, and each direction asks for one of the two. Elsewhere
the criteria speak for one side only (all deciding aspects in training, one in suite ``D``), so that the reverse
direction is not defined.

``winner`` is the side that the aspects speak for; in a flip pair it is the side with the higher mean over all four
aspects, and a seeded coin where those are equal: there it only names which direction is called original.

Split by document: 30 in 100 held out (suites ``D``: pairs that do not flip, ``F``: flip pairs), 10 in 100 validation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import Message, Preference
from crm.votes.fields import inner, number, text
from crm.votes.public.rated import EQUAL, Rated, RatedInPlace, flips, pairs_within, rated_pair
from crm.votes.sampling import fraction, hold_out, turn
from crm.votes.splits import Splits, subsampled

WORDINGS: dict[str, tuple[str, ...]] = {
    "coherence": (
        "I want a summary whose sentences build on each other and read as one story",
        "The text should be well organised, not a heap of loose facts",
        "Each sentence should follow naturally from the one before it",
        "Prefer the version with a clear structure from beginning to end",
        "I care about logical flow more than anything else",
        "It should hang together as one connected piece of writing",
        "No sudden jumps between unrelated points",
    ),
    "consistency": (
        "Everything it says must be backed by the article",
        "I need the facts to be right: no invented names, numbers or events",
        "Prefer the summary that stays faithful to the source",
        "Do not claim anything that the article does not say",
        "Factual accuracy matters most to me",
        "Nothing in it may contradict the original text",
        "I would rather have a dull summary than a made-up detail",
    ),
    "fluency": (
        "The grammar should be correct in every sentence",
        "I want clean, natural English without mistakes",
        "Prefer text that is free of broken or unfinished sentences",
        "Each sentence should be well formed and easy to read",
        "No garbled words, repeated phrases or odd punctuation",
        "It has to read as if a careful native writer had written it",
        "Good spelling and grammar matter most to me",
    ),
    "relevance": (
        "It should pick out the most important points of the article",
        "I want the key information and nothing beside the point",
        "Prefer the summary that covers what the article is really about",
        "Leave out side details and keep what matters",
        "The main events must be there, trivia must not",
        "Choose the one that a busy reader would learn most of the story from",
        "Good selection of content matters most to me",
    ),
}
SOURCE = "summeval/human"
SHARES = (0.3, 0.1)
"""Of the documents: held out, and for validation."""
INSTRUCTION = "Summarise this news article in a few sentences."


@dataclass(frozen=True)
class Rating:
    """One system's summary of one document; ``scores`` maps each aspect of `WORDINGS` to a mean rating in [1, 5]."""

    document: str
    system: str
    article: str
    summary: str
    scores: dict[str, float]


def load(
    root: str | Path,
    *,
    seed: int = 0,
    strict: bool = True,
    min_gap: float = 0.5,
    max_document_words: int | None = 120,
    max_train: int | None = None,
    max_suite: int | None = None,
    aspect_by_aspect: bool = False,
) -> Splits:
    """Read ``<root>/summeval/ratings.jsonl.gz``.

    With ``aspect_by_aspect`` training and validation have a row for every pair and aspect that decides it, its only
    criterion, in one wording for a document: all comparisons of a document then share what a forest can share.

    ``min_gap`` is in rating points, [0, 4). ``max_document_words`` cuts the article in the prompt (experts saw it
    all, so a short cut hides what consistency and relevance were judged on; ``None`` keeps it whole). ``max_train`` and
    ``max_suite`` subsample in turns over flip or not, aspects and documents. Raises ``ValueError`` for a bad file.
    """
    if not 0 <= min_gap < 4:
        raise ValueError(f"min_gap: {min_gap} points; ratings are in [1, 5], so give a gap in [0, 4)")
    path = Path(root) / "summeval" / "ratings.jsonl.gz"
    reading = Intake(strict=strict)
    ratings = list(reading.lines(path, _parse, key=lambda rating: (rating.document, rating.system)))
    held_out, validation_documents = hold_out((rating.document for rating in ratings), SHARES, seed)
    counts = Counter(reading.all_counts() | {"pairs": 0, "dropped_no_aspect_decides": 0})
    parts: dict[str, list[Preference]] = {"train": [], "validation": [], "D": [], "F": []}
    for first, second in _pairs(ratings):
        counts["pairs"] += 1
        held = first.document in held_out
        make = partial(_preference, first, second, min_gap, max_document_words, seed, one_aspect=held)
        split = "train" if first.document not in validation_documents else "validation"
        rows = [make(only=aspect) for aspect in WORDINGS] if aspect_by_aspect and not held else [make()]
        made = [row for row in rows if row is not None]
        counts["dropped_no_aspect_decides"] += not made
        for row in made:
            parts[split if not held else "F" if flips(row) else "D"].append(row)
    splits = subsampled(parts, counts, reading, max_train, max_suite, seed, _kind, _aspects, _document)
    splits.counts["train_flips"] = sum(map(flips, splits.train))
    return splits


def rated(folder: Path, reading: Intake, *, max_document_words: int | None, seed: int) -> Iterator[RatedInPlace]:
    """Every summary of the documents that `load` holds out under this seed."""
    ratings = list(reading.lines(folder / "ratings.jsonl.gz", _parse, key=lambda row: (row.document, row.system)))
    held_out, _ = hold_out((rating.document for rating in ratings), SHARES, seed)
    for rating in ratings:
        if rating.document in held_out:
            response = Rated(rating.summary, rating.system, rating.scores)
            yield RatedInPlace(rating.document, _prompt(rating, max_document_words), response)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of summaries of one article, whole, with every aspect on which they differ (`rated_pair`)."""
    ratings = reading.lines(folder / "ratings.jsonl.gz", _parse, key=lambda rating: (rating.document, rating.system))
    for first, second in _pairs(ratings):
        a, b = (Rated(side.summary, side.system, side.scores) for side in (first, second))
        yield rated_pair(_name(first, second), _prompt(first, None), a, b, WORDINGS, source=SOURCE, topic="News")


def _parse(row: dict[str, Any], _line: int) -> Rating:
    given = inner(row, "scores")
    scores = {aspect: number(given, f"scores.{aspect}", 1, 5) for aspect in WORDINGS}
    return Rating(text(row, "doc_id"), text(row, "system"), text(row, "source"), text(row, "summary"), scores)


def _pairs(ratings: Iterable[Rating]) -> Iterator[tuple[Rating, Rating]]:
    return pairs_within(sorted(ratings, key=lambda rating: rating.system), lambda rating: rating.document)


def _name(first: Rating, second: Rating) -> str:
    return f"summeval-{first.document.rsplit('-', 1)[-1]}-{first.system}-{second.system}"


def _prompt(rating: Rating, max_words: int | None) -> tuple[Message, ...]:
    return turn("user", f"{INSTRUCTION}\n\n{first_words(rating.article, max_words)}")


def _preference(
    first: Rating,
    second: Rating,
    min_gap: float,
    max_words: int | None,
    seed: int,
    *,
    one_aspect: bool,
    only: str | None = None,
) -> Preference | None:
    """The record of one pair, sides drawn; ``None`` where no aspect decides, or not the ``only`` one asked for."""
    gaps = {aspect: first.scores[aspect] - second.scores[aspect] for aspect in ([only] if only else WORDINGS)}
    deciding = [aspect for aspect in gaps if abs(gaps[aspect]) > max(min_gap, EQUAL)]
    if not deciding:
        return None
    flip, overall = len({gaps[aspect] > 0 for aspect in deciding}) == 2, sum(gaps.values())
    a, b = (
        Rated(side.summary, side.system, {aspect: side.scores[aspect] for aspect in deciding}, lead if flip else None)
        for side, lead in ((first, overall), (second, 0.0))
    )
    name, worded_for = _name(first, second), first.document if only else None
    row = rated_pair(
        name, _prompt(first, max_words), a, b, WORDINGS, source=SOURCE, topic="News", seed=seed, worded_for=worded_for
    )
    if flip and abs(overall) < EQUAL:  # this coin has fallen the other way from the start
        row = replace(row, winner="a" if fraction(seed, name, "winner") > 0.5 else "b")
    kept = 1 if flip or one_aspect else len(deciding)
    return replace(
        row,
        id=f"{name}-{only}" if only else name,
        criteria_a=row.criteria_a[:kept],
        criteria_b=row.criteria_b[:kept],
        criteria_topics_a=row.criteria_topics_a[:kept],
        criteria_topics_b=row.criteria_topics_b[:kept],
    )


def _kind(row: Preference) -> str:
    return "flip" if flips(row) else "agree"


def _aspects(row: Preference) -> str:
    return "+".join(sorted(row.criteria_topics_a + row.criteria_topics_b))


def _document(row: Preference) -> str:
    return row.id.split("-")[1]
