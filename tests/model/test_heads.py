"""Heads in a whole model: symmetries, where they read, and float32 differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crm.model.batching.batches import collate
from crm.model.heads import KEPT, LINEAR_HEADS, PROMPT_ORDERS, WIDTH
from crm.model.reward_model import build_score, read_head
from crm.schema import Message


def read(model, encoder, row, order="ab"):
    with torch.no_grad():
        return model(collate([encoder.encode(row, order)], pad_id=0))


def test_each_head_by_hand() -> None:
    states = torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])
    weights = torch.tensor([[1.0, 10.0], [2.0, 30.0]])
    expected = {"scalar": (21 - 53, [21, 53]), "pairwise": (53 - 156, None), "pairwise_span": (21 - 156, [21, 156])}
    for head in LINEAR_HEADS:
        score = build_score(head, 2, seed=0)
        with torch.no_grad():
            score.weight.copy_(weights[: score.out_features])
        logit, scores, _ = read_head(head, score, states)
        assert logit.tolist() == [expected[head][0]]
        assert (None if scores is None else scores[0].tolist()) == expected[head][1]


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_initial_weights_depend_on_the_seed_alone(head) -> None:
    torch.manual_seed(1)
    first = build_score(head, 64, seed=5).weight.detach()
    torch.manual_seed(2)
    again = build_score(head, 64, seed=5).weight
    assert torch.equal(first, again) and not torch.equal(first, build_score(head, 64, seed=6).weight)
    assert build_score(head, 64, seed=5).bias is None
    assert float(first[0].std()) == pytest.approx(64**-0.5, rel=0.3)
    assert head != "pairwise_span" or torch.equal(first[0], first[1])
    assert head != "pairwise" or not torch.equal(first[0], first[1])


def test_an_unknown_head_is_named() -> None:
    with pytest.raises(ValueError, match=r"head.name='triple': expected one of scalar, late, pairwise, pairwise_span"):
        build_score("triple", 4, seed=0)  # type: ignore[arg-type]


def test_scalar_orders_negate_exactly(make_model, make_encoder, comparisons) -> None:
    model, encoder = make_model("scalar"), make_encoder("scalar")
    for row in comparisons:
        ab, ba = (read(model, encoder, row, order) for order in ("ab", "ba"))
        assert ab.preference_logit.item() == -ba.preference_logit.item() != 0.0
        assert ab.scores.tolist()[0] == ba.scores.tolist()[0][::-1]


def test_the_bias_of_a_joint_head_is_what_two_orders_do_not_cancel(make_model, make_encoder, comparisons) -> None:
    """With l1, l2 the logits of the first shown in both orders: bias (l1 + l2) / 2, preference (l1 - l2) / 2."""
    for head in LINEAR_HEADS:
        model, encoder = make_model(head), make_encoder(head)
        for row in comparisons:
            l1, l2 = (read(model, encoder, row, order).preference_logit.item() for order in ("ab", "ba"))
            mirrored = replace(row, response_a=row.response_b, response_b=row.response_a)
            m1, m2 = (read(model, encoder, mirrored, order).preference_logit.item() for order in ("ab", "ba"))
            assert (m1 - m2) / 2 == -(l1 - l2) / 2, "averaged over orders, every head is antisymmetric"
            assert (l1 + l2 == 0.0) == (head == "scalar"), (
                "only the scalar head is without position bias by construction"
            )


@pytest.mark.usefixtures("in_float64")
def test_pairwise_has_no_scores_and_reads_the_last_token_only(make_model, make_encoder, comparisons) -> None:
    model, encoder = make_model("pairwise"), make_encoder("pairwise")
    output = read(model, encoder, comparisons[0])
    assert output.scores is None
    with torch.no_grad():
        batch = collate([encoder.encode(comparisons[0])], pad_id=0)
        hidden = model.backbone(batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
        last = hidden[0, int(batch.attention_mask.sum()) - 1]
        expected = (model.score.weight[0] - model.score.weight[1]) @ last
    assert output.preference_logit.item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.usefixtures("in_float64")
def test_span_reads_the_first_response_before_the_second(make_model, make_encoder, comparisons) -> None:
    """Attention is causal: another response B leaves the first score alone, another response A moves both."""
    model, encoder = make_model("pairwise_span"), make_encoder("pairwise_span")
    row = comparisons[0]
    scores = read(model, encoder, row).scores[0]
    other_b = read(model, encoder, replace(row, response_b=(Message("assistant", "Ask a farmer."),))).scores[0]
    other_a = read(model, encoder, replace(row, response_a=(Message("assistant", "Ask a farmer."),))).scores[0]
    assert other_b[0].item() == pytest.approx(scores[0].item(), rel=1e-12)
    for moved in (other_b[1] - scores[1], other_a[0] - scores[0], other_a[1] - scores[1]):
        assert abs(moved.item()) > 1e-3


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_close_responses_do_not_tie_under_bfloat16(head) -> None:
    """In bfloat16 a logit near 16 moves in steps of 1/8: the difference below would be lost."""
    score = build_score(head, 4, seed=0)
    with torch.no_grad():
        score.weight.copy_(torch.tensor([[16.0, 0.0, 0.0, 0.0], [16.01, 0.0, 0.0, 0.0]])[: score.out_features])
    states = torch.zeros(1, 2, 4)
    states[0, :, 0] = torch.tensor([1.0, 1.001])
    exact = read_head(head, score, states).preference_logit.item()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = read_head(head, score, states).preference_logit
    assert mixed.dtype == torch.float32 and mixed.item() == exact != 0.0
    assert read_head(head, score.bfloat16(), states.bfloat16()).preference_logit.dtype == torch.float32


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_every_weight_is_reached_by_the_gradient(make_model, make_encoder, comparisons, head) -> None:
    model = make_model(head)
    batch = collate([make_encoder(head).encode(row) for row in comparisons], pad_id=0)
    model(batch).preference_logit.square().sum().backward()
    still = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert still == []


def test_a_head_goes_on_from_a_trained_one_where_it_reads_the_same() -> None:
    scalar = build_score("scalar", 8, seed=3)
    span = build_score("pairwise_span", 8, seed=4, start=scalar)
    assert torch.equal(span.weight, scalar.weight.expand(2, -1))
    assert torch.equal(build_score("scalar", 8, seed=4, start=scalar).weight, scalar.weight)
    assert torch.equal(build_score("pairwise", 8, 4, start=scalar).weight, build_score("pairwise", 8, 4).weight)
    assert torch.equal(build_score("scalar", 8, 4, start=span).weight, build_score("scalar", 8, 4).weight)


def test_a_late_head_goes_on_as_it_is_and_not_in_other_sizes() -> None:
    trained = build_score("late", 8, seed=3, kept=2, width=5)
    assert build_score("late", 8, seed=4, start=trained) is trained
    assert build_score("late", 8, seed=4, start=trained, kept=2, width=5) is trained
    with pytest.raises(ValueError, match=r"head.kept=4: the head to go on from has 2;"):
        build_score("late", 8, seed=4, start=trained, kept=4)
    anew = build_score("late", 8, seed=4, start=build_score("scalar", 8, seed=3))
    assert (anew.kept, anew.width) == (KEPT, WIDTH)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("order", PROMPT_ORDERS)
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_keys_and_values_of_the_first_part_may_be_kept(make_model, make_encoder, comparisons, head, order) -> None:
    """The first part read once, then the second after its keys and values: the numbers of the whole prompt."""
    model, encoder = make_model(head, seed=2), make_encoder(head, order=order)
    model.score = build_score("scalar" if head == "scalar" else "pairwise", 16, seed=3)  # rows that have parted
    for row in comparisons:
        encoded = encoder.encode(row)
        first_part = 1 if order == "criteria_first" else [part.kind for part in encoded.sequences[0]].index("criteria")
        states = []
        for index, sequence in enumerate(encoded.sequences):
            start, rest = (
                torch.tensor([[token for part in parts for token in part.ids]])
                for parts in (sequence[:first_part], sequence[first_part:])
            )
            with torch.no_grad():
                kept = model.backbone(start, use_cache=True).past_key_values
                hidden = model.backbone(rest, past_key_values=kept, use_cache=True).last_hidden_state[0]
            states += [hidden[at - start.shape[1]] for which, at in encoded.reads if which == index]
            assert all(at >= start.shape[1] for which, at in encoded.reads if which == index)
        with torch.no_grad():
            logit = read_head(head, model.score, torch.stack(states)[None]).preference_logit
        torch.testing.assert_close(logit, read(model, encoder, row).preference_logit, rtol=0, atol=1e-12)
