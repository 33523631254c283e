"""A judge as the reward function of TRL, verl and OpenRLHF."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import torch

from crm.judges.judge import Judge
from crm.rewards.scoring import Group, Reward, open_rewards
from crm.rewards.turns import Turns, answer_turns, completion_turns, conversation, criteria_texts, prompt_turns
from crm.schema import RecordError

TRL_OWN = {"completion_ids", "trainer_state", "log_extra", "environments"}
"""What TRL passes beside the columns of the data set."""
SETTLED = 64
"""Scores that mean and spread of one user's criteria are taken from."""
NARROW = 1e-6
"""Nats: a spread below this is rounding, and scores are only centred."""
END_TOKENS = re.compile(r"\s*(<\|\w+\|>\s*|</s>\s*|<eos>\s*|<end_of_turn>\s*)+\Z")
"""What a policy's tokenizer leaves at the end of a response."""
TEMPLATED = re.compile(r"<\|\w+\|>|\[INST\]|<start_of_turn>")


class Scales:
    """Scores in standard deviations above the mean of the first `SETTLED` scores under the same criteria.

    Within a group GRPO subtracts the mean anyway. Where it does not divide by the spread (RLOO, ``scale_rewards``
    "none" or "batch"), or where several rewards are added, criteria with widely spread scores would count for more.
    Each process of a distributed run, and a resumed run, takes its own first scores.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], list[float]] = {}

    def add(self, criteria: tuple[str, ...], scores: Sequence[Reward]) -> None:
        """Take scores (nats) into account while the criteria have fewer than `SETTLED`."""
        first = self._first.setdefault(criteria, [])
        first += [score for score in scores if score is not None][: SETTLED - len(first)]

    def standardized(self, criteria: tuple[str, ...], scores: Sequence[Reward]) -> list[Reward]:
        """Scores (nats) in standard deviations; None stays None."""
        if not (first := self._first.get(criteria)):
            return list(scores)
        mean, spread = fmean(first), pstdev(first)
        unit = spread if spread > NARROW else 1.0
        return [None if score is None else (score - mean) / unit for score in scores]


def grpo_reward(
    judge: str | Path | Judge,
    *,
    criteria: str = "criteria",
    prompt: str | None = None,
    anchor: str | None = None,
    standardize: bool = True,
    batch_size: int = 32,
) -> Callable[..., list[Reward]]:
    """A reward function for TRL's GRPOTrainer and RLOOTrainer, by a checkpoint folder, a model of a hub, or any judge.

        GRPOTrainer(model, reward_funcs=grpo_reward("model/"), train_dataset=...)

    ``criteria``, ``prompt`` and ``anchor`` name columns of the data set. The criteria of a row are one text, a list of
    texts, or the list's JSON text. The judge reads the policy's prompt, or the column ``prompt`` where the policy reads
    the criteria too. ``anchor`` is the answer that a judge which only compares puts beside each completion, instead of
    the others of its group. With ``standardize``, rewards are in standard deviations (`Scales`); without, in nats.
    Raises ``ValueError`` for a folder without a model. TRL logs by the function's ``__name__``.
    """
    rewards, scales = open_rewards(judge, batch_size), Scales() if standardize else None

    def crm(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[Reward]:
        """A reward a completion; None where the judge cannot read it, which TRL leaves out of its group.

        The mean score (nats) and the share that failed are logged as ``crm/score`` and ``crm/failed``. Raises
        ``ValueError`` for a column that is missing or holds something else.
        """
        wanted = _column(columns, "criteria", criteria)
        asked = prompts if prompt is None else _column(columns, "prompt", prompt)
        anchors = [None] * len(wanted) if anchor is None else _column(columns, "anchor", anchor)
        rows: dict[tuple[tuple[str, ...], Turns, Turns | None], list[tuple[int, Turns]]] = {}
        for row, completion in enumerate(completions):
            own = criteria_texts(wanted[row], f"{criteria}, row {row}")
            talk = prompt_turns(asked[row], f"prompt, row {row}")
            beside = None if anchors[row] is None else answer_turns(anchors[row], f"{anchor}, row {row}")
            if (written := completion_turns(completion)) is not None:
                talk, response = conversation(talk, written, f"prompt, row {row}")
                rows.setdefault((own, talk, beside), []).append((row, response))
        groups = [Group(key[0], key[1], tuple(text for _, text in each), key[2]) for key, each in rows.items()]
        scores = rewards.of_groups(groups)
        if log_metric:
            known = [score for each in scores for score in each if score is not None]
            log_metric("crm/failed", 1 - len(known) / len(completions))
            if known:
                log_metric("crm/score", fmean(known))
        if scales is not None:
            for group, each in zip(groups, scores, strict=True):
                scales.add(group.criteria, each)
            scores = [scales.standardized(group.criteria, each) for group, each in zip(groups, scores, strict=True)]
        found: list[Reward] = [None] * len(completions)
        for places, each in zip(rows.values(), scores, strict=True):
            for (row, _), reward in zip(places, each, strict=True):
                found[row] = reward
        return found

    return crm


def _column(columns: Mapping[str, Any], option: str, name: str) -> Sequence[Any]:
    if name in columns:
        return list(columns[name])
    there = ", ".join(sorted(set(columns) - TRL_OWN)) or "none beside the prompt"
    raise ValueError(
        f'{option}="{name}": the data set has no such column (it has {there}); add it, or name another: '
        f'grpo_reward(..., {option}="...")'
    )


class _Single:
    """A judge for trainers that ask for one response at a time, from several threads; rewards are in nats."""

    def __init__(self, judge: str | Path | Judge, failed_reward: float | None) -> None:
        self._rewards, self._failed = open_rewards(judge), failed_reward
        self._lock = threading.Lock()

    def __call__(self, group: Group | None) -> tuple[float, bool]:
        """The reward of the only response and whether it failed; of None, and of an unread one, ``failed_reward``."""
        if group is not None:
            if group.anchor is None and not self._rewards.pointwise:
                raise ValueError("anchor: this judge only compares; give an answer to compare with, or a scalar head")
            with self._lock:
                reward = self._rewards.of_groups([group])[0][0]
            if reward is not None:
                return reward, False
        if self._failed is None:
            raise ValueError(
                "response: the judge gave it no reward (it is longer than the judge reads, or holds half a character), "
                "and this trainer cannot leave it out; shorten responses, or set failed_reward=..."
            )
        return self._failed, True


def verl_reward(judge: str | Path | Judge, *, failed_reward: float | None = None) -> Callable[..., dict[str, Any]]:
    """``compute_score`` for verl: ``score`` in nats, and ``failed``, 1 where it is ``failed_reward``.

    ``extra_info`` of a row holds ``criteria``, ``prompt`` (text or messages) and, for a judge that only compares, the
    answer ``anchor``.
    """
    single = _Single(judge, failed_reward)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any], **_: Any
    ) -> dict[str, Any]:
        score, failed = single(_group(extra_info, solution_str, "extra_info"))
        return {"score": score, "failed": int(failed)}

    return compute_score


def openrlhf_reward(judge: str | Path | Judge, *, failed_reward: float | None = None) -> Callable[..., dict[str, Any]]:
    """``reward_func`` for OpenRLHF: ``rewards`` in nats, ``scores`` from 0 to 1, ``extra_logs`` with ``failed``.

    Labels are those of `openrlhf_group`.
    """
    single = _Single(judge, failed_reward)

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
        found = [single(openrlhf_group(*row)) for row in zip(queries, prompts, labels, strict=True)]
        rewards = torch.tensor([reward for reward, _ in found])
        failed = torch.tensor([float(failed) for _, failed in found])
        return {"rewards": rewards, "scores": rewards.sigmoid(), "extra_logs": {"failed": failed}}

    return reward_func


def openrlhf_group(query: str, prompt: str, label: str | None, at: str = "") -> Group | None:
    """The response in ``query``, which begins with ``prompt``, for the user of the ``label``; None if unreadable.

    The label (``--data.label_key``) is JSON: ``{"criteria": [...], "prompt": "..."}``, with ``anchor`` for a judge that
    only compares. Its ``prompt`` is text or messages; without it the policy's prompt is plain text of the user. Raises
    ``ValueError`` for another label, a templated prompt without one, and a query that does not hold its prompt; ``at``
    says which.
    """
    try:
        given = json.loads(label or "null")
    except ValueError:
        given = None
    if not isinstance(given, dict) or "criteria" not in given:
        raise RecordError(
            f"label{at}", f'{label!r:.80} is not JSON such as {{"criteria": ["..."]}}; set --data.label_key'
        )
    if "prompt" not in given and (token := TEMPLATED.search(prompt)):
        raise RecordError(
            f"label{at}", f'the prompt is templated ({token[0]}); add {{"prompt": ...}}, text or messages'
        )
    _, found, response = query.partition(prompt)
    if not (found and prompt):
        raise RecordError(f"query{at}", f"{query!r:.80} does not hold its prompt {prompt!r:.80}")
    return _group({"prompt": prompt} | given, END_TOKENS.sub("", response), f"label{at}")


def _group(given: Mapping[str, Any], completion: str, field: str) -> Group | None:
    """One response; lists of a Parquet file may be numpy arrays."""
    plain = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in given.items()}
    for name in ("criteria", "prompt"):
        if name not in plain:
            raise RecordError(field, f"has no {name!r}; add it to the data set")
    criteria = criteria_texts(plain["criteria"], f"{field}.criteria")
    prompt = prompt_turns(plain["prompt"], f"{field}.prompt")
    anchor = None if plain.get("anchor") is None else answer_turns(plain["anchor"], f"{field}.anchor")
    if (response := completion_turns(completion)) is None:
        return None
    prompt, response = conversation(prompt, response, f"{field}.prompt")
    return Group(criteria, prompt, (response,), anchor)
