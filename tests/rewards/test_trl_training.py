"""A tiny policy takes GRPO steps in the installed TRL, with the lines of the docs."""

from __future__ import annotations

import importlib.metadata
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3ForCausalLM

from crm.model.backbone import build_tiny_backbone
from crm.model.export import export_model
from crm.rewards.rl import grpo_reward
from tests.rewards.serving import OnlyCompares, WordJudge
from tests.test_docs import DOCS, example

pytestmark = pytest.mark.slow
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
