"""The HTTP API. In: profiles as JSON or as a link's query. Out: rankings, a line of JSON for every step; files.

Every route answers what the page shows. What a person got wrong is a sentence with status 422; a full line is 503.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from crm.page.answers import WRONG, Asking, BankSaid, CompareSaid, Health, ModelAdded, SentencesSaid, Step, WhySaid
from crm.page.bodies import PROFILE, AskAsked, CompareAsked, SentencesAsked, WhyAsked, asked, of_lines, profile_of
from crm.page.export import FORMATS, facts, rows_of
from crm.page.honesty import refusal
from crm.page.index_ranker import AnyRanker, IndexRanker
from crm.page.pick_bodies import PicksAsked, PicksSaid
from crm.page.picks import Picking
from crm.page.profile import Profile, ProfileError, from_mapping, from_query
from crm.page.ranker import PartialRanking
from crm.page.reasons import change, duels, typical
from crm.page.scoring_queue import QueueFullError, ScoringError
from crm.page.sentences import sentence_effects
from crm.schema import query_of
from crm.web.bodies import body_like, describe, described

TITLE = "User-centric subjective leaderboard"
MAX_DUELS = 1000
BODIES = (CompareAsked, WhyAsked, SentencesAsked, PicksAsked, AskAsked, Step, Asking, ModelAdded)


def make_api(
    ranker: AnyRanker,
    *,
    judge: str,
    version: str,
    about: Mapping[str, Any] | None = None,
    picking: Picking | None = None,
) -> FastAPI:
    """The routes below ``/api``; ``judge`` and ``version`` are told with every ranking, ``about`` with the bank."""
    api = FastAPI(title=TITLE, version=version, docs_url=None, redoc_url=None, responses=WRONG)

    @api.exception_handler(ProfileError)
    async def wrong(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=422)

    @api.exception_handler(QueueFullError)
    async def full(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=503, headers={"Retry-After": "60"})

    @api.get("/api/health")
    def health() -> Health:
        """Whether the server is up, and how many people are being served."""
        return Health(status="ok", in_line=ranker.in_line)

    @api.get("/api/bank", response_model=BankSaid)
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
            "instant": ranker.instant,
            "weighs": ranker.instant,
            "picks": picking is not None,
            **(about or {}),
        }

    @api.get("/api/queries", response_class=Response)
    def queries() -> Response:
        """The queries of the bank, a line of JSON each: what a file of responses has to answer."""
        lines = (
            json.dumps(
                {"query_id": query.id, "query": query_of(query.prompt), "topic": query.topic}, ensure_ascii=False
            )
            for query in ranker.bank.queries
        )
        name = {"Content-Disposition": 'attachment; filename="queries.jsonl"'}
        return Response("\n".join(lines) + "\n", media_type="application/x-ndjson", headers=name)

    @api.post("/api/rank", response_class=StreamingResponse, responses=of_lines(Step), openapi_extra=body_like(PROFILE))
    async def rank(request: Request) -> StreamingResponse:
        """A profile in; JSON lines out, each a ranking on more queries, blank ones between; the last is complete."""
        profile = _profile(await profile_of(request))
        steps = ranker.rank(profile)
        # What is wrong with a profile, or a full line, shows here. What is left of an index's ranking takes less time
        # than a change of threads among many.
        if isinstance(ranker, IndexRanker):
            await run_in_threadpool(ranker.read, profile)
            first = next(steps)
        else:
            first = await run_in_threadpool(next, steps)
        return StreamingResponse(_lines(request, first, steps), media_type="application/x-ndjson")

    @api.post("/api/compare", response_model=CompareSaid, openapi_extra=described(CompareAsked))
    async def compare(request: Request) -> dict[str, Any]:
        """``{"first": profile, "second": profile}`` in, by what is already scored: tau and a row a model out."""
        given = await asked(request, CompareAsked)
        boards = [_board(ranker.known(_profile(profile))) for profile in (given.first, given.second)]
        try:
            found = change(*boards)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        rows = json.loads(found.table.to_json(orient="records", double_precision=15))
        return {"tau": found.tau.mean, "low": found.tau.low, "high": found.tau.high, "models": rows}

    @api.post("/api/why", response_model=WhySaid, openapi_extra=described(WhyAsked))
    async def why(request: Request) -> dict[str, Any]:
        """``{"profile": profile, "model": name}`` in; its scored queries out, the most clearly won first.

        With ``"examples": true`` two of them: a win and a loss as clear as half of its wins and losses.
        """
        given = await asked(request, WhyAsked)
        found = duels(ranker.known(_profile(given.profile)), given.model)
        shown = typical(found) if given.examples else found[:MAX_DUELS]
        wins = sum(duel.probability > 0.5 for duel in found)
        return {"duels": [asdict(duel) for duel in shown], "n": len(found), "wins": wins}

    @api.post("/api/sentences", response_model=SentencesSaid, openapi_extra=described(SentencesAsked))
    async def sentences(request: Request) -> dict[str, Any]:
        """``{"profile": profile, "model": name, "query_id": id}`` in; what each sentence of its response does out.

        ``points`` is the probability in percent that this person prefers the response, less that without the sentence.
        """
        given = await asked(request, SentencesAsked)
        profile = _profile(given.profile)
        moved = await run_in_threadpool(sentence_effects, ranker, profile, given.model, given.query_id)
        return {"sentences": [{"text": text, "points": points} for text, points in moved]}

    @api.post("/api/picks", response_model=PicksSaid, openapi_extra=described(PicksAsked))
    async def picks(request: Request) -> dict[str, Any]:
        """Picks between answers in; the next pair to show out, and what the picks say of criteria and ranking."""
        given = await asked(request, PicksAsked)
        if picking is None:
            raise ProfileError("picks: this judge reads criteria and answers together; serve one with head=late")
        return await run_in_threadpool(picking.answer, given, _profile(given.profile))

    @api.get("/api/export/{ending}", response_class=Response)
    def export(ending: str, request: Request) -> Response:
        """The ranking of a link as a file, by what is already scored: ``/api/export/csv?criteria=...``."""
        if ending not in FORMATS:
            raise ProfileError(f"export: {ending!r} is not one of {', '.join(FORMATS)}")
        progress = ranker.known(from_query(request.url.query))
        _board(progress)
        media, make = FORMATS[ending]
        name = f'attachment; filename="leaderboard-{progress.profile.digest[:8]}.{ending}"'
        content = make(progress, facts(progress, judge, version))
        return Response(content, media_type=media, headers={"Content-Disposition": name})

    describe(api, BODIES)
    return api


async def _lines(request: Request, first: PartialRanking, steps: Generator[PartialRanking]) -> AsyncIterator[str]:
    """Until the ranking is complete or nobody listens any more: then the place in the line is given up.

    A blank line says that there is nothing new yet.
    """
    try:
        yield _line(first)
        last = first
        while (progress := await run_in_threadpool(next, steps, None)) is not None:
            if await request.is_disconnected():
                return
            yield "\n" if progress is last else await run_in_threadpool(_line, progress)
            last = progress
    except ScoringError as error:
        yield json.dumps({"error": str(error)}) + "\n"
    finally:
        steps.close()


def _line(progress: PartialRanking) -> str:
    state = {"done": progress.done, "total": progress.total, "complete": progress.complete, "failed": progress.failed}
    told: dict[str, Any] = {"profile": progress.profile.digest, "criteria": list(progress.profile.told)}
    told |= {"refusal": refusal(progress), "unheard": list(progress.unheard)}
    rows = rows_of(progress)
    return json.dumps({**state, **told, "leaderboard": rows}, ensure_ascii=False, allow_nan=False) + "\n"


def _board(progress: PartialRanking) -> Any:
    if progress.board is None:
        raise ProfileError("profile: nothing has been scored for it yet; ask for its ranking first (/api/rank)")
    return progress.board


def _profile(given: Any) -> Profile:
    if not isinstance(given, dict):
        raise ProfileError('profile: expected an object such as {"criteria": ["Prefers concise answers"]}')
    return from_mapping(given)
