"""The extension as an installed package: tables score as single comparisons do; two trainings learn from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from crm.config import compose
from crm.model.batching.batches import collate
from crm.model.export import LATE_HEAD
from crm.schema import Comparison, Message
from crm.training.train import run_training
from experiments.real_judge.batching import collate_table
from experiments.real_judge.tables import ComparisonTable
from tests.conftest import TINY_MODEL, rounding
from tests.experiments.made_bank import write_bank

VECTORS = 3
ANSWERS = ("Clouds cool.", "It just does, I am afraid, because warm air rises and cools.", "Why not?", "Rain? Rain!")


def table(criteria: tuple[str, ...] = ("Short answers", "Many reasons")) -> ComparisonTable:
    prompt = (Message("user", "Why rain?"),)
    return ComparisonTable(
        [(prompt, (Message("assistant", text),)) for text in ANSWERS],
        criteria,
        np.array([[0, 1], [3, 1], [2, 0], [1, 2]]),
        np.array([0, 1, 1, 0]),
        np.array([0.9, 0.2, 0.7, 0.4], dtype=np.float32),
    )


def test_a_table_scores_as_its_comparisons_one_by_one(make_model, make_encoder) -> None:
    model, encoder, made = make_model("late"), make_encoder("late"), table()
    batch = collate_table(made, encoder)
    with torch.no_grad():
        found = model(batch)
    rows = []
    for (first, second), asked in zip(made.shown, made.asked, strict=True):
        prompt, shown = made.conversations[first]
        row = comparison((made.criteria[asked],), prompt, shown, made.conversations[second][1])
        rows.append(encoder.encode(row))
    with torch.no_grad():
        expected = model(collate(rows, pad_id=0))
    torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=rounding(expected.scores))
    assert batch.target.tolist() == pytest.approx([0.9, 0.2, 0.7, 0.4]) and len(batch) == 4
    assert (found.preference_logit != 0).all() and not batch.reverse.any() and (batch.sign == 1).all()


def comparison(criteria: Any, prompt: Any, first: Any, second: Any) -> Comparison:
    return Comparison("x-1", "x", criteria, prompt, first, second, "a")


def test_comparisons_with_a_text_too_long_are_left_out(make_encoder) -> None:
    made = table()
    talks = [make_encoder("late").conversation_segments(*talk) for talk in made.conversations]
    longest = max(sum(map(len, segments)) for segments in talks)
    batch = collate_table(made, make_encoder("late", max_length=longest - 1))
    assert batch.target.tolist() == pytest.approx([0.7]), "all others show the long answer"
    with pytest.raises(ValueError, match=r"model.max_length=20: no comparison"):
        collate_table(replace(made, criteria=("so long " * 40,) * 2), make_encoder("late", max_length=20))


class Numbered:
    """Tables of one comparison, whose target is their number."""

    def __call__(self, number: int, *, in_words: bool) -> ComparisonTable:
        return replace(table(), shown=np.array([[0, 1]]), asked=np.array([0]), target=np.array([number / 100]))


def test_responses_are_learned_first_and_words_then(tmp_path: Path) -> None:
    """By the entry points that the extension's package names."""
    tiny = (*TINY_MODEL, "head=late", "head.kept=3", "head.width=4", "model.freeze_layers=2", "head.response_layers=1")
    data = ("data.name=tastes", f"data.path={write_bank(tmp_path / 'bank')}", "data.train=256", "data.suite=40")
    rest = (
        "loss=ranking",
        "optimizer.name=adamw",
        "data.validation=40",
        "schedule.max_steps=2",
        "schedule.epochs=1",
        "trainer.progress=false",
    )

    def train(name: str, *words: str) -> dict[str, torch.Tensor]:
        run_training(compose("train", [*tiny, *data, *rest, f"batching.name={name}", *words], tmp_path / name))
        return load_file(tmp_path / name / "model" / LATE_HEAD)

    first = train("user_vectors")
    second = train("criteria_tables", f"model.path={tmp_path / 'user_vectors' / 'model'}")
    assert "user_vectors" not in first and first.keys() == second.keys()
    assert torch.equal(first["response.outer.weight"], second["response.outer.weight"])
    assert not torch.equal(first["criterion.outer.weight"], second["criterion.outer.weight"])
    with pytest.raises(ValueError, match=r"batching.name=user_vectors with data=tastes .*use batching=tree"):
        train("user_vectors", "schedule.max_steps=0", "overwrite=true")
