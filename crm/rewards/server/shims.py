"""The routes that trainers know. In: requests as OpenRLHF, verl, vLLM's clients and Personalized RewardBench send them.
Out: answers in their shapes, always the reward itself: no sigmoid, no softmax.

These shapes have no null. Where one response of a request cannot be read the whole answer is 422, with the reason.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from pydantic import ValidationError
from scipy.special import expit

from crm.rewards.scoring import Group
from crm.rewards.server.batching import ALONE, Work
from crm.rewards.server.bodies import turns as response_turns
from crm.rewards.server.chatml import answered, group_of, spoken, written_after
from crm.rewards.server.serving import Served
from crm.rewards.server.shim_bodies import (
    ClassifyAsked,
    ClassifySaid,
    GetRewardAsked,
    GetRewardSaid,
    Label,
    PoolingSaid,
    ProfileAsked,
    ProfileSaid,
    input_texts,
)
from crm.schema import Message
from crm.web.bodies import BodyError, body_of, described

BODIES = (ClassifyAsked, GetRewardAsked, ProfileAsked)


def add_shims(api: FastAPI, served: Served) -> None:
    """Give ``api`` these routes."""

    @api.post("/get_reward", response_model=GetRewardSaid, openapi_extra=described(GetRewardAsked))
    async def get_reward(request: Request) -> dict[str, Any]:
        """OpenRLHF: texts, their prompts, and labels that are JSON with ``criteria``; rewards out.

        ``scores`` are the rewards' sigmoids, because OpenRLHF filters by numbers from 0 to 1.
        """
        groups = openrlhf_groups(await body_of(request, GetRewardAsked))
        rewards = await _rewards(request, served, groups, "query")
        return {"rewards": rewards, "scores": expit(rewards).tolist(), "extra_logs": {"reward": rewards}}

    @api.post("/classify", response_model=ClassifySaid, openapi_extra=described(ClassifyAsked))
    async def classify(request: Request) -> dict[str, Any]:
        """vLLM and verl: templated texts or messages; in ``probs`` the reward."""
        model, rewards = await _classified(request, served)
        data = [
            {"index": place, "label": "reward", "probs": [reward], "num_classes": 1}
            for place, reward in enumerate(rewards)
        ]
        return {**_head("classify", model), "data": data}

    @api.post("/pooling", response_model=PoolingSaid, openapi_extra=described(ClassifyAsked))
    async def pooling(request: Request) -> dict[str, Any]:
        """vLLM: the same as ``/classify``, as numbers without a label."""
        model, rewards = await _classified(request, served)
        data = [{"index": place, "object": "pooling", "data": [reward]} for place, reward in enumerate(rewards)]
        return {**_head("pool", model), "data": data}

    @api.post("/score", response_model=ProfileSaid, openapi_extra=described(ProfileAsked))
    async def score(request: Request) -> dict[str, Any]:
        """Personalized RewardBench: a response, its query, and a profile, which is one criterion."""
        asked = await body_of(request, ProfileAsked)
        criteria = (asked.profile.strip(),) if asked.profile.strip() else ()
        group = Group(criteria, (Message("user", asked.query),), ((Message("assistant", asked.response_text),),))
        (reward,) = await _rewards(request, served, [group], "response_text")
        return {"score": reward}


async def _classified(request: Request, served: Served) -> tuple[str, list[float]]:
    asked = await body_of(request, ClassifyAsked)
    served.check_model(asked.model)
    if asked.messages is not None:
        groups = [group_of([Message(turn.role, turn.content) for turn in asked.messages], "messages")]
        return served.name, await _rewards(request, served, groups, "messages")
    texts = enumerate(input_texts(asked))
    groups = [group_of(spoken(text, f"input[{place}]"), f"input[{place}]") for place, text in texts]
    return served.name, await _rewards(request, served, groups, "input")


async def _rewards(request: Request, served: Served, groups: Sequence[Group], field: str) -> list[float]:
    """Of groups of one response each. Raises `BodyError` where one of them has none."""
    found = await served.outcome(request, Work(tuple(groups)))
    rewards = []
    for place, ((reward,), (reason,)) in enumerate(zip(found.groups, found.reasons, strict=True)):
        if reward is None:
            hint = "; this judge only compares: ask /v1/compare, or /get_reward with an anchor in its label"
            raise BodyError(f"{field}[{place}]: cannot be read ({reason}){hint if reason == ALONE else ''}")
        rewards.append(reward)
    return rewards


def openrlhf_groups(asked: GetRewardAsked) -> list[Group]:
    """A group of one response for each text. Raises `BodyError` that names the text or label that is wrong."""
    count = len(asked.query)
    labels = asked.labels or [None] * count
    if not len(asked.prompts) == len(labels) == count:
        raise BodyError(
            f"query, prompts, labels: {count}, {len(asked.prompts)} and {len(labels)} items, expected one of each for "
            "every sample"
        )
    rows = zip(asked.query, asked.prompts, labels, strict=True)
    return [_openrlhf_group(place, *row) for place, row in enumerate(rows)]


def _openrlhf_group(place: int, query: str, prompt: str, label: str | None) -> Group:
    told = _label(label, place)
    written = written_after(prompt, query, f"query[{place}]")
    turns = told.turns() or spoken(prompt, f"prompts[{place}]")
    criteria, talk, response = answered(turns, written, f"prompts[{place}]")
    own = tuple(text.strip() for text in told.criteria) or criteria
    return Group(own, talk, (response,), None if told.anchor is None else response_turns(told.anchor))


def _label(label: str | None, place: int) -> Label:
    try:
        return Label.model_validate_json(label) if label else Label()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "text"
        raise BodyError(
            f'labels[{place}]: expected JSON such as {{"criteria": ["Prefers concise answers"]}}, with criteria, '
            f"messages or anchor; {where[:80]}: {first['msg'].lower()}"
        ) from None


def _head(kind: str, model: str) -> dict[str, Any]:
    """What vLLM's answers begin with."""
    identity = f"{kind}-{uuid.uuid4().hex}"
    return {"id": identity, "object": "list", "created": int(time.time()), "model": model, "usage": None}
