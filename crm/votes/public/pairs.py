"""Two responses become a record. In: texts, and what speaks for them. Out: a `Preference`; which side is A is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crm.schema import Preference
from crm.votes.fields import Conversation
from crm.votes.sampling import fraction, turn, wordings


def chosen_pair(
    name: str,
    prompt: Conversation,
    chosen: Conversation,
    rejected: Conversation,
    *,
    source: str,
    topic: str | None = None,
    authors: tuple[str | None, str | None] = (None, None),
    criteria: tuple[str, ...] = (),
    criteria_rejected: tuple[str, ...] = (),
    criteria_topic: str | None = None,
    reason: str | None = None,
    first: bool | None = None,
) -> Preference:
    """The record of a chosen and a rejected response; ``authors`` are theirs, ``criteria`` speak for the chosen one.

    ``criteria_topic`` is that of each of ``criteria``. The chosen one stands as A if it is ``first``; ``None`` draws.
    """
    first = fraction(0, name, "side") < 0.5 if first is None else first
    topics = () if criteria_topic is None else (criteria_topic,) * len(criteria)
    return Preference(
        id=name,
        prompt=prompt,
        response_a=chosen if first else rejected,
        response_b=rejected if first else chosen,
        winner="a" if first else "b",
        criteria_a=criteria if first else criteria_rejected,
        criteria_b=criteria_rejected if first else criteria,
        topic=topic,
        criteria_topics_a=topics if first else (),
        criteria_topics_b=() if first else topics,
        author_a=authors[0] if first else authors[1],
        author_b=authors[1] if first else authors[0],
        source=source,
        reason=reason,
    )


def wished_pair(
    name: str,
    prompt: Conversation,
    answers: Mapping[str, str],
    bank: Mapping[str, Sequence[str]],
    *,
    source: str,
    seed: int,
    drawn_by: str | None = None,
    author: str | None = None,
) -> Preference:
    """The flip pair of two answers, by the wish that each was written to: one or two wordings of it are its criteria.

    Nobody voted, so ``winner`` is a coin and only names the original direction. Draws are by ``seed`` and the name
    (``drawn_by`` where it is given).
    """
    draw = name if drawn_by is None else drawn_by
    first, second = answers
    a, b = (first, second) if fraction(seed, draw, "side") < 0.5 else (second, first)
    return Preference(
        id=name,
        prompt=prompt,
        response_a=turn("assistant", answers[a]),
        response_b=turn("assistant", answers[b]),
        winner="a" if fraction(seed, draw, "winner") < 0.5 else "b",
        criteria_a=wordings(bank[a], seed, draw, a),
        criteria_b=wordings(bank[b], seed, draw, b),
        criteria_topics_a=(a,),
        criteria_topics_b=(b,),
        author_a=author,
        author_b=author,
        source=source,
    )
