"""Reward functions for TRL, verl and OpenRLHF, called as the trainers call them, with numbers by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from crm.judges.controls import LengthJudge
from crm.judges.judge import Asked, Reading
from crm.judges.oracle import OracleJudge
from crm.rewards.rl import SETTLED, Scales, grpo_reward, openrlhf_reward, verl_reward
from tests.rewards.serving import OnlyCompares, WordJudge

ASKED = "Why is the sky blue?"
WORDS = (3, 1, 8, 5)
ANSWERS = ["word " * count for count in WORDS]
TWO = ["Keeps it brief", "Sounds formal"]


def logs(*counts: int) -> list[float]:
    return [math.log(1 + count) for count in counts]


def call(reward: Any, completions: list[Any], **columns: Any) -> list[float | None]:
    """As `GRPOTrainer._calculate_rewards` does: everything by name, and more than is needed."""
    count = len(completions)
    columns = {"prompts": [ASKED] * count, "criteria": [["likes words"]] * count} | columns
    own = {"completion_ids": [[1]] * count, "trainer_state": object(), "log_extra": lambda *_: None}
    found: list[float | None] = reward(completions=completions, **own, **columns)
    return found


def test_trl_gets_a_score_for_each_completion_whatever_it_is_written_as() -> None:
    reward = grpo_reward(LengthJudge(), standardize=False)
    assert reward.__name__ == "crm"
    turns = [[{"role": "assistant", "content": text}] for text in ANSWERS]
    asked = [[{"role": "user", "content": ASKED}]] * 4
    assert call(reward, ANSWERS) == call(reward, turns, prompts=asked) == logs(*WORDS)
    texts = ["In brief, just the homework."] * 2 + ["Prefer nothing."]
    criteria = ["Prefers concise answers", ["Prefers detailed answers"], "Prefers concise answers"]
    found = call(grpo_reward(OracleJudge(), criteria="wish", standardize=False), texts, wish=criteria)
    assert found == [4.0, -4.0, None]


def test_a_judge_that_only_compares_compares_within_groups_or_with_the_anchor() -> None:
    reward = grpo_reward(OnlyCompares(), standardize=False)
    found = call(reward, [*ANSWERS, *ANSWERS[:2]], prompts=[ASKED] * 4 + ["And the sea?"] * 2)
    own = logs(*WORDS)
    means = [(4 * score - sum(own)) / 3 for score in own]
    assert found == pytest.approx([*means, own[0] - own[1], own[1] - own[0]])
    anchored = grpo_reward(OnlyCompares(), anchor="reference", standardize=False)
    assert call(anchored, ANSWERS, reference=["one two"] * 4) == pytest.approx([score - math.log(3) for score in own])


def test_an_unread_completion_has_no_reward_and_is_counted() -> None:
    seen: dict[str, float] = {}
    tool = [{"role": "assistant", "content": ""}, {"role": "tool", "content": "42"}]
    reward = grpo_reward(WordJudge(longest=5))
    found = call(reward, [*ANSWERS, tool, "\ud83d"], log_metric=seen.__setitem__)
    assert [value is None for value in found] == [False, False, True, False, True, True]
    assert seen == {"crm/failed": pytest.approx(3 / 6), "crm/score": pytest.approx(sum(logs(3, 1, 5)) / 3)}


@pytest.mark.parametrize(
    ("options", "columns", "why"),
    [
        ({"criteria": "wish"}, {}, r'criteria="wish": the data set has no such column \(it has criteria\)'),
        ({}, {"criteria": ["likes words", " ", "x", "y"]}, r"criteria, row 1\[0\]: expected a non-blank string"),
        ({}, {"prompts": [[{"role": "oracle", "content": ""}]] * 4}, r"prompt, row 0\[0\].role: 'oracle'"),
        ({}, {"prompts": [[{"role": "assistant", "content": "Well"}]] * 4}, "prompt, row 0: holds no turn before"),
    ],
)
def test_a_mistake_in_the_data_set_is_named(options: dict[str, Any], columns: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        call(grpo_reward(LengthJudge(), **options), ANSWERS, **columns)


def test_a_folder_without_a_model_is_named_before_training(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="no model there"):
        grpo_reward(tmp_path)


def test_scales_are_standard_deviations_of_the_first_scores() -> None:
    scales, random = Scales(), np.random.default_rng(5)
    first, later = list(random.normal(3.0, 9.0, SETTLED - 4)), list(random.normal(50.0, 7.0, 32))
    scales.add(("wide",), [None, *first])
    assert scales.standardized(("wide",), first) == pytest.approx(list((first - np.mean(first)) / np.std(first)))
    scales.add(("wide",), later)
    settled = np.array([*first, *later[:4]])
    assert scales.standardized(("wide",), [1.0, None]) == [pytest.approx((1 - settled.mean()) / settled.std()), None]
    scales.add(("equal",), [2.0, 2.0])
    assert scales.standardized(("equal",), [2.0, 5.0]) == [0.0, 3.0]
    assert call(grpo_reward(LengthJudge()), ANSWERS, criteria=["a", "a", "b", "b"]) == pytest.approx([1, -1, 1, -1])


class Recorder(LengthJudge):
    """Keeps criteria, prompt and response of what it read last."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, _ in comparisons:
            sides = ([(turn.role, turn.content) for turn in turns] for turns in (row.prompt, row.response_a))
            self.__dict__["seen"] = (row.criteria, *sides)
        yield from super().read(comparisons)


def by_trl(judge: Recorder, criteria: Any, prompt: Any, written: str) -> None:
    reward = grpo_reward(judge, prompt="query")
    reward([ASKED], [[{"role": "assistant", "content": written}]], criteria=[criteria], query=[prompt])


def by_verl(judge: Recorder, criteria: Any, prompt: Any, written: str) -> None:
    arrays = {
        name: np.array(given, dtype=object) if isinstance(given, list) else given
        for name, given in (("criteria", criteria), ("prompt", prompt))
    }
    verl_reward(judge)(data_source="x", solution_str=written, ground_truth="", extra_info=arrays, reward_router=None)


def by_openrlhf(judge: Recorder, criteria: Any, prompt: Any, written: str) -> None:
    label = json.dumps({"criteria": criteria, "prompt": prompt})
    openrlhf_reward(judge)([f"<s>TEMPLATED{written}<|im_end|>\n"], ["TEMPLATED"], [label])


@pytest.mark.parametrize("adapter", [by_trl, by_verl, by_openrlhf])
@pytest.mark.parametrize(
    ("criteria", "read", "begun", "written", "response"),
    [
        (TWO, TWO, "", "So.", "So."),
        (json.dumps(TWO), TWO, "Well, ", "so.", "Well, so."),
        ("Keeps it brief; Sounds formal", TWO, "<think>\n", "</think>\nSo.", "So."),
        ("[]", ["Prefers the response that most people would find better."], "", " <think>hm</think>So.", None),
    ],
)
def test_all_trainers_have_one_rendering(
    adapter: Any, criteria: Any, read: list[str], begun: str, written: str, response: str | None
) -> None:
    judge = Recorder()
    prompt = [{"role": "user", "content": "Why?"}]
    prompt += [{"role": "assistant", "content": begun}] if begun else []
    adapter(judge, criteria, prompt if begun else "Why?", written)
    assert judge.__dict__["seen"] == (tuple(read), [("user", "Why?")], [("assistant", response or written)])


def test_verl_and_openrlhf_get_a_number_or_an_error_but_never_an_invented_one() -> None:
    info = {"criteria": TWO, "prompt": ASKED}
    short = WordJudge(longest=5)
    assert verl_reward(short, failed_reward=-3.0)("x", ANSWERS[0], "", info) == {"score": math.log(4), "failed": 0}
    assert verl_reward(short, failed_reward=-3.0)("x", ANSWERS[2], "", info) == {"score": -3.0, "failed": 1}
    with pytest.raises(ValueError, match=r"gave it no reward .* failed_reward="):
        verl_reward(short)("x", "\0", "", info)
    with pytest.raises(ValueError, match="extra_info: has no 'criteria'"):
        verl_reward(short)("x", "word", "", {"prompt": ASKED})
    with pytest.raises(ValueError, match="anchor: this judge only compares"):
        verl_reward(OnlyCompares())("x", ANSWERS[0], "", info)
    anchored = verl_reward(OnlyCompares())("x", ANSWERS[0], "", info | {"anchor": "one two"})
    assert anchored["score"] == pytest.approx(math.log(4 / 3))
    found = openrlhf_reward(short, failed_reward=-2.0)(
        ["Pone two", f"P{ANSWERS[2]}"], ["P", "P"], [json.dumps(info)] * 2
    )
    assert found["rewards"].tolist() == pytest.approx([math.log(3), -2.0])
    assert found["scores"].tolist() == pytest.approx(torch.sigmoid(found["rewards"]).tolist())
    assert found["extra_logs"]["failed"].tolist() == [0.0, 1.0]
    for query, label, why in (
        ("something else", json.dumps(info), "does not hold its prompt"),
        ("Pone", "likes words", "is not JSON such as"),
        ("<|user|>one", json.dumps({"criteria": TWO}), r"the prompt is templated \(<\|user\|>\)"),
    ):
        prompt = "<|user|>" if query.startswith("<") else "P"
        with pytest.raises(ValueError, match=why):
            openrlhf_reward(short)([query], [prompt], [label])
