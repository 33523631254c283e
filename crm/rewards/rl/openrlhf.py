"""A judge as OpenRLHF's reward function. In: the text, the prompt and the label of one sample. Out: its reward.

A file of two lines, named by ``--reward.remote_url``:

    from crm.rewards.rl import openrlhf_reward
    reward_func = openrlhf_reward("model/")
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from crm.judges import Judge
from crm.rewards.rl.single import SingleRewards
from crm.rewards.rl.turns import answer_turns, completion_turns, criteria_texts, prompt_turns
from crm.rewards.server.chatml import criteria_and_turns, spoken, written_after


def openrlhf_reward(
    judge: str | Path | Judge, *, failed_reward: float | None = None
) -> Callable[[Sequence[str], Sequence[str], Sequence[str]], dict[str, Any]]:
    """``reward_func`` for OpenRLHF.

    The label of a sample (``--data.label_key``) is JSON: ``{"criteria": ["..."], "prompt": "..."}``, with ``anchor``
    for a judge that only compares. ``prompt`` is text or messages; without it the judge reads the policy's prompt,
    which is plain text or in ChatML. Tokens that end a text in the prompt's template are cut off the response.
    ``rewards`` are in nats, ``scores`` between 0 and 1.
    A sample that fails raises, which OpenRLHF logs, or has ``failed_reward`` and ``failed`` 1 in ``extra_logs``.
    """
    rewards = SingleRewards(judge, failed_reward)

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
        """Raises ``ValueError`` for a label that is no such JSON, and for a query that does not begin as its prompt."""
        made = [_reward(rewards, *row) for row in zip(queries, prompts, labels, strict=True)]
        values = torch.tensor([reward for reward, _ in made])
        failed = torch.tensor([float(failed) for _, failed in made])
        scores = torch.tensor([1 / (1 + math.exp(-max(-500.0, reward))) for reward, _ in made])
        return {"rewards": values, "scores": scores, "extra_logs": {"failed": failed}}

    return reward_func


def _reward(rewards: SingleRewards, query: str, prompt: str, label: str) -> tuple[float, bool]:
    given = _label(label)
    response = written_after(prompt, query, "query")
    asked = given.get("prompt", given.get("messages"))
    turns = spoken(prompt, "prompts") if asked is None else prompt_turns(asked, "label.prompt")
    own, talk = criteria_and_turns(turns, "prompts")
    criteria = criteria_texts(given["criteria"], "label.criteria") or own
    anchor = given.get("anchor")
    return rewards.of(
        criteria, talk, completion_turns(response), None if anchor is None else answer_turns(anchor, "label.anchor")
    )


def _label(label: str) -> dict[str, Any]:
    try:
        found = json.loads(label)
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "criteria" not in found:
        raise ValueError(
            f'label: {label!r:.80} is not JSON such as {{"criteria": ["Prefers ..."]}}; set --data.label_key'
        )
    return found
