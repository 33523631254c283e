"""The stored template, rendered and tokenised by plain transformers as one string: the ids of our segments."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from crm.model.heads import LINEAR_HEADS, POINTWISE_INSTRUCTION, PROMPT_ORDERS
from crm.model.template import chat_template
from crm.schema import GENERIC_CRITERION
from tests.conftest import CONTROLS
from tests.model.messages import by_hand, conversations


def flat(encoded: Any) -> list[list[int]]:
    return [[token for segment in sequence for token in segment.ids] for sequence in encoded.sequences]


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("prompt_order", PROMPT_ORDERS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_ids_are_those_of_the_exported_template(
    tokenizer, make_encoder, comparisons, head, prompt_order, order
) -> None:
    tokenizer.chat_template = chat_template(head, prompt_order)
    encoder = make_encoder(head, order=prompt_order)
    clean = [row for row in comparisons if not any(control in str(row) for control in CONTROLS)]
    assert len(clean) == 4
    for row in clean:
        for turns, ids in zip(conversations(row, head, order), flat(encoder.encode(row, order)), strict=True):
            rendered = by_hand(turns, head, prompt_order)
            assert tokenizer.apply_chat_template(turns, tokenize=False) == rendered
            assert tokenizer.apply_chat_template(turns)["input_ids"] == ids
            assert tokenizer(rendered, add_special_tokens=False)["input_ids"] == ids


def test_no_criteria_and_no_system_turn_both_mean_the_generic_criterion(tokenizer, comparisons) -> None:
    row = replace(comparisons[0], criteria=())
    for head, order in product(LINEAR_HEADS, PROMPT_ORDERS):
        tokenizer.chat_template = chat_template(head, order)
        for ours, explicit in zip(
            conversations(row, head), conversations(replace(row, criteria=(GENERIC_CRITERION,)), head), strict=True
        ):
            assert ours == explicit
            without_system = tokenizer.apply_chat_template(ours[1:], tokenize=False)
            assert without_system == by_hand(explicit, head, order), head
            assert without_system.count(GENERIC_CRITERION) == 1


def test_a_late_head_has_conversations_and_criteria_rendered_apart(tokenizer, make_encoder, comparisons) -> None:
    tokenizer.chat_template = chat_template("late")
    encoder = make_encoder("late")
    for row in comparisons:
        if any(control in str(row) for control in CONTROLS):
            continue
        sides = [[*row.prompt, *response] for response in (row.response_a, row.response_b)]
        texts = [[{"role": turn.role, "content": turn.content} for turn in side] for side in sides]
        for criterion in row.criteria or (GENERIC_CRITERION,):
            texts.append([{"role": "system", "content": f"{POINTWISE_INSTRUCTION}\n- {criterion}"}])
        for turns, ids in zip(texts, flat(encoder.encode(row)), strict=True):
            assert tokenizer.apply_chat_template(turns, tokenize=False) == by_hand(turns)
            assert tokenizer.apply_chat_template(turns)["input_ids"] == ids
