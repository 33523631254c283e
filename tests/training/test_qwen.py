"""Qwen3 and Qwen3.5 in small, from a folder through a crashed training to plain transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Qwen3_5Config,
    Qwen3_5Model,
    Qwen3_5TextConfig,
    Qwen3_5TextModel,
    Qwen3Config,
    Qwen3Model,
)

from crm.config import compose
from crm.model.batching.batches import collate
from crm.model.encoding import Encoder, pointwise_messages
from crm.model.export import load_checkpoint
from crm.schema import Comparison
from crm.training.train import run_training
from tests.conftest import rounding, say
from tests.made_files import write_rows
from tests.training.test_resume import StopAt


def chats() -> list[Comparison]:
    """Thoughts, several turns, and the mark of thoughts as a text's own words."""
    answers = ("<think>\nHm, {}.\n</think>\n\nOak {}.", "The mark </think> ends {} thoughts.\n\n{}", "No {}. {}")
    before = ("system: Be kind.", "user: Hi", "assistant: Hello!")
    return [
        Comparison(
            f"c{number}",
            f"p{number}",
            ("Prefers concise answers", f"Likes <think> number {number}")[: 1 + number % 2],
            say(*before * (number % 2), f"user: Tree {number}?"),
            say(f"assistant: {answers[number % 3].format(number, 'tree')}"),
            say(f"assistant: {answers[(number + 1) % 3].format(number, 'bush ' * 9)}"),
            "a",
        )
        for number in range(12)
    ]


def write_pairs(path: Path) -> None:
    """The same as a file of pairs."""
    rows = [
        {
            "prompt": [{"role": turn.role, "content": turn.content} for turn in row.prompt],
            "chosen": row.response_a[0].content,
            "rejected": row.response_b[0].content,
            "criteria": list(row.criteria),
        }
        for row in chats()
    ]
    write_rows(path, rows)


@pytest.mark.slow
def test_a_twin_of_two_layers_is_trained_resumed_exported_and_loaded_by_transformers(
    tokenizer: Any, tmp_path: Path
) -> None:
    """What Qwen3 has and the tiny model lacks: heads wider than the state, grouped keys, thoughts marked by tokens."""
    start, pairs, run = (tmp_path / name for name in ("start", "pairs.jsonl", "run"))
    tokenizer.save_pretrained(start)
    own = AutoTokenizer.from_pretrained(start)
    own.add_tokens(["<think>", "</think>"])
    own.save_pretrained(start)
    torch.manual_seed(0)
    shape = {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    Qwen3Model(Qwen3Config(vocab_size=400, num_hidden_layers=2, intermediate_size=96, **shape)).save_pretrained(start)
    write_pairs(pairs)
    settings = [*words(start), "data=file", f"data.path={pairs}", "data.validation_fraction=0.3"]
    settings += ["schedule.comparisons_per_step=2", "schedule.validate_every=0", "schedule.save_every=1"]
    with pytest.raises(RuntimeError, match="crashed"):
        run_training(compose("train", settings, run), (StopAt(1),))
    outcome = run_training(compose("train", [*settings, "resume=true"], run))
    model, loaded, manifest = load_checkpoint(outcome.checkpoint)
    stock = AutoModelForSequenceClassification.from_pretrained(outcome.checkpoint, dtype=torch.float32).eval()
    plain = AutoTokenizer.from_pretrained(outcome.checkpoint, padding_side="right")
    encoder = Encoder(loaded, "scalar", manifest["max_length"])
    assert not torch.equal(stock.model.norm.weight, torch.ones(48)), "it was trained"
    with torch.no_grad():
        for row in chats():
            sides = [pointwise_messages(row.criteria, row.prompt, side) for side in (row.response_a, row.response_b)]
            inputs = plain.apply_chat_template(sides, return_tensors="pt", padding=True, return_dict=True)
            scores = model(collate([encoder.encode(row)], plain.pad_token_id)).scores[0]
            torch.testing.assert_close(stock(**inputs).logits[:, 0], scores, rtol=0, atol=rounding(10.0))


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
    settings = ["model=pretrained", f"model.path={folder}", "schedule.max_steps=2", "optimizer.lr=1e-3", "trainer=cpu"]
    return [*settings, "trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1"]


SIMULATED = ("data=simulation", "data.train=8", "data.validation=4", "data.suite=4", "schedule.comparisons_per_step=4")


@pytest.mark.slow
def test_it_trains_padded_and_plain_transformers_loads_what_comes_out(
    hybrid: Path, comparisons: Any, tmp_path: Path
) -> None:
    outcome = run_training(compose("train", [*words(hybrid), *SIMULATED, "batching=padded"], tmp_path))
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
        run_training(compose("train", [*words(hybrid), *SIMULATED], tmp_path))
