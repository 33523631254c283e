"""The HTTP API and the page's files. A mistake is answered with ``{"error": sentence}``."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from crm.leaderboard.ranking import Leaderboard
from crm.page import schemas
from crm.page.bodies import ProfileError, explain_errors
from crm.page.export import FORMATS
from crm.page.picks import Picking
from crm.page.profile import Profile, from_query
from crm.page.ranker import Ranker, Ranking, why_invalid
from crm.page.reasons import change, duels, sentence_effects, typical
from crm.schema import query_of

MAX_DUELS = 1000
FILES = Path(__file__).parent / "static"
FRESH = {"Cache-Control": "no-cache"}
"""Browsers ask each time whether a file has changed, so that no two versions of the page meet."""


def make_api(ranker: Ranker, picking: Picking, about: schemas.About) -> FastAPI:
    """The routes below ``/api``, and the page."""
    title = "User-centric subjective leaderboard"
    api = FastAPI(title=title, version=about.version, docs_url=None, redoc_url=None, responses=schemas.ERRORS)
    explain_errors(api)

    def ranked(profile: Profile) -> tuple[Ranking, Leaderboard]:
        """What there is to explain, compare or keep. Raises `ProfileError` where nothing is ranked."""
        ranking = ranker.rank(profile)
        if ranking.board is None:
            raise ProfileError(why_invalid(ranking))
        return ranking, ranking.board

    @api.get("/api/health")
    def health() -> dict[str, str]:
        """Whether the server is up."""
        return {"status": "ok"}

    @api.get("/api/bank")
    def bank() -> schemas.BankResponse:
        """What there is to choose from."""
        topics = [query.topic for query in ranker.bank.queries]
        return schemas.BankResponse(
            **dict(about),
            name=ranker.bank.name,
            baseline=ranker.bank.baseline,
            models=list(ranker.bank.authors),
            topics={topic: topics.count(topic) for topic in ranker.bank.topics},
            queries=len(topics),
            example=ranker.scorer.example,
        )

    @api.get("/api/queries", response_class=Response)
    def queries() -> Response:
        """The queries of the bank, a line of JSON each."""
        rows = [{"query_id": q.id, "query": query_of(q.prompt), "topic": q.topic} for q in ranker.bank.queries]
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return _file("queries.jsonl", lines, "application/x-ndjson")

    @api.post("/api/rank")
    def rank(profile: Profile) -> schemas.RankResponse:
        """A profile in; the ranking out."""
        ranking = ranker.rank(profile)
        return schemas.RankResponse(
            queries=len(ranking.part.queries),
            failed=ranking.failed,
            profile=profile.digest,
            criteria=list(profile.judge_criteria),
            refusal=why_invalid(ranking),
            not_understood=list(ranking.not_understood),
            leaderboard=[schemas.Row(**row) for row in ranking.board.records()] if ranking.board else [],
        )

    @api.post("/api/compare")
    def compare(asked: schemas.CompareRequest) -> schemas.CompareResponse:
        """``{"first": profile, "second": profile}`` in; Kendall's tau and a row a model out."""
        boards = [ranked(profile)[1] for profile in (asked.first, asked.second)]
        try:
            return change(*boards)
        except ValueError as error:
            raise ProfileError(str(error)) from None

    @api.post("/api/why")
    def why(asked: schemas.WhyRequest) -> schemas.WhyResponse:
        """``{"profile": profile, "model": name}`` in; its queries out, the most clearly won first.

        With ``"examples": true`` two of them: a win and a loss as clear as half of its wins and losses.
        """
        found = duels(ranked(asked.profile)[0], asked.model)
        shown = typical(found) if asked.examples else found[:MAX_DUELS]
        return schemas.WhyResponse(duels=shown, n=len(found), wins=sum(duel.probability > 0.5 for duel in found))

    @api.post("/api/sentences")
    def sentences(asked: schemas.SentencesRequest) -> schemas.SentencesResponse:
        """``{"profile": profile, "model": name, "query_id": id}`` in; what each sentence of its response does out.

        ``points`` is the probability in percent that this person prefers the response, less that without the sentence.
        """
        effects = sentence_effects(ranker, asked.profile, asked.model, asked.query_id)
        return schemas.SentencesResponse(sentences=effects)

    @api.post("/api/picks")
    def picks(asked: schemas.PicksRequest) -> schemas.PicksResponse:
        """Picks between answers in; the next pair to show out, and what the picks say of criteria and ranking."""
        return picking.answer(asked)

    @api.get("/api/export/{ending}", response_class=Response)
    def export(ending: str, request: Request) -> Response:
        """The ranking of a link as a file: ``/api/export/csv?criteria=...``."""
        if ending not in FORMATS:
            raise ProfileError(f"export: {ending!r} is not one of {', '.join(FORMATS)}")
        ranking, board = ranked(from_query(request.url.query))
        media, write = FORMATS[ending]
        return _file(f"leaderboard-{ranking.profile.digest[:8]}.{ending}", write(ranking, board, about), media)

    @api.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(FILES / "index.html", headers=FRESH)

    api.mount("/static", _Fresh(directory=FILES))
    return api


def _file(name: str, content: str | bytes, media: str) -> Response:
    return Response(content, media_type=media, headers={"Content-Disposition": f'attachment; filename="{name}"'})


class _Fresh(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """As `StaticFiles` makes it, with `FRESH`."""
        response = await super().get_response(path, scope)
        response.headers.update(FRESH)
        return response
