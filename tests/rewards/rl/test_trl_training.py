"""A tiny policy is trained by TRL with a tiny reward model: what the installed version calls, not what we remember."""

from __future__ import annotations

import importlib.metadata
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.model.export import export_model
from crm.rewards import grpo_reward
from tests.rewards.rl.judges import OnlyCompares, ShortOnly
from tests.test_docs import DOCS, example

pytestmark = pytest.mark.slow
PAGE = DOCS["reinforcement_learning.md"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def policy(tokenizer: Any, tmp_path: Path) -> Iterator[Path]:
    """A folder with a random policy of some thousand weights."""
    import torch
    from transformers import Qwen3ForCausalLM

    from crm.model.backbone import build_tiny_backbone

    config = build_tiny_backbone(len(tokenizer), 16, 2, 2, 512, tokenizer.pad_token_id, 0).config
    config.use_cache = True
    torch.manual_seed(0)
    Qwen3ForCausalLM(config).save_pretrained(tmp_path / "policy")
    tokenizer.save_pretrained(tmp_path / "policy")
    (tmp_path / "policy" / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    yield tmp_path / "policy"


def test_the_lines_of_the_page_train(
    policy: Path, make_model: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_model(make_model("late"), tokenizer, Path("runs/mine/model"), {"max_length": 2048})
    code = example(PAGE, "example: trl")
    nul = tokenizer("\0", add_special_tokens=False)["input_ids"]  # a random policy writes it, and no judge reads it
    settings = (
        f"use_cpu=True, bf16=False, logging_steps=1, report_to=[], generation_kwargs={{'suppress_tokens': {nul}}}"
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


@pytest.mark.parametrize("algorithm", ["GRPO", "RLOO"])
@pytest.mark.parametrize("kind", ["scores", "compares", "fails"])
def test_a_step_with_every_kind_of_judge(
    algorithm: str, kind: str, policy: Path, make_model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    import torch
    import trl
    from datasets import Dataset
    from transformers import AutoTokenizer, Qwen3ForCausalLM

    export_model(make_model("scalar"), tokenizer, tmp_path / "model", {"max_length": 2048})
    judge: Any = {"scores": tmp_path / "model", "compares": OnlyCompares(), "fails": ShortOnly()}[kind]
    rows = [{"prompt": f"Question {n}?", "criteria": ["likes words"], "note": n} for n in range(4)]
    settings = getattr(trl, f"{algorithm}Config")(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        max_steps=2,
        learning_rate=0.1,
        logging_steps=1,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    model = Qwen3ForCausalLM.from_pretrained(policy)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    trainer = getattr(trl, f"{algorithm}Trainer")(
        model,
        reward_funcs=grpo_reward(judge),
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(policy),
    )
    trainer.train()
    assert all(torch.isfinite(weight).all() for weight in model.state_dict().values())
    assert any(not torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    logged = [row for row in trainer.state.log_history if "crm/failed" in row]
    assert len(logged) == 2
    assert kind == "fails" or all(row["crm/failed"] == 0 for row in logged)
