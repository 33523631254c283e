"""Explain a ranking: queries that a model wins and loses, sentences that matter, what another person changes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from scipy.special import expit

from crm.leaderboard.ranking import Leaderboard, compare
from crm.page.bodies import ProfileError
from crm.page.profile import Profile
from crm.page.ranker import Ranker, Ranking
from crm.page.schemas import ChangeRow, CompareResponse, Duel, Sentence
from crm.schema import Message, short

SEED = 1
"""Of bootstrap intervals."""
MOST_SENTENCES = 24
"""That are left out in turn; what comes after them is one more."""
END = re.compile(r"(?<=[.!?:])\s+(?=\S)|\n+")


def duels(ranking: Ranking, model: str) -> list[Duel]:
    """Every query on which ``model`` was read, the most clearly won first. Raises `ProfileError` for another model."""
    part = ranking.part
    if model not in part.responses or model == part.baseline:
        others = ", ".join(name for name in part.authors if name != part.baseline)
        raise ProfileError(f"model: {short(model)} is not compared with {part.baseline!r} here; there are {others}")
    logits = ranking.logits(model)
    found = [
        Duel(
            query_id=query.id,
            topic=query.topic,
            query="\n\n".join(turn.content for turn in query.prompt),
            response=part.responses[model][query.id],
            baseline_response=part.responses[part.baseline][query.id],
            probability=float(expit(logits[query.id])),
        )
        for query in part.queries
        if query.id in logits
    ]
    return sorted(found, key=lambda duel: (-duel.probability, duel.query_id))


def typical(found: Sequence[Duel]) -> list[Duel]:
    """Of `duels`, the win and the loss in the middle; a tie where there is neither."""
    wins = [duel for duel in found if duel.probability > 0.5]
    losses = [duel for duel in found if duel.probability < 0.5]
    return [group[len(group) // 2] for group in (wins, losses) if group] or list(found[:1])


def sentence_effects(ranker: Ranker, profile: Profile, model: str, query_id: str) -> list[Sentence]:
    """Sentences of ``model``'s response with their effects on its probability, by leaving out each in turn.

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
    without = [" ".join(sentences[:at] + sentences[at + 1 :]) for at in range(len(sentences))]
    texts = [
        (query.prompt, (Message("assistant", text),))
        for text in (part.responses[part.baseline][query.id], response, *without)
    ]
    base, *scores = ranker.scorer.of_texts(*profile.signed, texts)
    full, *others = (float(expit(score - base)) for score in scores)
    if math.isnan(full):
        raise ProfileError(f"query_id: the judge could not read this response of {model!r}")
    return [
        Sentence(text=text, points=0.0 if math.isnan(chance) else 100 * (full - chance))
        for text, chance in zip(sentences, others, strict=True)
    ]


def split(text: str) -> list[str]:
    """At most `MOST_SENTENCES`, and the rest."""
    return [part for part in END.split(text, maxsplit=MOST_SENTENCES) if part.strip()]


def change(first: Leaderboard, second: Leaderboard) -> CompareResponse:
    """Two rankings side by side. Raises ``ValueError`` for rankings of other models or without a query in common."""
    tau = compare(first, second, SEED)
    later = {row.model: row for row in second.rows}
    rows = [
        ChangeRow(
            model=row.model,
            rank_first=row.rank,
            rank_second=later[row.model].rank,
            win_rate_first=row.win_rate,
            win_rate_second=later[row.model].win_rate,
            change=later[row.model].win_rate - row.win_rate,
        )
        for row in first.rows
    ]
    return CompareResponse(
        tau=tau.mean, low=tau.low, high=tau.high, models=sorted(rows, key=lambda row: -(row.change or 0.0))
    )
