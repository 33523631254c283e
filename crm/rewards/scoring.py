"""A judge as a source of rewards.

A pointwise judge gives each response its score, in nats: the difference of two is the log-odds that the user prefers
the first. A judge that only compares gives the mean log-odds of a response against the others of its group, every pair
read in both orders. A response that cannot be read has no reward: None, never a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from crm.data.fields import criteria_cell
from crm.judges.crm_judge import CrmJudge, open_checkpoint
from crm.judges.judge import Asked, Judge, Reading
from crm.model.encoding import Order
from crm.model.late_reading import LateReader
from crm.schema import GENERIC_CRITERION, Comparison, Message, RecordError, check_response, messages

Reward = float | None
Turns = tuple[Message, ...]
NO_VERDICT = "no_verdict"
"""Why there is no reward where the judge gave no finite number."""
EMPTY_THOUGHT = re.compile(r"\A\s*<think>\s*</think>\s*")
"""Written by templates of reasoning models before a response without thoughts."""


@dataclass(frozen=True)
class Group:
    """Responses to one prompt, for a user with these criteria; none are the generic criterion."""

    criteria: tuple[str, ...]
    prompt: Turns
    responses: tuple[Turns, ...]


@dataclass(frozen=True)
class Pair:
    """Two responses of a group, by their places in it."""

    group: Group
    first: int
    second: int

    def comparison(self, name: str) -> Comparison:
        """The record that a judge reads, without a vote."""
        group = self.group
        return Comparison(
            id=name,
            preference_id=name,
            criteria=group.criteria or (GENERIC_CRITERION,),
            prompt=group.prompt,
            response_a=group.responses[self.first],
            response_b=group.responses[self.second],
            label="tie",
            direction="none",
        )


class Rewards:
    """Rewards by one judge; ``pointwise`` says whether it scores each response by itself."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.pointwise = bool(getattr(judge, "pointwise", False))
        self._reader = judge.late_reader if isinstance(judge, CrmJudge) else None
        self.unanswered: set[Group] = set()
        """Groups of the last call for which an endpoint gave no reply at all: to be asked again."""

    def of_groups(self, groups: Sequence[Group]) -> list[list[Reward]]:
        """A reward for each response of each group, in their order."""
        if not groups:
            return []
        if self._reader is not None:
            return _by_vectors(self._reader, groups)
        return self._scores(groups) if self.pointwise else self._means(groups)

    def of_pairs(self, pairs: Sequence[Pair]) -> list[Reward]:
        """The log-odds that the first of each pair is preferred, averaged over both orders; None unless both were
        read."""
        return [None if ab is None or ba is None else (ab + ba) / 2 for ab, ba in self.in_both_orders(pairs)]

    def in_both_orders(self, pairs: Sequence[Pair]) -> list[tuple[Reward, Reward]]:
        """The same log-odds, with the first of each pair shown first and with it shown second."""
        orders: tuple[Order, ...] = ("ab",) if self.pointwise else ("ab", "ba")
        rows = [pair.comparison(str(number)) for number, pair in enumerate(pairs)]
        logits: dict[tuple[str, str], Reward] = {}
        for reading in self._read([(row, order) for row in rows for order in orders]):
            logits[reading.comparison.id, reading.order] = _finite(reading.preference_logit)
        lacking = {row.id for row in rows for order in orders if (row.id, order) not in logits}
        again = self.judge.left_out == "unanswered"
        self.unanswered = {pair.group for row, pair in zip(rows, pairs, strict=True) if again and row.id in lacking}
        return [(logits.get((row.id, "ab")), logits.get((row.id, orders[-1]))) for row in rows]

    def why_no_reward(self, group: Group, at: int) -> str:
        """A word for why a response of ``group`` has no reward; for a judge that compares, of its first pair."""
        return self.why_unread(Pair(group, at, at if self.pointwise else int(at == 0)))

    def why_unread(self, pair: Pair) -> str:
        """A word for why there is no number for ``pair``, which is read again; an endpoint is not asked again."""
        if not self.pointwise and self.judge.left_out == "unanswered":
            return NO_VERDICT
        for reading in self._read([(pair.comparison("why"), "ab")]):
            return reading.failure or NO_VERDICT
        return self.judge.left_out

    def _scores(self, groups: Sequence[Group]) -> list[list[Reward]]:
        """Each response is read once, beside itself: one that cannot be read costs no other its score."""
        asked = dict.fromkeys((group.criteria, group.prompt, text) for group in groups for text in group.responses)
        alone = [Pair(Group(criteria, prompt, (text,)), 0, 0) for criteria, prompt, text in asked]
        rows: list[Asked] = [(pair.comparison(str(number)), "ab") for number, pair in enumerate(alone)]
        found = {int(reading.comparison.id): _finite(reading.score_a) for reading in self._read(rows)}
        scores = {key: found.get(number) for number, key in enumerate(asked)}
        return [[scores[group.criteria, group.prompt, text] for text in group.responses] for group in groups]

    def _means(self, groups: Sequence[Group]) -> list[list[Reward]]:
        pairs = [[Pair(group, *two) for two in combinations(range(len(group.responses)), 2)] for group in groups]
        logits = iter(self.of_pairs([pair for own in pairs for pair in own]))
        found = []
        for group, own in zip(groups, pairs, strict=True):
            against: list[list[float]] = [[] for _ in group.responses]
            for pair in own:
                if (logit := next(logits)) is not None:
                    against[pair.first].append(logit)
                    against[pair.second].append(-logit)
            found.append([fmean(known) if known else None for known in against])
        return found

    def _read(self, asked: Sequence[Asked]) -> Iterable[Reading]:
        return (reading for portion in self.judge.read(asked) for reading in portion)


def open_rewards(judge: str | Path | Judge, batch_size: int = 32) -> Rewards:
    """Rewards by a judge, or by the model of a checkpoint folder or of a hub's ``owner/name``, read in float32.

    Raises ``ValueError`` for a folder without a model.
    """
    if not isinstance(judge, str | Path):
        return Rewards(judge)
    return Rewards(open_checkpoint(judge, batch_size=batch_size)[0])


def _by_vectors(reader: LateReader, groups: Sequence[Group]) -> list[list[Reward]]:
    """Each response and each criterion is read once, however many groups have it."""
    talks = list(dict.fromkeys((group.prompt, text) for group in groups for text in group.responses))
    places = {talk: place for place, talk in enumerate(talks)}
    vectors = reader.responses(talks)
    criteria = [group.criteria or (GENERIC_CRITERION,) for group in groups]
    texts = list(dict.fromkeys(text for own in criteria for text in own))
    read = dict(zip(texts, reader.criterion_vectors(texts), strict=True))
    found = []
    for group, own in zip(groups, criteria, strict=True):
        rows = vectors[[places[group.prompt, text] for text in group.responses]]
        found.append([_finite(score) for score in (rows @ torch.stack([read[text] for text in own]).sum(0)).tolist()])
    return found


def _finite(number: float | None) -> Reward:
    return number if number is not None and math.isfinite(number) else None


def prompt_turns(given: Any, field: str, role: str = "user") -> Turns:
    """Plain text is one turn of ``role``, whatever template it is written in; a list holds ``{"role", "content"}``."""
    return messages([{"role": role, "content": given}] if isinstance(given, str) else given, field)


def answer_turns(given: Any, field: str) -> Turns:
    """The same of an assistant."""
    turns = prompt_turns(given, field, "assistant")
    check_response(turns, field)
    return turns


def completion_turns(given: Any) -> Turns | None:
    """As `answer_turns`, or None for what no judge here reads: the result of a tool, a lone surrogate."""
    try:
        return answer_turns(given, "completion")
    except RecordError:
        return None


def conversation(prompt: Turns, response: Turns, field: str = "prompt") -> tuple[Turns, Turns]:
    """Prompt and response of what a policy wrote after ``prompt``, whose last turn may begin the response.

    An empty thought before the response is dropped. Raises `RecordError` for a prompt without any other turn.
    """
    if prompt and prompt[-1].role == "assistant" and response[0].role == "assistant":
        whole = Message("assistant", prompt[-1].content + response[0].content)
        prompt, response = prompt[:-1], (whole, *response[1:])
    if not prompt:
        raise RecordError(field, "holds no turn before the response")
    first = response[0]
    return prompt, (Message(first.role, EMPTY_THOUGHT.sub("", first.content, count=1)), *response[1:])


def criteria_texts(given: Any, field: str) -> tuple[str, ...]:
    """A list of texts, its JSON text, or one text, read as a cell of a table (`crm.data.fields.criteria_cell`).

    None and an empty list are the generic criterion. Raises `RecordError` for blank text.
    """
    if isinstance(given, str) and not given.strip():
        raise RecordError(f"{field}[0]", f"expected a non-blank string, got {given!r:.80}")
    return criteria_cell(given, field)
