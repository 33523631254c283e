"""The reward server: rewards of a judge over HTTP, also as OpenRLHF's ``/get_reward``."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from scipy.special import expit

from crm import __version__
from crm.io.installed import commit
from crm.judges.open import check_judge, open_judge
from crm.rewards.config import ServeConfig
from crm.rewards.rl import openrlhf_group
from crm.rewards.scoring import Group, Pair, Reward, Rewards, criteria_texts
from crm.schema import RecordError, Texts, Turns
from crm.web import Body, BodyLimit, KnownHosts, bound, request_mistake, serve

log = logging.getLogger(__name__)
BATCH_ROWS = 256
"""Readings from which on further requests wait for the next batch; a request is never split."""
ALONE = "alone"
"""Reason: a judge that only compares got one response."""
Work = Sequence[Group | Pair]
Outcome = list[tuple[list[Reward], list[str | None]]]
"""Rewards of a group, or log-odds of a pair in both orders, with a reason for each None."""


_as_turns = BeforeValidator(
    lambda given: [{"role": "assistant", "content": given}] if isinstance(given, str) else given, str | Turns
)
_as_texts = BeforeValidator(
    lambda given: criteria_texts(given, "criteria") if isinstance(given, str) and given.strip() else given, str | Texts
)
Response = Annotated[Turns, _as_turns]
Responses = Annotated[tuple[Response, ...], Field(min_length=1)]


class Asked(Body):
    """Whose preference, and the prompt."""

    criteria: Annotated[Texts, _as_texts] = ()
    """What the user cares about, a text each or one text; none are the generic criterion."""
    messages: Turns
    """The prompt, turn by turn."""


class GroupBody(Asked):
    """Responses to one prompt."""

    responses: Responses
    """Each is the text of the assistant's turn, or all turns of the response."""

    def group(self) -> Group:
        """The record that is read."""
        return Group(self.criteria, self.messages, self.responses)


class PairBody(Asked):
    """Two responses to one prompt."""

    first: Response
    """The text of the assistant's turn, or all turns of the response."""
    second: Response
    """The response that it is compared with."""


class Request(Body):
    """Which model is asked."""

    model: str | None = None
    """Name or digest of the model that is expected; another one is answered with 404."""


class ScoreRequest(Request):
    """Groups to give rewards for."""

    groups: Annotated[list[GroupBody], Field(min_length=1)]
    """Prompts, each with its user and its responses."""


class CompareRequest(Request):
    """Pairs to compare."""

    pairs: Annotated[list[PairBody], Field(min_length=1)]
    """Prompts, each with its user and two responses."""


class GetRewardRequest(BaseModel):
    """OpenRLHF's request; other fields are ignored."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    query: list[str]
    """Prompt and response of each sample as the policy's tokenizer writes them."""
    prompts: list[str]
    """The prompts alone, likewise."""
    labels: list[str | None]
    """For each sample the text of a JSON object with ``criteria`` and ``prompt`` (text or messages)."""


class Mistake(BaseModel):
    """What is wrong with a request, as a sentence that names the field."""

    detail: str


@dataclass(frozen=True, eq=False)
class _Job:
    work: Work
    rows: int
    answer: asyncio.Future[Outcome]


class RewardQueue:
    """Reads what waits in batches, the oldest first; at most ``queue_rows`` readings wait."""

    def __init__(self, rewards: Rewards, queue_rows: int) -> None:
        self.rewards, self.queue_rows, self.waiting = rewards, queue_rows, 0
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()

    async def submit(self, work: Work) -> Outcome:
        """Wait for the judge. Raises `HTTPException` for too much."""
        rows = sum(_rows(item, self.rewards.pointwise) for item in work)
        if rows > self.queue_rows:
            raise HTTPException(422, f"{rows:,} readings, at most {self.queue_rows:,}; send fewer responses")
        if self.waiting + rows > self.queue_rows:
            busy = f"{self.waiting:,} readings wait already; try again in a moment"
            raise HTTPException(503, busy, headers={"Retry-After": "1"})
        job = _Job(work, rows, asyncio.get_running_loop().create_future())
        self.waiting += rows
        self._jobs.put_nowait(job)
        return await job.answer

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            while not self._jobs.empty() and sum(job.rows for job in jobs) < BATCH_ROWS:
                jobs.append(self._jobs.get_nowait())
            self.waiting -= sum(job.rows for job in jobs)
            await self._read(jobs)

    async def _read(self, jobs: Sequence[_Job]) -> None:
        """A batch that breaks the judge fails as a whole, and the next is read."""
        try:
            outcomes = await asyncio.to_thread(read, self.rewards, [job.work for job in jobs])
        except Exception as error:
            log.exception("requests broke the judge")
            sentence = f"the judge could not read this ({type(error).__name__}); the server's log says more"
            for job in jobs:
                if not job.answer.done():
                    job.answer.set_exception(HTTPException(500, sentence))
            return
        for job, outcome in zip(jobs, outcomes, strict=True):
            if not job.answer.done():  # the client may be gone
                job.answer.set_result(outcome)


def read(rewards: Rewards, works: Sequence[Work]) -> list[Outcome]:
    """The outcome of each of ``works``, all read together."""
    items = [item for work in works for item in work]
    scored = iter(rewards.of_groups([item for item in items if isinstance(item, Group)]))
    compared = iter(rewards.in_both_orders([item for item in items if isinstance(item, Pair)]))
    given = [next(scored) if isinstance(item, Group) else list(next(compared)) for item in items]
    found = iter([(own, _reasons(rewards, item, own)) for item, own in zip(items, given, strict=True)])
    return [[next(found) for _ in work] for work in works]


def _rows(item: Group | Pair, pointwise: bool) -> int:
    """Readings: a response once, or a pair in both orders."""
    count = 2 if isinstance(item, Pair) else len(item.responses)
    return count if isinstance(item, Pair) or pointwise else count * (count - 1)


def _reasons(rewards: Rewards, item: Group | Pair, given: Sequence[Reward]) -> list[str | None]:
    """Why each of ``given`` is None; None for a number."""
    if isinstance(item, Group) and not rewards.pointwise and len(given) == 1:
        return [ALONE]
    lost = [reward is None for reward in given]
    if isinstance(item, Pair):
        return [rewards.why_unread(item) if unread else None for unread in lost]
    return [rewards.why_no_reward(item, place) if unread else None for place, unread in enumerate(lost)]


MAX_BODY = 4_000_000
"""Bytes of a request."""
KEY_VARIABLE = "CRM_SERVER_KEY"
"""Holds the key that requests need; where it is not set, they need none."""
SWITCH_S = 0.0005
"""Seconds until the judge's thread lets the one in that answers requests; Python's 0.005 make a second of it with 50
clients."""


def run_server(config: ServeConfig) -> None:
    """Serve until interrupted. Raises ``ValueError`` for a judge that cannot be opened and an address in use."""
    sys.setswitchinterval(SWITCH_S)
    listening = bound(config.host, config.port)
    check_judge(config)
    opened = open_judge(config)
    name = config.name or config.checkpoint or opened.name
    key = os.environ.get(KEY_VARIABLE) or None
    app = make_app(Rewards(opened.judge), name=name, queue_rows=config.queue_rows, key=key)
    hint = "a key is required" if key else f"no key is required; export {KEY_VARIABLE} to require one"
    log.info("%s, digest %s: http://%s:%d; %s", name, opened.judge.digest, config.host, config.port, hint)
    log.info("POST /v1/score or /v1/compare; what they take: /docs and docs/reward_server.md")
    limited = BodyLimit(app, MAX_BODY)
    serve(KnownHosts(limited, listening=config.host, hosts=config.hosts), listening, grace_s=30)


def make_app(rewards: Rewards, *, name: str, queue_rows: int, key: str | None = None) -> FastAPI:
    """The application of a judge called ``name``; with a ``key``, requests need it as their bearer token."""
    queue = RewardQueue(rewards, queue_rows)
    digest, pointwise = rewards.judge.digest, rewards.pointwise

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        reading = asyncio.create_task(queue.run())
        yield
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading

    def check_key(given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        if key and not (given and hmac.compare_digest(given.credentials.encode(), key.encode())):
            sentence = "key: missing or wrong; send the header Authorization: Bearer <key>"
            raise HTTPException(401, sentence, headers={"WWW-Authenticate": "Bearer"})

    app = FastAPI(title="Rewards", version=f"{__version__} {commit()}", redoc_url=None, lifespan=lifespan)
    mistakes: dict[int | str, Any] = {status: {"model": Mistake} for status in (401, 404, 413, 422, 500, 503)}
    api = APIRouter(dependencies=[Depends(check_key)], responses=mistakes)

    def check_model(model: str | None) -> None:
        if model not in (None, name, digest):
            raise HTTPException(404, f"model: {model[:80]!r} is not served here, expected {name!r} or its digest")

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the server is up; it answers while the judge reads."""
        return {"status": "ok", "model": name, "digest": digest, "pointwise": pointwise, "waiting": queue.waiting}

    @api.post("/v1/score")
    async def score(body: ScoreRequest) -> dict[str, Any]:
        """A reward for each response of each group, null where it could not be read."""
        check_model(body.model)
        found = await queue.submit([group.group() for group in body.groups])
        groups = [{"rewards": own, "reasons": reasons} for own, reasons in found]
        return {"model": name, "digest": digest, "pointwise": pointwise, "groups": groups}

    @api.post("/v1/compare")
    async def compare(body: CompareRequest) -> dict[str, Any]:
        """The log-odds that the user prefers the first response of each pair."""
        check_model(body.model)
        asked = [Group(pair.criteria, pair.messages, (pair.first, pair.second)) for pair in body.pairs]
        found = await queue.submit([Pair(group, 0, 1) for group in asked])
        pairs = []
        for (ab, ba), reasons in found:
            logit, reason = None if ab is None or ba is None else (ab + ba) / 2, next(filter(None, reasons), None)
            probability = None if logit is None else float(expit(logit))
            row = {"logit": logit, "probability": probability, "shown_first": ab, "shown_second": ba, "reason": reason}
            pairs.append(row)
        return {"model": name, "digest": digest, "pairs": pairs}

    @api.post("/get_reward")
    async def get_reward(body: GetRewardRequest) -> dict[str, Any]:
        """OpenRLHF: texts, their prompts, and labels that are JSON with ``criteria`` and ``prompt``.

        Its replies have no null: 422 where a response has no reward.
        """
        if not len(body.query) == len(body.prompts) == len(body.labels):
            counts = f"{len(body.query)}, {len(body.prompts)} and {len(body.labels)} items"
            raise RecordError("query, prompts, labels", f"{counts}, expected one of each for every sample")
        groups = []
        for place, row in enumerate(zip(body.query, body.prompts, body.labels, strict=True)):
            if (group := openrlhf_group(*row, f"[{place}]")) is None:
                raise RecordError(f"query[{place}]", "holds half a character or NUL")
            groups.append(group)
        found = []
        for place, ((reward,), (reason,)) in enumerate(await queue.submit(groups)):
            if reward is None:
                hint = "; this judge only compares: use /v1/compare" * (reason == ALONE)
                raise RecordError(f"query[{place}]", f"cannot be read ({reason}){hint}")
            found.append(reward)
        return {"rewards": found, "scores": expit(found).tolist(), "extra_logs": {"reward": found}}

    app.include_router(api)

    def absent(_: Any, error: Any) -> JSONResponse:
        routes = f"no such route, there are {', '.join(app.openapi()['paths'])}"
        return JSONResponse({"detail": routes if error.detail == "Not Found" else error.detail}, 404)

    app.exception_handler(RecordError)(lambda _, error: JSONResponse({"detail": str(error)}, 422))
    app.exception_handler(RequestValidationError)(
        lambda _, error: JSONResponse({"detail": request_mistake(error)}, 422)
    )
    app.exception_handler(404)(absent)
    return app
