"""Many comparisons of few texts: scores of single comparisons, wishes without words, texts that are too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from crm.model.batching.batches import collate
from crm.model.batching.text_batches import collate_texts
from crm.schema import Comparison, Message
from crm.votes.tables import ComparisonTable
from tests.conftest import rounding

WISHES = 3
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


def batch_of(made: ComparisonTable, encoder: Any) -> Any:
    return collate_texts(made.conversations, made.criteria, made.shown, made.asked, made.target, encoder)


def test_a_table_scores_as_its_comparisons_one_by_one(make_model, make_encoder) -> None:
    model, encoder, made = make_model("late"), make_encoder("late"), table()
    batch = batch_of(made, encoder)
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


def test_without_words_a_wish_is_a_vector(make_model, make_encoder) -> None:
    model = make_model("late")
    model.score.learn_wishes(WISHES, seed=0)
    batch = batch_of(table(()), make_encoder("late"))
    logits = model(batch).preference_logit
    logits.square().sum().backward()
    assert model.score.wishes.grad[:2].any() and not model.score.wishes.grad[2].any(), "the third is not asked for"
    assert model.score.response.inner.weight.grad.any() and model.score.criterion.inner.weight.grad is None
    in_words = make_model("late")
    in_words.score.learn_wishes(WISHES, seed=0)
    in_words(batch_of(table(), make_encoder("late"))).preference_logit.square().sum().backward()
    assert in_words.score.response.inner.weight.grad is None and in_words.score.criterion.inner.weight.grad.any()


def test_comparisons_with_a_text_too_long_are_left_out(make_encoder) -> None:
    made = table()
    talks = [make_encoder("late").conversation_segments(*talk) for talk in made.conversations]
    longest = max(sum(len(part.ids) for part in segments) for segments in talks)
    batch = batch_of(made, make_encoder("late", max_length=longest - 1))
    assert batch.target.tolist() == pytest.approx([0.7]), "all others show the long answer"
    with pytest.raises(ValueError, match=r"model.max_length=20: no comparison"):
        batch_of(replace(made, criteria=("so long " * 40,) * 2), make_encoder("late", max_length=20))
