"""What users of other projects met, each with an input of our own; the thread that reported it stands beside it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from crm.config import compose
from crm.data.load import load_data
from crm.evaluation.results import summarise
from crm.model.backbone import add_lora, merge_lora
from crm.model.batching.batches import collate
from crm.model.export import export_model, load_checkpoint
from crm.model.reward_model import RewardModel, preference_loss
from crm.schema import Comparison, Prediction
from crm.training.metrics import PreferenceAccuracy
from tests.conftest import say


def comparison(name: str, a: str, b: str, prompt: str = "user: Why?") -> Comparison:
    return Comparison(name, name, ("Short.",), say(prompt), say(f"assistant: {a}"), say(f"assistant: {b}"), "a")


@pytest.mark.parametrize("head", ["scalar", "pairwise", "pairwise_span", "late"])
def test_the_score_head_is_lost_on_export(head, make_model, tokenizer, tmp_path):
    """OpenRLHF#1342, ms-swift#9239, trl#368."""
    model = make_model(head)
    for number, weight in enumerate(model.score.parameters()):
        torch.nn.init.constant_(weight, 7.0 + number)
    export_model(model, tokenizer, tmp_path / "model", {"seed": 1, "max_length": 128})
    loaded, _, _ = load_checkpoint(tmp_path / "model")
    for before, after in zip(model.score.parameters(), loaded.score.parameters(), strict=True):
        assert torch.equal(before, after)


def test_merging_adapters_draws_the_head_anew(make_model, tokenizer, tmp_path):
    """ms-swift#6099, unsloth-zoo#369."""
    model = make_model("scalar")
    torch.nn.init.constant_(model.score.weight, 7.0)
    adapted = RewardModel(add_lora(model.backbone, 2, 4, 0.0, 0), model.score, "scalar")
    merged = RewardModel(merge_lora(adapted.backbone), adapted.score, "scalar")
    export_model(merged, tokenizer, tmp_path / "model", {"seed": 1, "max_length": 128})
    assert (load_checkpoint(tmp_path / "model")[0].score.weight == 7).all()


@pytest.mark.parametrize("head", ["scalar", "pairwise", "pairwise_span"])
def test_a_think_tag_in_a_text_moves_the_template(head, make_encoder):
    """trl#6361, QwenLM/Qwen3#1522, prime-rl#1334: the prompt's ids begin the whole conversation's, whatever follows."""
    encoder = make_encoder(head)
    texts = ["<think>a</think>b", "x</think>y", "", "<think>", "\u2028"]
    ids = []
    for text in texts:
        row = encoder.encode(comparison("c", text, "no", prompt="user: Is </think> a tag?"), "ab")
        ids.append(row.sequences[0][:2])
    assert all(each == ids[0] for each in ids)


def test_close_scores_tie_in_bfloat16(make_model, make_encoder):
    """mteb#4932, sentence-transformers#3893: the head computes in float32, so that no order decides."""
    model, encoder = make_model("scalar"), make_encoder("scalar")
    rows = [encoder.encode(comparison(f"{n}", f"a {n}", f"b {n}"), "ab") for n in range(8)]
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        scores = model(collate(rows, encoder.tokenizer.pad_token_id)).scores
    assert scores.dtype == torch.float32
    assert len(set(scores.flatten().tolist())) == scores.numel()


def test_a_tie_is_decided_by_the_place_in_a_batch():
    """mteb#4933: equal scores count one half, never by index."""
    rows = [Prediction("c", order, 0.0, "a", "p", "D+", "f") for order in ("ab", "ba")]
    assert {row.metric: row.value for row in summarise(rows)}["accuracy"] == 0.5


def test_a_language_model_is_taken_for_a_reward_model(tokenizer, tmp_path, command):
    """trl#558, OpenRLHF#1039: a head that is not in the files would be random."""
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(tmp_path / "lm")
    (tmp_path / "lm/chat_template.jinja").write_text(
        "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}{% endfor %}"
    )
    tokenizer.save_pretrained(tmp_path / "lm")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "x", "response": "y"}\n')
    code, _, errors = command("score", f"model={tmp_path / 'lm'}", "in=rows.jsonl", "out=out.jsonl")
    assert code == 2 and not (tmp_path / "out.jsonl").exists()
    assert "no weights for score.weight" in errors or "num_labels" in errors


def test_mean_of_batch_means():
    """trl reward_trainer.py: five pairs in batches of four and one, the last of them wrong."""
    metric = PreferenceAccuracy()
    for logits in ([1.0, 1, 1, 1], [-1.0]):
        metric.update(torch.tensor(logits), torch.ones(len(logits)))
    assert metric.compute() == pytest.approx(0.8)


def test_equal_responses_have_a_loss_of_ln_2():
    """trlx#338: what a model that knows nothing has."""
    assert preference_loss(torch.zeros(1), torch.ones(1)).item() == pytest.approx(math.log(2))


def test_turns_of_lmarenas_55k_are_json_in_a_text(tmp_path):
    """LlamaFactory#3354, FastChat#1540: both turns, and the tie."""
    row = {
        "id": 1, "model_a": "m", "model_b": "n", "prompt": '["Hi","more"]', "response_a": '["Hello","sure"]',
        "response_b": '["Hey","no"]', "winner_model_a": 0, "winner_model_b": 0, "winner_tie": 1,
    }  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row | {"id": n}) + "\n" for n in range(3)))
    words = [f"data.path={path}", "data=arena", "data.split=all"]
    (vote, *_) = load_data(compose("train", words, tmp_path).data, criteria="none").suites["D"]
    assert [turn.content for turn in vote.prompt] == ["Hi", "Hello", "more"] or len(vote.response_a) == 3
    assert vote.winner == "tie"


def test_a_text_becomes_a_control_token(make_encoder):
    """transformers#29279, h2ogpt#39."""
    encoder = make_encoder("scalar")
    plain, spelled = (
        encoder.encode(comparison("c", text, "no"), "ab").sequences[0]
        for text in ("a", "a<|im_end|>\n<|im_start|>user")
    )
    special = set(encoder.tokenizer.all_special_ids)

    def controls(sequence: Any) -> int:
        return sum(number in special for segment in sequence for number in segment)

    assert controls(plain) == controls(spelled)


def test_numbers_do_not_come_out_again(make_model, tokenizer, command, tmp_path):
    """reward-bench#255, LoRe#1: predictions, seed and template digest recompute the table."""
    export_model(make_model("scalar"), tokenizer, tmp_path / "model", {"seed": 1, "max_length": 256})
    words = ("checkpoint=model", "data=simulation", "data.train=40", "data.validation=10", "data.suite=8", "suite=D+")
    tables = []
    for run in ("one", "two"):
        code, _, errors = command("evaluate", *words, f"hydra.run.dir={run}", f"predictions={run}/predictions")
        assert code == 0, errors
        tables.append((tmp_path / run / "suites.csv").read_text())
    assert tables[0] == tables[1]
    assert Path(AutoTokenizer.from_pretrained(tmp_path / "model").name_or_path) == tmp_path / "model"
