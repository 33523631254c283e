"""Which sentence of a response moves the judge. In: a ranker, a profile, a response. Out: effects of leaving out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from scipy.special import expit

from crm.io.words import count_words
from crm.page.index_ranker import AnyRanker
from crm.page.pairings import Pairing, make_pairing
from crm.page.profile import Profile, ProfileError
from crm.page.score_store import comparison_key
from crm.schema import short

MOST = 24
"""Sentences that are left out in turn; what comes after them is one more."""
END = re.compile(r"(?<=[.!?:])\s+(?=\S)|\n+")


def sentence_effects(ranker: AnyRanker, profile: Profile, model: Any, query_id: Any) -> list[tuple[str, float]]:
    """Sentences of ``model``'s response, each with its effect in points of probability; in their order.

    Raises `ProfileError` for a model or a query that the profile's part of the bank does not have.
    """
    part = ranker.selector.select(profile)
    query = next((query for query in part.queries if query.id == query_id), None)
    if query is None:
        raise ProfileError(f"query_id: {short(query_id)} is not among the {len(part.queries)} that were asked for")
    if model not in part.responses or model == part.baseline:
        raise ProfileError(f"model: {short(model)} is not compared with {part.baseline!r} here")
    whole = make_pairing(part, part.baseline, query, model)
    sentences = split(whole.response)
    cut = [with_response(whole, " ".join(sentences[:at] + sentences[at + 1 :])) for at in range(len(sentences))]
    full, *others = ranker.judge_pairs(profile, [whole, *cut])
    if full is None:
        raise ProfileError(f"query_id: the judge could not read this response of {model!r}")
    chances = [None if logit is None else float(expit(logit)) for logit in others]
    return [
        (text, 0.0 if chance is None else 100 * (float(expit(full)) - chance))
        for text, chance in zip(sentences, chances, strict=True)
    ]


def split(text: str) -> list[str]:
    """At most `MOST` sentences, and the rest."""
    return [part for part in END.split(text, maxsplit=MOST) if part.strip()]


def with_response(pairing: Pairing, response: str) -> Pairing:
    """Another text of the candidate, under a name of its own: judges tell comparisons apart by ids made of names."""
    changed = replace(pairing, response=response, length=count_words(response))
    key = comparison_key(changed.comparison(()))
    return replace(changed, key=key, candidate=f"{pairing.candidate} {key}")
