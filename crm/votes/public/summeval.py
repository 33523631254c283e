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
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, RecordError
from crm.votes.public.rated import Rated, RatedInPlace, flips, rated_pair
from crm.votes.sampling import balanced, first_words, fraction, hold_out, shuffled, turn
from crm.votes.splits import Splits, sizes

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
    limits = {"train": max_train, "validation": max_suite, "D": max_suite, "F": max_suite}
    kept = {name: balanced(rows, limits[name], seed, _kind, _aspects, _document) for name, rows in parts.items()}
    counts["dropped_by_subsampling"] = sum(len(parts[name]) - len(kept[name]) for name in parts)
    counts["train_flips"] = sum(map(flips, kept["train"]))
    train, validation = kept.pop("train"), kept.pop("validation")
    return Splits(train, validation, kept, {**counts, **sizes(train, validation, kept)}, reading.rejections)


def rated(folder: Path, reading: Intake, *, max_document_words: int | None, seed: int) -> Iterator[RatedInPlace]:
    """Every summary of the documents that `load` holds out under this seed."""
    ratings = list(reading.lines(folder / "ratings.jsonl.gz", _parse, key=lambda row: (row.document, row.system)))
    held_out, _ = hold_out((rating.document for rating in ratings), SHARES, seed)
    for rating in ratings:
        if rating.document in held_out:
            prompt = turn("user", f"{INSTRUCTION}\n\n{first_words(rating.article, max_document_words)}")
            yield RatedInPlace(rating.document, prompt, Rated(rating.summary, rating.system, rating.scores))


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of summaries of one article, whole, with every aspect on which they differ (`rated_pair`)."""
    path = folder / "ratings.jsonl.gz"
    ratings = list(reading.lines(path, _parse, key=lambda rating: (rating.document, rating.system)))
    for first, second in _pairs(ratings):
        name = f"summeval-{first.document.rsplit('-', 1)[-1]}-{first.system}-{second.system}"
        prompt = turn("user", f"{INSTRUCTION}\n\n{first.article}")
        a, b = (Rated(side.summary, side.system, side.scores) for side in (first, second))
        yield rated_pair(name, prompt, a, b, WORDINGS, source=SOURCE, topic="News")


def _parse(row: dict[str, Any], _line: int) -> Rating:
    for name in ("doc_id", "system", "source", "summary"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise RecordError(name, "missing or not a non-blank string")
    scores = row.get("scores")
    if not isinstance(scores, dict) or not WORDINGS.keys() <= scores.keys():
        raise RecordError("scores", f"expected ratings of {', '.join(WORDINGS)}")
    for aspect in WORDINGS:
        value = scores[aspect]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= 5:
            raise RecordError(f"scores.{aspect}", f"{value!r} is not a number in [1, 5]")
    return Rating(
        row["doc_id"], row["system"], row["source"], row["summary"], {name: scores[name] for name in WORDINGS}
    )


def _pairs(ratings: Iterable[Rating]) -> Iterator[tuple[Rating, Rating]]:
    documents: dict[str, list[Rating]] = {}
    for rating in ratings:
        documents.setdefault(rating.document, []).append(rating)
    for group in documents.values():
        yield from combinations(sorted(group, key=lambda rating: rating.system), 2)


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
    name = f"summeval-{first.document.rsplit('-', 1)[-1]}-{first.system}-{second.system}"
    a, b = (first, second) if fraction(seed, name, "side") < 0.5 else (second, first)
    gaps = {aspect: a.scores[aspect] - b.scores[aspect] for aspect in ([only] if only else WORDINGS)}
    worded_for = first.document if only else name
    for_a = shuffled((aspect for aspect in gaps if gaps[aspect] > min_gap), seed, name, "a")
    for_b = shuffled((aspect for aspect in gaps if gaps[aspect] < -min_gap), seed, name, "b")
    if not for_a and not for_b:
        return None
    flip = bool(for_a and for_b)
    if flip or one_aspect:
        for_a, for_b = for_a[:1], for_b[:1]
    overall = sum(gaps.values()) if flip else len(for_a) - len(for_b)
    if abs(overall) < 1e-9:
        overall = fraction(seed, name, "winner") - 0.5
    return Preference(
        id=f"{name}-{only}" if only else name,
        prompt=turn("user", f"{INSTRUCTION}\n\n{first_words(a.article, max_words)}"),
        response_a=turn("assistant", a.summary),
        response_b=turn("assistant", b.summary),
        winner="a" if overall > 0 else "b",
        criteria_a=tuple(shuffled(WORDINGS[aspect], seed, worded_for)[0] for aspect in for_a),
        criteria_b=tuple(shuffled(WORDINGS[aspect], seed, worded_for)[0] for aspect in for_b),
        topic="News",
        criteria_topics_a=tuple(for_a),
        criteria_topics_b=tuple(for_b),
        author_a=a.system,
        author_b=b.system,
        source=SOURCE,
    )


def _kind(row: Preference) -> str:
    return "flip" if flips(row) else "agree"


def _aspects(row: Preference) -> str:
    return "+".join(sorted(row.criteria_topics_a + row.criteria_topics_b))


def _document(row: Preference) -> str:
    return row.id.split("-")[1]
