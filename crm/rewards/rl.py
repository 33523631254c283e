"""A judge as the reward function of TRL, and the labels of OpenRLHF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch.distributed as dist

from crm.judges.judge import Judge
from crm.rewards.scoring import (
    Group,
    Reward,
    Turns,
    completion_turns,
    conversation,
    criteria_texts,
    open_rewards,
    prompt_turns,
)
from crm.schema import RecordError

_Key = tuple[tuple[str, ...], Turns]
TRL_OWN = {"completion_ids", "trainer_state", "log_extra", "environments"}
"""What TRL passes beside the columns of the data set."""
END_TOKENS = re.compile(r"\s*(<\|\w+\|>\s*|</s>\s*|<eos>\s*|<end_of_turn>\s*)+\Z")
"""What a policy's tokenizer leaves at the end of a response."""


def grpo_reward(
    judge: str | Path | Judge, *, criteria: str | None = "criteria", prompt: str | None = None, batch_size: int = 32
) -> Callable[..., list[Reward]]:
    """A reward function for TRL's GRPOTrainer and RLOOTrainer, by a checkpoint folder, a model of a hub, or any judge.

        GRPOTrainer(model, reward_funcs=grpo_reward("model/"), train_dataset=...)

    ``criteria`` and ``prompt`` name columns of the data set. The criteria of a row are one text, a list of texts, or
    the list's JSON text; None reads none. The judge reads the policy's prompt, or the column ``prompt`` where the
    policy reads the criteria too. Rewards are in nats. Raises ``ValueError`` for a folder without a model. TRL logs by
    the function's ``__name__``.
    """
    rewards = open_rewards(judge, batch_size)

    def crm(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[Reward]:
        """A reward a completion; None where the judge cannot read it, which TRL leaves out of its group.

        The mean score and the share that failed are logged as ``crm/score`` and ``crm/failed``. Raises ``ValueError``
        for a column that is missing or holds something else.
        """
        wanted = [None] * len(completions) if not criteria else _column(columns, "criteria", criteria)
        asked = prompts if prompt is None else _column(columns, "prompt", prompt)
        rows: dict[_Key, list[tuple[int, Turns]]] = {}
        for row, completion in enumerate(completions):
            own = criteria_texts(wanted[row], f"{criteria}, row {row}")
            talk = prompt_turns(asked[row], f"prompt, row {row}")
            if (written := completion_turns(completion)) is not None:
                talk, response = conversation(talk, written, f"prompt, row {row}")
                rows.setdefault((own, talk), []).append((row, response))
        texts = {key: tuple(text for _, text in each) for key, each in rows.items()}
        whole = texts if rewards.pointwise else _of_all_processes(texts)
        scores = rewards.of_groups([Group(*key, each) for key, each in whole.items()])
        found: list[Reward] = [None] * len(completions)
        for places, each in zip(rows.values(), scores, strict=True):
            for (row, _), reward in zip(places, each, strict=False):
                found[row] = reward
        if log_metric:
            known = [score for score in found if score is not None]
            log_metric("crm/failed", 1 - len(known) / len(found))
            if known:
                log_metric("crm/score", fmean(known))
        return found

    return crm


def _of_all_processes(own: dict[_Key, tuple[Turns, ...]]) -> dict[_Key, tuple[Turns, ...]]:
    """The responses of each group, ``own`` first: a trainer may split a group over its processes."""
    if not (dist.is_available() and dist.is_initialized()):
        return own
    parts: list[dict[_Key, tuple[Turns, ...]]] = [{}] * dist.get_world_size()
    dist.all_gather_object(parts, own)
    del parts[dist.get_rank()]
    return {key: sum((part.get(key, ()) for part in parts), texts) for key, texts in own.items()}


def _column(columns: Mapping[str, Any], option: str, name: str) -> Sequence[Any]:
    if name in columns:
        return list(columns[name])
    there = ", ".join(sorted(set(columns) - TRL_OWN)) or "none beside the prompt"
    raise ValueError(
        f'{option}="{name}": the data set has no such column (it has {there}); add it, or name another where you make '
        f'the reward: {option}="...", or {option}=None'
    )


def openrlhf_group(query: str, prompt: str, label: str | None, at: str) -> Group | None:
    """The response in ``query``, which begins with ``prompt``, for the user of the ``label``; None if unreadable.

    The label (``--data.label_key``) is JSON: ``{"criteria": [...], "prompt": "..."}``, and its ``prompt`` text or
    messages. Raises `RecordError` for another label and a query that does not hold its prompt; ``at`` says which.
    """
    try:
        given = json.loads(label or "null")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        why = f'{label!r:.80} is not JSON such as {{"criteria": ["..."], "prompt": "..."}}; set --data.label_key'
        raise RecordError(f"label{at}", why)
    _, found, response = query.partition(prompt)
    if not (found and prompt):
        raise RecordError(f"query{at}", f"{query!r:.80} does not hold its prompt {prompt!r:.80}")
    for name in ("criteria", "prompt"):
        if name not in given:
            raise RecordError(f"label{at}", f"has no {name!r}; add it to the data set")
    criteria = criteria_texts(given["criteria"], f"label{at}.criteria")
    asked = prompt_turns(given["prompt"], f"label{at}.prompt")
    if (written := completion_turns(END_TOKENS.sub("", response))) is None:
        return None
    asked, answer = conversation(asked, written, f"label{at}.prompt")
    return Group(criteria, asked, (answer,))
