"""A judge as a reward function of TRL. In: a batch of GRPOTrainer or RLOOTrainer. Out: a reward a completion, or None.

    GRPOTrainer(model, reward_funcs=grpo_reward("model/", criteria="criteria"), train_dataset=...)

The criteria come from a column of the data set, so that the policy need not see them. A judge that only compares gives
each completion its mean log-odds against the others of its group, or against an answer in a column of the data set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from crm.judges import Judge
from crm.rewards.rl.scales import Scales
from crm.rewards.rl.turns import Turns, answer_turns, completion_turns, conversation, criteria_texts, prompt_turns
from crm.rewards.scoring import Group, Reward, Rewards, open_rewards

TRL_OWN = ("completion_ids", "trainer_state", "log_extra", "environments")
"""What TRL passes beside the columns of the data set."""
Asking = tuple[tuple[str, ...], Turns, Turns | None]
"""Criteria, prompt and anchor: completions that share them are a group."""


def grpo_reward(
    judge: str | Path | Judge,
    *,
    criteria: str = "criteria",
    prompt: str | None = None,
    anchor: str | None = None,
    standardize: bool = True,
    batch_size: int = 32,
) -> TrlReward:
    """A reward function for TRL's GRPOTrainer and RLOOTrainer, by a checkpoint folder, a model of a hub, or any judge.

    ``criteria``, ``prompt`` and ``anchor`` name columns. Of the criteria a row has one text, a list of them, or the
    list's JSON text. A prompt of plain text is a user's turn, in whatever template; one that ends in an assistant's
    turn begins the response. The judge reads the policy's prompt, unless ``prompt`` names what it reads instead, as
    text or messages: give it where the policy reads the criteria too. ``anchor`` is the answer that a judge which only
    compares puts beside each completion. With ``standardize``, rewards are in standard deviations of the criteria's
    first scores (`Scales`); without, in nats. Raises ``ValueError`` for a folder without a model.
    """
    return TrlReward(open_rewards(judge, batch_size), criteria, prompt, anchor, Scales() if standardize else None)


class TrlReward:
    """What `grpo_reward` gives. TRL logs by ``__name__``: set another one where a trainer has two of them."""

    def __init__(
        self, rewards: Rewards, criteria: str, prompt: str | None, anchor: str | None, scales: Scales | None
    ) -> None:
        self.rewards, self.scales = rewards, scales
        self.criteria, self.prompt, self.anchor = criteria, prompt, anchor
        self.__name__ = "crm"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[Reward]:
        """A reward a completion; None of one that the judge cannot read, which TRL leaves out of its group.

        The mean score (nats) and the share that failed are logged as ``crm/score`` and ``crm/failed``. Raises
        ``ValueError`` for a column that is not there or holds something else.
        """
        groups = self._groups(prompts, completions, columns)
        scores = self.rewards.of_groups([group for group, _ in groups])
        if log_metric:
            _log(log_metric, [score for own in scores for score in own], len(completions))
        return _in_rows([rows for _, rows in groups], self._in_one_unit(groups, scores), len(completions))

    def _in_one_unit(
        self, groups: Sequence[tuple[Group, list[int]]], scores: Sequence[list[Reward]]
    ) -> Sequence[list[Reward]]:
        if self.scales is None:
            return scores
        for (group, _), own in zip(groups, scores, strict=True):
            self.scales.add(group.criteria, own)
        return [self.scales.standardized(group.criteria, own) for (group, _), own in zip(groups, scores, strict=True)]

    def _groups(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[tuple[Group, list[int]]]:
        """Completions that can be read, by what they answer, and their rows."""
        rows: dict[Asking, dict[int, Turns]] = {}
        for row, (wanted, prompt, anchor) in enumerate(self._asked(prompts, columns)):
            if (completion := completion_turns(completions[row])) is not None:
                talk, response = conversation(prompt, completion, f"prompt, row {row}")
                rows.setdefault((wanted, talk, anchor), {})[row] = response
        return [(Group(*asked[:2], tuple(own.values()), asked[2]), list(own)) for asked, own in rows.items()]

    def _asked(self, prompts: Sequence[Any], columns: Mapping[str, Any]) -> list[Asking]:
        wanted = [
            criteria_texts(given, f"{self.criteria}, row {row}")
            for row, given in enumerate(_column(columns, "criteria", self.criteria))
        ]
        asked = prompts if self.prompt is None else _column(columns, "prompt", self.prompt)
        turns = [prompt_turns(given, f"prompt, row {row}") for row, given in enumerate(asked)]
        anchors: list[Turns | None] = [None] * len(wanted)
        if self.anchor is not None:
            given_anchors = _column(columns, "anchor", self.anchor)
            anchors = [answer_turns(given, f"{self.anchor}, row {row}") for row, given in enumerate(given_anchors)]
        return list(zip(wanted, turns, anchors, strict=True))


def _in_rows(rows: Sequence[list[int]], rewards: Sequence[list[Reward]], count: int) -> list[Reward]:
    found: list[Reward] = [None] * count
    for places, own in zip(rows, rewards, strict=True):
        for place, reward in zip(places, own, strict=True):
            found[place] = reward
    return found


def _log(log_metric: Callable[[str, float], None], scores: Sequence[Reward], count: int) -> None:
    known = [score for score in scores if score is not None]
    log_metric("crm/failed", 1 - len(known) / count)
    if known:
        log_metric("crm/score", fmean(known))


def _column(columns: Mapping[str, Any], option: str, name: str) -> Sequence[Any]:
    if name in columns:
        found: Sequence[Any] = columns[name]
        return found
    there = ", ".join(sorted(set(columns) - set(TRL_OWN))) or "none beside the prompt"
    raise ValueError(
        f'{option}="{name}": the data set has no such column (it has {there}); add it, or name another: '
        f'grpo_reward(..., {option}="...")'
    )
