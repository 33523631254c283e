"""Texts of a policy, with proxy, gold and KL of each.

The proxy is the reward model's score; gold is the simulation's truth, the level of the criterion's axis in a text, from
-1 to +1. A text that the simulation could not have written has no gold: it is degenerate and loses against any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crm.data.simulation.arena import utility
from crm.data.simulation.lexicon import levels_of, pole_of
from crm.leaderboard.bank.opening import simulate_bank
from crm.rewards.scoring import Group, Rewards
from crm.schema import Message
from experiments.grpo.grammar import sentences
from experiments.grpo.start import LONGEST, conversation

PER_TOPIC = 10
"""Queries of each of the twelve topics; they are a bank's, so that no policy and no reward model has met them."""


@dataclass(frozen=True)
class Ask:
    """A query, the criterion that its answer is judged by, and whether the policy reads it in its prompt."""

    query: str
    criterion: str
    conditioned: bool = False


@dataclass(frozen=True)
class Written:
    """Texts in the order of the asks, their tokens with the end, and the KL of each to the start (nats, one sample)."""

    texts: list[str]
    tokens: list[int]
    kl: list[float]


def held_out_queries(per_topic: int = PER_TOPIC) -> dict[str, str]:
    """Texts of queries by their ids in the bank."""
    bank = simulate_bank(seed=0, queries_per_topic=per_topic).bank
    return {query.id: query.prompt[0].content for query in bank.queries}


@torch.no_grad()
def write_all(policy: Any, start: Any, tokenizer: Any, asks: Sequence[Ask], seed: int) -> Written:
    """One response an ask, drawn at temperature 1; the state of torch's own random numbers stays as it was."""
    asked = [conversation(ask.query, ask.criterion if ask.conditioned else None) for ask in asks]
    inputs = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    training = policy.training
    policy.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        ids = policy.generate(**inputs, max_new_tokens=LONGEST, do_sample=True, temperature=1.0, top_k=0)
    answers = ids[:, inputs["input_ids"].shape[1] :]
    own = _up_to_end(answers, tokenizer.eos_token_id)
    mask = torch.cat([inputs["attention_mask"], own.long()], dim=1)
    gap = _log_probabilities(policy, ids, mask, answers) - _log_probabilities(start, ids, mask, answers)
    policy.train(training)
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    return Written(texts, own.sum(1).tolist(), (gap * own).sum(1).tolist())


def _up_to_end(answers: Tensor, end: int) -> Tensor:
    """(B, T) bool: the tokens of each answer, its end with them, but not what pads it."""
    ended = (answers == end).long().cumsum(1)
    return (ended == 0) | ((ended == 1) & (answers == end))


def _log_probabilities(policy: Any, ids: Tensor, mask: Tensor, answers: Tensor) -> Tensor:
    """(B, T) of the tokens of the answers; positions are relative, so that padding on the left does not matter."""
    logits = policy(input_ids=ids, attention_mask=mask).logits
    logits = logits[:, -answers.shape[1] - 1 : -1]
    found: Tensor = logits.float().log_softmax(-1).gather(-1, answers[..., None])[..., 0]
    return found


def proxies(rewards: Rewards, asks: Sequence[Ask], texts: Sequence[str]) -> list[float | None]:
    """Scores (nats) by the reward model; None of a text that it cannot read."""
    groups = [
        Group((ask.criterion,), (Message("user", ask.query),), ((Message("assistant", text),),))
        for ask, text in zip(asks, texts, strict=True)
    ]
    return [own[0] for own in rewards.of_groups(groups)]


def gold(criterion: str, text: str) -> int | None:
    """-1, 0 or +1; None of a degenerate text."""
    pole, levels = pole_of(criterion), levels_of(text)
    assert pole is not None, "a criterion that the simulation does not know"
    if levels is None or sentences(text) is None:
        return None
    return utility({pole[0]: pole[1]}, dict(levels))


def won(own: int | None, other: int | None) -> float:
    """1 where the first has more gold, 1/2 where both are worth the same; one without gold is worth least."""
    first, second = (-2 if level is None else level for level in (own, other))
    return 0.5 if first == second else float(first > second)
