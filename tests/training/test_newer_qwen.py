"""Qwen3.5, whose layers are hybrids of linear and full attention: it trains padded and exports; trees are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    Qwen3_5Config,
    Qwen3_5Model,
    Qwen3_5TextConfig,
    Qwen3_5TextModel,
)

from crm.config import compose
from crm.model.batching.batches import collate
from crm.model.encoding import Encoder
from crm.model.export import load_checkpoint
from crm.training.train import run_training
from tests.conftest import rounding


@pytest.fixture(scope="module", params=["text", "text and pictures"])
def hybrid(request: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four layers, three of them linear attention, as the published models have them in turn, which read pictures."""
    sizes = {
        **{"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 4},
        **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "linear_num_key_heads": 2},
        **{"linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    }
    torch.manual_seed(0)
    if request.param == "text":
        model: Any = Qwen3_5TextModel(Qwen3_5TextConfig(**sizes))
        assert model.config.layer_types == ["linear_attention"] * 3 + ["full_attention"]
    else:
        eyes = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 16}
        model = Qwen3_5Model(Qwen3_5Config(text_config=sizes, vision_config=eyes))
    folder = tmp_path_factory.mktemp("hybrid")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def words(folder: Path) -> list[str]:
    settings = ["model=pretrained", f"model.path={folder}", "data=simulation", "data.train=8", "data.validation=4"]
    settings += ["schedule.max_steps=2", "schedule.comparisons_per_step=4", "optimizer.lr=1e-3", "trainer=cpu"]
    return [*settings, "trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1", "data.suite=4"]


@pytest.mark.slow
def test_it_trains_padded_and_plain_transformers_loads_what_comes_out(
    hybrid: Path, comparisons: Any, tmp_path: Path
) -> None:
    outcome = run_training(compose("train", [*words(hybrid), "batching=padded"], tmp_path))
    model, tokenizer, manifest = load_checkpoint(outcome.checkpoint)
    stock = AutoModelForSequenceClassification.from_pretrained(outcome.checkpoint, dtype=torch.float32).eval()
    assert type(stock).__name__ == "Qwen3_5TextForSequenceClassification" and outcome.steps == 2
    encoder = Encoder(tokenizer, "scalar", manifest["max_length"])
    batch = collate([encoder.encode(row) for row in comparisons], tokenizer.pad_token_id)
    with torch.no_grad():
        scores = model(batch).scores
        rows = stock(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits[:, 0]
    torch.testing.assert_close(rows[batch.rows], scores, rtol=0, atol=rounding(scores))


def test_trees_are_refused_by_name(hybrid: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"batching=tree: layers of Qwen3_5TextModel .*; use batching=padded"):
        run_training(compose("train", words(hybrid), tmp_path))
