"""Find the sentence of a response that moves the judge, by leaving each out in turn."""

from __future__ import annotations

import math
import re
from typing import Any

from scipy.special import expit

from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker, signed
from crm.schema import Message, short

MOST = 24
"""Sentences that are left out in turn; what comes after them is one more."""
END = re.compile(r"(?<=[.!?:])\s+(?=\S)|\n+")


def sentence_effects(ranker: Ranker, profile: Profile, model: Any, query_id: Any) -> list[tuple[str, float]]:
    """Sentences of ``model``'s response, each with its effect in points of probability; in their order.

    Raises `ProfileError` for a model or a query that the profile's part of the bank does not have.
    """
    part = ranker.selector.select(profile)
    query = next((query for query in part.queries if query.id == query_id), None)
    if query is None:
        raise ProfileError(f"query_id: {short(query_id)} is not among the {len(part.queries)} that were asked for")
    if model not in part.responses or model == part.baseline:
        raise ProfileError(f"model: {short(model)} is not compared with {part.baseline!r} here")
    response = part.responses[model][query.id]
    sentences = split(response)
    cut = [" ".join(sentences[:at] + sentences[at + 1 :]) for at in range(len(sentences))]
    texts = [
        (query.prompt, (Message("assistant", text),))
        for text in (part.responses[part.baseline][query.id], response, *cut)
    ]
    base, *scores = ranker.scorer.of_texts(*signed(profile), texts)
    full, *others = (float(expit(score - base)) for score in scores)
    if math.isnan(full):
        raise ProfileError(f"query_id: the judge could not read this response of {model!r}")
    return [
        (text, 0.0 if math.isnan(chance) else 100 * (full - chance))
        for text, chance in zip(sentences, others, strict=True)
    ]


def split(text: str) -> list[str]:
    """At most `MOST` sentences, and the rest."""
    return [part for part in END.split(text, maxsplit=MOST) if part.strip()]
