"""The routes of ``/v1``, and what is asked of a server itself. In: groups and pairs as JSON. Out: rewards."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from scipy.special import expit

from crm.rewards.scoring import Reward
from crm.rewards.server.batching import Outcome, Work
from crm.rewards.server.bodies import (
    CompareAsked,
    CompareSaid,
    GroupAsked,
    PairSaid,
    RankAsked,
    Ranked,
    RankSaid,
    ScoreAsked,
    ScoreSaid,
    Unread,
    check_number,
)
from crm.rewards.server.serving import Served
from crm.web.bodies import Body, body_of, described

BODIES = (ScoreAsked, CompareAsked, RankAsked)


class Health(Body):
    """The server is up."""

    status: str
    model: str
    digest: str
    waiting: int
    """Readings that wait."""


class ModelSaid(Body):
    """A model that is served."""

    id: str
    object: str
    owned_by: str
    digest: str
    pointwise: bool


class ModelsSaid(Body):
    """All of them: one."""

    object: str
    data: list[ModelSaid]


def add_routes(api: FastAPI, served: Served) -> None:
    """Give ``api`` these routes."""

    @api.get("/health")
    async def health() -> Health:
        """Whether the server is up; it answers while the judge reads."""
        return Health(status="ok", model=served.name, digest=served.digest, waiting=served.queue.waiting)

    @api.get("/v1/models")
    async def models() -> ModelsSaid:
        """What is served here."""
        model = ModelSaid(
            id=served.name, object="model", owned_by="crm", digest=served.digest, pointwise=served.pointwise
        )
        return ModelsSaid(object="list", data=[model])

    @api.post("/v1/score", response_model=ScoreSaid, openapi_extra=described(ScoreAsked))
    async def score(request: Request) -> dict[str, Any]:
        """Groups in; a reward for each response out, null where it could not be read."""
        asked = await body_of(request, ScoreAsked)
        served.check_model(asked.model)
        found = await _rewards(request, served, asked.groups)
        rows = zip(found.groups, found.reasons, strict=True)
        groups = [{"rewards": rewards, "reasons": reasons} for rewards, reasons in rows]
        return {"model": served.name, "digest": served.digest, "pointwise": served.pointwise, "groups": groups}

    @api.post("/v1/compare", response_model=CompareSaid, openapi_extra=described(CompareAsked))
    async def compare(request: Request) -> dict[str, Any]:
        """Pairs in; the log-odds that the user prefers the first response out."""
        asked = await body_of(request, CompareAsked)
        served.check_model(asked.model)
        found = await served.outcome(request, Work(pairs=tuple(pair.pair() for pair in asked.pairs)))
        pairs = [_pair(ab, ba, why) for (ab, ba), why in zip(found.pairs, found.pair_reasons, strict=True)]
        return {"model": served.name, "digest": served.digest, "pairs": pairs}

    @api.post("/v1/rank", response_model=RankSaid, openapi_extra=described(RankAsked))
    async def rank(request: Request) -> dict[str, Any]:
        """Responses in; the best first out. One that could not be read has no place."""
        asked = await body_of(request, RankAsked)
        served.check_model(asked.model)
        found = await _rewards(request, served, [asked])
        ranking, unread = _ranking(found.groups[0], found.reasons[0])
        return {"model": served.name, "digest": served.digest, "ranking": ranking, "unread": unread}


async def _rewards(request: Request, served: Served, groups: list[GroupAsked]) -> Outcome:
    check_number(groups, served.pointwise)
    return await served.outcome(request, Work(groups=tuple(group.group() for group in groups)))


def _pair(first: Reward, second: Reward, reason: str | None) -> PairSaid:
    logit = None if first is None or second is None else (first + second) / 2
    probability = None if logit is None else float(expit(logit))
    return PairSaid(logit=logit, probability=probability, shown_first=first, shown_second=second, reason=reason)


def _ranking(rewards: list[Reward], reasons: list[str | None]) -> tuple[list[Ranked], list[Unread]]:
    known = sorted(((reward, place) for place, reward in enumerate(rewards) if reward is not None), key=lambda r: -r[0])
    values = [reward for reward, _ in known]
    ranking = [Ranked(rank=values.index(reward) + 1, response=place, reward=reward) for reward, place in known]
    unread = [Unread(response=place, reason=str(why)) for place, why in enumerate(reasons) if why is not None]
    return ranking, unread
