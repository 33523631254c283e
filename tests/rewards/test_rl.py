"""Reward functions for TRL and OpenRLHF, called as the trainers call them, and steps of GRPO in the installed TRL."""

import importlib.metadata
import json
import math
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from transformers import Qwen3ForCausalLM

from crm.judges.crm_judge import placed
from crm.judges.judge import Asked, LengthJudge, OracleJudge, Reading
from crm.model.backbone import build_tiny_backbone
from crm.model.export import export_model
from crm.rewards.rl import grpo_reward, openrlhf_group
from crm.rewards.scoring import Rewards
from tests.rewards.serving import OnlyCompares, WordJudge
from tests.test_docs import DOCS, example

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
    reward = grpo_reward(LengthJudge())
    assert reward.__name__ == "crm"
    turns = [[{"role": "assistant", "content": text}] for text in ANSWERS]
    asked = [[{"role": "user", "content": ASKED}]] * 4
    assert call(reward, ANSWERS) == call(reward, turns, prompts=asked) == logs(*WORDS)
    texts = ["In brief, just the homework."] * 2 + ["Prefer nothing."]
    criteria = ["Prefers concise answers", ["Prefers detailed answers"], "Prefers concise answers"]
    found = call(grpo_reward(OracleJudge(), criteria="taste"), texts, taste=criteria)
    assert found == [4.0, -4.0, None]
    assert grpo_reward(LengthJudge(), criteria=None)([ASKED] * 4, ANSWERS) == logs(*WORDS), "no column is needed"


def test_a_judge_that_only_compares_compares_within_groups() -> None:
    reward = grpo_reward(OnlyCompares())
    found = call(reward, [*ANSWERS, *ANSWERS[:2]], prompts=[ASKED] * 4 + ["And the sea?"] * 2)
    own = logs(*WORDS)
    means = [(4 * score - sum(own)) / 3 for score in own]
    assert found == pytest.approx([*means, own[0] - own[1], own[1] - own[0]])


def test_a_group_over_several_processes_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reward, sent, found = grpo_reward(OnlyCompares()), [{}, {}], {}
    whole = call(reward, ANSWERS)

    def gather(parts: list[Any], own: Any) -> None:
        sent[rank] = own
        parts[:] = sent

    given = {"is_initialized": lambda: True, "get_world_size": lambda: 2, "get_rank": lambda: rank}
    for name, value in {**given, "all_gather_object": gather}.items():
        monkeypatch.setattr(torch.distributed, name, value)
    for rank, part in [(0, ANSWERS[:1]), (1, ANSWERS[1:])] * 2:
        found[rank] = call(reward, part)
    assert found[0] + found[1] == pytest.approx(whole)


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
        ({"criteria": "taste"}, {}, r'criteria="taste": the data set has no such column \(it has criteria\)'),
        ({}, {"prompts": [[{"role": "assistant", "content": "Well"}]] * 4}, "prompt, row 0: holds no turn before"),
    ],
)
def test_a_mistake_in_the_data_set_is_named(options: dict[str, Any], columns: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        call(grpo_reward(LengthJudge(), **options), ANSWERS, **columns)


@pytest.mark.parametrize(("rank", "place"), [("3", 3), ("9", 1), (None, 2)])
def test_each_process_has_its_judge_on_its_own_gpu(rank: str | None, place: int, monkeypatch: Any) -> None:
    """Before its trainer has made that GPU the current one."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank:
        monkeypatch.setenv("LOCAL_RANK", rank)
    for name, value in {"is_available": True, "device_count": 4, "current_device": 2}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    model = MagicMock()
    placed(model, "32-true")
    model.to.assert_called_once_with(torch.device("cuda", place))


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


def by_openrlhf(judge: Recorder, criteria: Any, prompt: Any, written: str) -> None:
    label = json.dumps({"criteria": criteria, "prompt": prompt})
    group = openrlhf_group(f"<s>TEMPLATED{written}<|im_end|>\n", "TEMPLATED", label, "")
    assert group is not None
    Rewards(judge).of_groups([group])


@pytest.mark.parametrize("adapter", [by_trl, by_openrlhf])
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


@pytest.mark.parametrize(
    ("query", "prompt", "label", "why"),
    [
        ("something else", "P", json.dumps({"criteria": TWO}), "does not hold its prompt"),
        ("Pone", "P", "likes words", "is not JSON such as"),
    ],
)
def test_labels_of_openrlhf_that_cannot_be_read(query: str, prompt: str, label: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        openrlhf_group(query, prompt, label, "[0]")


PAGE = DOCS["reinforcement_learning.md"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def policy(tokenizer: Any, tmp_path: Path) -> Path:
    """A folder with a random policy of some thousand weights."""
    config = build_tiny_backbone(len(tokenizer), 16, 2, 2, 512, tokenizer.pad_token_id, 0).config
    config.use_cache = True
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(tmp_path / "policy")
    tokenizer.save_pretrained(tmp_path / "policy")
    (tmp_path / "policy" / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return tmp_path / "policy"


@pytest.mark.slow
def test_the_lines_of_the_page_train(
    policy: Path, make_model: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_model(make_model("late"), tokenizer, Path("runs/mine/model"), {"max_length": 2048})
    code = example(PAGE, "example: trl")
    nul = tokenizer("\0", add_special_tokens=False)["input_ids"]  # a random policy writes it, and no judge reads it
    settings = (
        "use_cpu=True, bf16=False, logging_steps=1, report_to=[], max_completion_length=8, "
        f"generation_kwargs={{'suppress_tokens': {nul}}}"
    )
    for written, here in (
        ('"Qwen/Qwen3-0.6B"', repr(str(policy))),
        ("import GRPOTrainer", "import GRPOConfig, GRPOTrainer"),
        ("train_dataset=", f"args=GRPOConfig({settings}), train_dataset="),
    ):
        assert written in code
        code = code.replace(written, here)
    Path("snippet.py").write_text(code, encoding="utf-8")
    found = runpy.run_path("snippet.py")
    logged = next(row for row in found["trainer"].state.log_history if "rewards/crm/mean" in row)
    assert logged["crm/failed"] == 0
    assert importlib.metadata.version("trl") in PAGE


@pytest.mark.slow
@pytest.mark.parametrize("judge", [OnlyCompares(), WordJudge(longest=3)], ids=["compares", "fails"])
def test_a_step_with_rewards_that_are_means_or_missing(judge: Any, policy: Path, tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        max_steps=1,
        learning_rate=0.1,
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    rows = [{"prompt": f"Question {n}?", "criteria": ["likes words"], "note": n} for n in range(4)]
    model = Qwen3ForCausalLM.from_pretrained(policy)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trainer = GRPOTrainer(model, reward_funcs=grpo_reward(judge), args=settings, train_dataset=Dataset.from_list(rows))
    trainer.train()
    after = model.state_dict()
    assert all(torch.isfinite(weight).all() for weight in after.values())
    assert any(not torch.equal(weight, before[name]) for name, weight in after.items())
    assert any("crm/failed" in row for row in trainer.state.log_history)
