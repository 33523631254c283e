"""The HTTP API and the page's files. A mistake is answered with ``{"error": sentence}``."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from crm.leaderboard.bank.opening import PublishedRanking
from crm.leaderboard.outcomes import LEAST_QUERIES
from crm.leaderboard.ranking import Leaderboard
from crm.page.facts import Facts
from crm.page.picks import Picking, PicksRequest, VotesRequest
from crm.page.profile import Profile, Topics
from crm.page.ranker import Ranker, Ranking, change, counts, duels, typical, why_invalid
from crm.report.tables import csv_text
from crm.web import Body, BodyLimit, request_mistake

VERSION = "1"
"""Of the API, as in its paths: another one where a route or a field changes its meaning."""
MAX_BODY = 4 * 1024 * 1024
"""Bytes of a request, such as a file of votes."""
FILES = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}
"""Nothing is loaded from elsewhere: a picture in a text does not call its server. Browsers ask each time whether a file
has changed, so that no two versions of the page meet."""


@dataclass(frozen=True)
class About:
    """The server, beside its bank; ``simulated`` says what of models, answers and judge is."""

    judge: str
    version: str
    facts: Mapping[str, Facts] = field(default_factory=dict)
    simulated: str = ""
    published: PublishedRanking | None = None
    """What "most people" prefer; None where nobody has published it."""
    licence: str = ""
    """Of the bank's responses, as their source states it."""


class Mistake(Body):
    """What is wrong with a request, as a sentence that names the field."""

    error: str


class CompareRequest(Body):
    """Two people."""

    first: Profile
    second: Profile


class WhyRequest(Body):
    """Whose ranking, and which model's place in it."""

    profile: Profile
    model: str


class ExportRequest(Profile):
    """A profile, and the ``models`` to keep in the file; empty for all."""

    models: Topics = ()


def make_api(ranker: Ranker, picking: Picking, about: About, card: Path | None = None) -> FastAPI:
    """The routes below ``/api/v1``, and the page; ``card`` is the file of the judge's model card."""
    title = "User-centric subjective leaderboard"
    mistakes: dict[int | str, Any] = {status: {"model": Mistake} for status in (413, 422)}
    api = FastAPI(title=title, version=VERSION, docs_url=None, redoc_url=None, responses=mistakes)

    api.add_middleware(BodyLimit, limit=MAX_BODY)

    @api.middleware("http")
    async def with_headers(request: Request, answer: RequestResponseEndpoint) -> Response:
        response = await answer(request)
        response.headers.update(HEADERS)
        return response

    api.add_middleware(GZipMiddleware)
    api.exception_handler(RequestValidationError)(lambda _, error: _mistake(422, request_mistake(error)))
    api.exception_handler(ValueError)(lambda _, error: _mistake(422, str(error)))
    api.exception_handler(HTTPException)(lambda _, error: _mistake(error.status_code, str(error.detail), error.headers))

    def ranked(profile: Profile) -> tuple[Ranking, Leaderboard]:
        """What there is to compare or keep. Raises ``ValueError`` where a ranking should not be shown."""
        ranking = ranker.rank(profile)
        if (refusal := why_invalid(ranking)) or ranking.board is None:
            raise ValueError(refusal)
        return ranking, ranking.board

    @api.get("/api/v1/health")
    def health() -> dict[str, str]:
        """Whether the server is up."""
        return {"status": "ok"}

    @api.get("/api/v1/bank")
    def bank() -> dict[str, Any]:
        """What there is to choose from, the judge, and facts about models."""
        topics = [query.topic for query in ranker.bank.queries]
        facts = {name: known.model_dump(mode="json") for name, known in about.facts.items()}
        return asdict(about) | {
            "facts": facts,
            "published": about.published and published_rows(about.published),
            "card": card is not None,
            "name": ranker.bank.name,
            "baseline": ranker.bank.baseline,
            "models": list(ranker.bank.authors),
            "topics": {topic: topics.count(topic) for topic in ranker.bank.topics},
            "queries": len(topics),
            "least": LEAST_QUERIES,
            "sees": ranker.scorer.sees,
            "win_rate": ranker.scorer.win_rate,
            "examples": ranker.scorer.examples,
        }

    @api.post("/api/v1/rank")
    def rank(profile: Profile) -> dict[str, Any]:
        """The ranking for a profile, the best model first; ``refusal`` says why it should not be shown.

        ``shares`` of a row are what each of ``lines`` adds to its ``log_odds``, the mean over questions.
        """
        ranking = ranker.rank(profile)
        return {
            "queries": len(ranking.used.queries),
            "left_out": len(ranking.part.queries) - len(ranking.used.queries),
            "topics": Counter(ranking.used.topics),
            "failed": ranking.failed,
            "refusal": why_invalid(ranking),
            "understood": ranking.understood,
            "not_understood": ranking.not_understood,
            "lines": profile.lines,
            "leaderboard": ranking.rows(),
        }

    @api.post("/api/v1/compare")
    def compare(asked: CompareRequest) -> dict[str, Any]:
        """Kendall's tau of two rankings, null where there is no order, a row a model, and how the second is read."""
        (_, mine), (other, theirs) = ranked(asked.first), ranked(asked.second)
        return change(mine, theirs) | {"understood": other.understood}

    @api.post("/api/v1/why")
    def why(asked: WhyRequest) -> dict[str, Any]:
        """On how many queries a model was read, with a typical win and loss and ``counts`` of the two responses."""
        ranking = ranker.rank(asked.profile)
        if ranking.board is None:
            raise ValueError(why_invalid(ranking))
        found = duels(ranking, asked.model)
        return {"duels": [duel | {"counts": counts(ranking, duel)} for duel in typical(found)], "n": len(found)}

    @api.post("/api/v1/picks")
    def picks(asked: PicksRequest) -> dict[str, Any]:
        """What picks between answers say of criteria and ranking, and the next pair to show."""
        return picking.answer(asked)

    @api.post("/api/v1/picks/csv", response_class=Response)
    def picked(asked: PicksRequest) -> Response:
        """Picks as votes: a table of ``query``, ``a``, ``b`` and ``winner``, which ``/api/v1/votes`` reads again."""
        table = pd.DataFrame(picking.votes(asked), columns=["query", "a", "b", "winner"])
        return _csv(table.to_csv(index=False, quoting=csv.QUOTE_ALL), "picks")  # texts as they were shown

    @api.post("/api/v1/votes")
    def votes(asked: VotesRequest) -> dict[str, Any]:
        """What one person's votes say of the criteria of the pool."""
        return picking.proposals(asked)

    @api.get("/api/v1/export/csv", response_class=Response)
    def export(asked: Annotated[ExportRequest, Query()]) -> Response:
        """The ranking of a link as a file: ``/api/v1/export/csv?criteria=...&criteria=...``."""
        ranking, board = ranked(asked)
        rows = pd.DataFrame(ranking.rows())
        topics = pd.DataFrame(rows["topics"].tolist()).add_prefix("topic ")
        table = board.frame().assign(rank_low=rows["rank_low"], flawed=rows["flawed"]).join(topics)
        table = table.assign(criteria="; ".join(ranking.counted(asked)), judge=about.judge)
        return _csv(csv_text(table[table["model"].isin(asked.models or table["model"])]), "leaderboard")

    @api.get("/api/v1/card", response_class=Response)
    def model_card() -> Response:
        """The model card of the judge, in Markdown."""
        if card is None:
            raise HTTPException(404, "card: this judge has none")
        return FileResponse(card, media_type="text/plain")

    @api.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(FILES / "index.html")

    api.mount("/static", StaticFiles(directory=FILES))
    return api


def published_rows(ranking: PublishedRanking) -> dict[str, Any]:
    """``title``, and ``rows`` of model, rank and win rate, best first; equal rates share a rank."""
    best = sorted(ranking.rates.items(), key=lambda item: (-item[1], item[0]))
    ranks = {name: 1 + sum(other > rate for other in ranking.rates.values()) for name, rate in best}
    return {"title": ranking.title, "rows": [{"model": n, "rank": ranks[n], "win_rate": rate} for n, rate in best]}


def _csv(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.encode("utf-8-sig"), media_type="text/csv", headers=headers)  # a mark for Excel


def _mistake(status: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers=headers)
