"""The reward function of TRL's trainers, called as TRL calls it, with numbers by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from crm.judges.controls import LengthJudge
from crm.judges.oracle import OracleJudge
from crm.rewards import grpo_reward
from tests.rewards.rl.judges import OnlyCompares, ShortOnly

ASKED = "Why is the sky blue?"
WORDS = (3, 1, 8, 5)
ANSWERS = ["word " * count for count in WORDS]


def logs(*counts: int) -> list[float]:
    return [math.log(1 + count) for count in counts]


def call(reward: Any, completions: list[Any], **columns: Any) -> list[float | None]:
    """As `GRPOTrainer._calculate_rewards` does: everything by name, and more than is needed."""
    count = len(completions)
    columns = {
        "prompts": [ASKED] * count,
        "criteria": [["likes words"]] * count,
        "log_metric": lambda *_: None,
    } | columns
    own = {"completion_ids": [[1]] * count, "trainer_state": object(), "log_extra": lambda *_: None}
    found: list[float | None] = reward(completions=completions, **own, **columns)
    return found


def test_a_score_for_each_completion_in_their_order_whatever_it_is_written_as() -> None:
    reward = grpo_reward(LengthJudge(), standardize=False)
    assert reward.__name__ == "crm"
    assert call(reward, ANSWERS) == logs(*WORDS)
    turns = [[{"role": "assistant", "content": text}] for text in ANSWERS]
    asked = [[{"role": "user", "content": ASKED}]] * 4
    assert call(reward, turns, prompts=asked) == logs(*WORDS)
    assert call(reward, ANSWERS, criteria=["likes words"] * 4) == logs(*WORDS)


def test_the_criteria_of_each_row_are_the_ones_that_count() -> None:
    texts = ["In brief, just the homework."] * 2 + ["Prefer nothing."]
    criteria = ["Prefers concise answers", ["Prefers detailed answers"], "Prefers concise answers"]
    found = call(grpo_reward(OracleJudge(), criteria="wish", standardize=False), texts, wish=criteria)
    assert found == [4.0, -4.0, None]


def test_a_judge_that_only_compares_compares_within_groups() -> None:
    reward = grpo_reward(OnlyCompares(), standardize=False)
    found = call(reward, [*ANSWERS, *ANSWERS[:2]], prompts=[ASKED] * 4 + ["And the sea?"] * 2)
    own = logs(*WORDS)
    means = [(4 * score - sum(own)) / 3 for score in own]
    gap = own[0] - own[1]
    assert found == pytest.approx([*means, gap, -gap])
    alone = call(reward, ANSWERS, criteria=["likes words"] * 3 + ["hates words"])
    assert alone[3] is None


def test_or_with_the_answer_in_a_column() -> None:
    reward = grpo_reward(OnlyCompares(), anchor="reference", standardize=False)
    found = call(reward, ANSWERS, reference=["one two"] * 4)
    assert found == pytest.approx([score - math.log(3) for score in logs(*WORDS)])


def test_what_a_judge_cannot_read_has_no_reward_and_is_counted() -> None:
    seen: dict[str, float] = {}
    tool = [{"role": "assistant", "content": ""}, {"role": "tool", "content": "42"}]
    found = call(grpo_reward(ShortOnly()), [*ANSWERS, tool], log_metric=seen.__setitem__)
    assert [reward is None for reward in found] == [False, False, True, False, True]
    assert seen == {"crm/failed": pytest.approx(2 / 5), "crm/score": pytest.approx(sum(logs(3, 1, 5)) / 3)}
    nothing: dict[str, float] = {}
    assert call(grpo_reward(ShortOnly()), ANSWERS[2:3], log_metric=nothing.__setitem__) == [None]
    assert nothing == {"crm/failed": 1.0}


def test_rewards_of_all_criteria_have_one_unit() -> None:
    found = call(grpo_reward(LengthJudge()), [*ANSWERS[:2], *ANSWERS[2:]], criteria=["a", "a", "b", "b"])
    assert found == pytest.approx([1, -1, 1, -1])


def test_the_judge_may_read_another_prompt_than_the_policy() -> None:
    seen = []

    class Listens(LengthJudge):
        def read(self, comparisons: Any) -> Any:
            seen.extend(row.prompt[0].content for row, _ in comparisons)
            return super().read(comparisons)

    call(grpo_reward(Listens(), prompt="query"), ANSWERS, query=["the query"] * 4)
    assert set(seen) == {"the query"}


@pytest.mark.parametrize(
    ("options", "columns", "said"),
    [
        ({"criteria": "wish"}, {}, r'criteria="wish": the data set has no such column \(it has criteria\)'),
        ({"anchor": "reference"}, {}, r'anchor="reference": .*add it, or name another: grpo_reward\(\.\.\., anchor='),
        ({}, {"criteria": ["likes words", " ", "x", "y"]}, r"criteria, row 1\[0\]: expected a non-blank string"),
        ({}, {"prompts": [[{"role": "oracle", "content": ""}]] * 4}, r"prompt, row 0\[0\].role: 'oracle'"),
    ],
)
def test_a_mistake_in_the_data_set_is_named(options: dict[str, str], columns: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(grpo_reward(LengthJudge(), **options), ANSWERS, **columns)  # type: ignore[arg-type]


def test_a_folder_without_a_model_is_refused_before_anything_is_trained(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="no model there"):
        grpo_reward(tmp_path)
