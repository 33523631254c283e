"""Answer the HTTP API: profiles as JSON or as a link's query, rankings and files back.

Every route answers what the page shows. A mistake is a sentence with status 422.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from crm.leaderboard.ranking import Leaderboard
from crm.page.answers import (
    WRONG,
    BankResponse,
    CompareResponse,
    Health,
    RankResponse,
    SentencesResponse,
    WhyResponse,
)
from crm.page.bodies import PROFILE, CompareRequest, SentencesRequest, WhyRequest, asked, profile_of
from crm.page.export import FORMATS, facts, rows_of
from crm.page.honesty import refusal
from crm.page.pick_bodies import PicksRequest, PicksResponse
from crm.page.picks import Picking
from crm.page.profile import Profile, ProfileError, from_mapping, from_query
from crm.page.ranker import Ranker, Ranking
from crm.page.reasons import change, duels, typical
from crm.page.sentences import sentence_effects
from crm.schema import query_of
from crm.web.bodies import body_like, describe, described

TITLE = "User-centric subjective leaderboard"
MAX_DUELS = 1000
BODIES = (CompareRequest, WhyRequest, SentencesRequest, PicksRequest)


def make_api(
    ranker: Ranker, picking: Picking, *, judge: str, version: str, about: Mapping[str, Any] | None = None
) -> FastAPI:
    """The routes below ``/api``; ``judge``, ``version`` and ``about`` are what ``/api/bank`` says of the server."""
    api = FastAPI(title=TITLE, version=version, docs_url=None, redoc_url=None, responses=WRONG)

    @api.exception_handler(ProfileError)
    async def wrong(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=422)

    def ranked(profile: Profile) -> tuple[Ranking, Leaderboard]:
        """What there is to explain, compare or keep. Raises `ProfileError` where nothing is ranked."""
        ranking = ranker.rank(profile)
        if ranking.board is None:
            raise ProfileError(refusal(ranking))
        return ranking, ranking.board

    @api.get("/api/health")
    def health() -> Health:
        """Whether the server is up."""
        return Health(status="ok")

    @api.get("/api/bank", response_model=BankResponse)
    def bank() -> dict[str, Any]:
        """What there is to choose from."""
        return {
            "name": ranker.bank.name,
            "baseline": ranker.bank.baseline,
            "models": list(ranker.bank.authors),
            "topics": ranker.selector.topic_counts(),
            "queries": len(ranker.bank.queries),
            "judge": judge,
            "version": version,
            "example": ranker.scorer.example,
            **(about or {}),
        }

    @api.get("/api/queries", response_class=Response)
    def queries() -> Response:
        """The queries of the bank, a line of JSON each."""
        lines = (
            json.dumps(
                {"query_id": query.id, "query": query_of(query.prompt), "topic": query.topic}, ensure_ascii=False
            )
            for query in ranker.bank.queries
        )
        name = {"Content-Disposition": 'attachment; filename="queries.jsonl"'}
        return Response("\n".join(lines) + "\n", media_type="application/x-ndjson", headers=name)

    @api.post("/api/rank", response_model=RankResponse, openapi_extra=body_like(PROFILE))
    async def rank(request: Request) -> dict[str, Any]:
        """A profile in; the ranking out."""
        profile = _profile(await profile_of(request))
        await run_in_threadpool(ranker.read, profile)
        ranking = ranker.rank(profile)  # arithmetic, which takes less time than a change of threads among many
        return {
            "queries": len(ranking.part.queries),
            "failed": ranking.failed,
            "profile": profile.digest,
            "criteria": list(profile.told),
            "refusal": refusal(ranking),
            "not_understood": list(ranking.not_understood),
            "leaderboard": rows_of(ranking),
        }

    @api.post("/api/compare", response_model=CompareResponse, openapi_extra=described(CompareRequest))
    async def compare(request: Request) -> dict[str, Any]:
        """``{"first": profile, "second": profile}`` in; Kendall's tau and a row a model out."""
        given = await asked(request, CompareRequest)
        boards = [ranked(_profile(profile))[1] for profile in (given.first, given.second)]
        try:
            found = change(*boards)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        rows = json.loads(found.table.to_json(orient="records", double_precision=15))
        return {"tau": found.tau.mean, "low": found.tau.low, "high": found.tau.high, "models": rows}

    @api.post("/api/why", response_model=WhyResponse, openapi_extra=described(WhyRequest))
    async def why(request: Request) -> dict[str, Any]:
        """``{"profile": profile, "model": name}`` in; its queries out, the most clearly won first.

        With ``"examples": true`` two of them: a win and a loss as clear as half of its wins and losses.
        """
        given = await asked(request, WhyRequest)
        found = duels(ranked(_profile(given.profile))[0], given.model)
        shown = typical(found) if given.examples else found[:MAX_DUELS]
        wins = sum(duel.probability > 0.5 for duel in found)
        return {"duels": [asdict(duel) for duel in shown], "n": len(found), "wins": wins}

    @api.post("/api/sentences", response_model=SentencesResponse, openapi_extra=described(SentencesRequest))
    async def sentences(request: Request) -> dict[str, Any]:
        """``{"profile": profile, "model": name, "query_id": id}`` in; what each sentence of its response does out.

        ``points`` is the probability in percent that this person prefers the response, less that without the sentence.
        """
        given = await asked(request, SentencesRequest)
        profile = _profile(given.profile)
        moved = await run_in_threadpool(sentence_effects, ranker, profile, given.model, given.query_id)
        return {"sentences": [{"text": text, "points": points} for text, points in moved]}

    @api.post("/api/picks", response_model=PicksResponse, openapi_extra=described(PicksRequest))
    async def picks(request: Request) -> dict[str, Any]:
        """Picks between answers in; the next pair to show out, and what the picks say of criteria and ranking."""
        given = await asked(request, PicksRequest)
        return await run_in_threadpool(picking.answer, given, _profile(given.profile))

    @api.get("/api/export/{ending}", response_class=Response)
    def export(ending: str, request: Request) -> Response:
        """The ranking of a link as a file: ``/api/export/csv?criteria=...``."""
        if ending not in FORMATS:
            raise ProfileError(f"export: {ending!r} is not one of {', '.join(FORMATS)}")
        ranking, _ = ranked(from_query(request.url.query))
        media, make = FORMATS[ending]
        name = f'attachment; filename="leaderboard-{ranking.profile.digest[:8]}.{ending}"'
        content = make(ranking, facts(ranking, judge, version))
        return Response(content, media_type=media, headers={"Content-Disposition": name})

    describe(api, BODIES)
    return api


def _profile(given: Any) -> Profile:
    if not isinstance(given, dict):
        raise ProfileError('profile: expected an object such as {"criteria": ["Prefers concise answers"]}')
    return from_mapping(given)
