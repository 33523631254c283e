"""Forests and pruned layers against full padded batches, and late vectors made apart: same numbers, same gradients."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2Model

from crm.model.attention.decoder import attend_in_one_call, prune_last_layer, varlen_aligns_right
from crm.model.backbone import build_tiny_backbone
from crm.model.batching.batches import collate, collate_forest
from crm.model.batching.forest import varlen
from crm.model.late_reading import LateReader, added_up
from crm.model.reward_model import RewardModel, build_score
from crm.schema import GENERIC_CRITERION, Message
from tests.conftest import LINEAR_HEADS, rounding
from tests.model.helpers import assert_same, outcome


@pytest.fixture
def encoded(make_encoder, comparisons):
    """Both orders of every row, some with other criteria: shared beginnings of many lengths."""

    def make(head: str) -> list[Any]:
        rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons[:3])]
        return [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]

    return make


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("head", "architecture"), [*zip(LINEAR_HEADS, ("qwen3", "llama", "qwen3"), strict=True)])
def test_forests_and_pruned_layers_give_what_full_padded_batches_give(head, architecture, make_model, encoded) -> None:
    model = make_model(head, architecture)
    assert model.prunes
    padded, forest = collate(encoded(head), pad_id=0), collate_forest(encoded(head))
    model.prunes = False
    expected = outcome(model, padded)
    assert expected[0].std() > 0.1, "the model tells rows apart"
    assert_same(outcome(model, forest), expected)
    model.prunes = True
    assert_same(outcome(model, forest), expected)
    assert_same(outcome(model, padded), expected)


def test_checkpointing_float32_and_bfloat16_read_forests_too(make_model, encoded) -> None:
    model, batch = make_model("scalar"), collate_forest(encoded("scalar"))
    expected = outcome(model, collate(encoded("scalar"), pad_id=0))
    model.train()
    model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    assert_same(outcome(model, batch), expected)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(batch).preference_logit
    torch.testing.assert_close(rounded, expected[0], rtol=0, atol=0.1)
    assert rounded.dtype == torch.float32


def test_the_last_layer_computes_only_what_is_read(make_model, encoded) -> None:
    model, batch = make_model("pairwise_span"), collate(encoded("pairwise_span"), pad_id=0)
    sizes = []
    for layer in model.backbone.layers:
        layer.mlp.register_forward_hook(lambda _module, inputs, _output: sizes.append(inputs[0].shape[1]))
    model(batch)
    assert sizes == [batch.input_ids.shape[1], 2]


def test_other_architectures_and_sliding_windows_are_computed_in_full(encoded) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    backbone = Gemma2Model(Gemma2Config(vocab_size=320, head_dim=8, intermediate_size=32, **sizes))
    model = RewardModel(backbone, build_score("scalar", 16, 0), "scalar")
    assert not model.prunes and not model.reads_forests
    assert model(collate(encoded("scalar")[:1], pad_id=0)).preference_logit.shape == (1,)
    windowed = build_tiny_backbone(300, 16, 2, 2, 64, 0, seed=0)
    windowed.layers[-1].self_attn.sliding_window = 4
    assert not prune_last_layer(windowed)


def varlen_by_hand(query, key, value, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa):
    """What torch documents of its variable-length attention, one sequence at a time, aligned at the right."""
    assert window_size == (-1, 0) and enable_gqa == (key.shape[1] != query.shape[1])
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    parts = []
    for q0, q1, k0, k1 in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:], strict=True):
        assert 1 <= q1 - q0 <= max_q and q1 - q0 <= k1 - k0 <= max_k
        own, keys, values = (part.transpose(0, 1) for part in (query[q0:q1], key[k0:k1], value[k0:k1]))
        groups = own.shape[0] // keys.shape[0]
        keys, values = (part.repeat_interleave(groups, dim=0) for part in (keys, values))
        logits = own @ keys.transpose(1, 2) * scale
        later = torch.ones(q1 - q0, k1 - k0).tril(int(k1 - k0 - (q1 - q0))) == 0
        parts.append((logits.masked_fill(later, -torch.inf).softmax(-1) @ values).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_one_call_for_the_whole_row_gathers_the_same(head, make_model, encoded, monkeypatch) -> None:
    """The way a GPU takes, with its kernel written out: the index tensors are right."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_by_hand)
    model, batch = make_model(head, "llama"), collate_forest(encoded(head))
    expected = outcome(model, batch)

    def in_one_call(query, key, value, tree_mask, *, scaling, dropout):
        return attend_in_one_call(query, key, value, varlen(tree_mask.spans), scaling)

    monkeypatch.setattr("crm.model.attention.decoder.attend_tree", in_one_call)
    assert_same(outcome(model, batch), expected)


@pytest.mark.parametrize("aligned", ["right", "left"])
def test_a_kernel_that_aligns_left_is_not_used(aligned, monkeypatch) -> None:
    def aligned_left(query, key, value, cu_q, cu_k, *_, **others):
        queries = torch.cat([query, query.new_zeros(3, *query.shape[1:])])
        return varlen_by_hand(queries, key, value, cu_k, cu_k, 5, 5, **others)[:2]

    kernel = varlen_by_hand if aligned == "right" else aligned_left
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    varlen_aligns_right.cache_clear()
    try:
        assert varlen_aligns_right(torch.device("cpu"), torch.float32) is (aligned == "right")
    finally:
        varlen_aligns_right.cache_clear()


@pytest.fixture(params=("llama", "qwen3"))
def model(request, make_model):
    return make_model("late", request.param)


@pytest.fixture()
def encoder(make_encoder):
    return make_encoder("late")


@pytest.fixture()
def make_reader(make_encoder):
    off = torch.autocast("cpu", enabled=False)

    def make(model, max_length: int = 2048, tokens: int = 4096) -> LateReader:
        encoder = make_encoder("late", max_length=max_length)
        return LateReader(model, encoder, autocast=off, precision="32-true", tokens=tokens)

    return make


def test_every_batch_gives_the_same_scores_and_gradients(model, encoder, comparisons) -> None:
    rows = [encoder.encode(row, order) for row in comparisons for order in ("ab", "ba")]
    found = []
    for batch in (collate(rows, pad_id=0), collate_forest(rows, multiple=64), collate_forest(rows)):
        model.zero_grad()
        scores = model(batch).scores
        scores.square().sum().backward()
        found.append((scores.detach(), {name: weight.grad.clone() for name, weight in model.named_parameters()}))
        assert all(gradient.any() for gradient in found[-1][1].values()), "every weight is reached"
    for other in found[1:]:
        assert_same(other, found[0])
    padded, filled = collate(rows, pad_id=0), collate_forest(rows, multiple=64)
    assert filled.tokens == batch.tokens < filled.input_ids.shape[1], "what fills up a row is no work"
    assert torch.equal(filled.target, padded.target) and torch.equal(filled.sign, padded.sign)


def test_scores_are_products_of_vectors_made_apart(model, encoder, make_reader, comparisons) -> None:
    reader = make_reader(model)
    with torch.no_grad():
        expected = model(collate([encoder.encode(row) for row in comparisons], pad_id=0))
    for row, scores, logit in zip(comparisons, expected.scores, expected.preference_logit, strict=True):
        vectors = reader.responses([(row.prompt, row.response_a), (row.prompt, row.response_b)])
        found = vectors @ added_up(reader.criterion_vectors(row.criteria or [GENERIC_CRITERION]), None)
        torch.testing.assert_close(found, scores, rtol=0, atol=rounding(scores))
        torch.testing.assert_close(found[0] - found[1], logit, rtol=0, atol=rounding(scores))


def test_a_vector_depends_on_its_conversation_alone(make_model, make_reader, comparisons) -> None:
    model = make_model("late")
    reader = make_reader(model)
    talks = [(row.prompt, response) for row in comparisons for response in (row.response_a, row.response_b)]
    together = reader.responses(talks)
    for index, talk in enumerate(talks):
        alone = reader.responses([talk])[0]
        torch.testing.assert_close(together[index], alone, rtol=0, atol=rounding(alone))
    assert torch.equal(reader.responses(talks), together), "to the bit, when asked again"
    in_portions = make_reader(model, tokens=30).responses(talks)
    torch.testing.assert_close(in_portions, together, rtol=0, atol=rounding(together))
    _, response = talks[0]
    other = reader.responses([((Message("user", "Something else?"),), response)])
    assert (other[0] - together[0]).abs().max() > 1e-3, "the query has a say"


def test_the_criteria_of_a_side_do_not_depend_on_what_else_is_asked(encoder, comparisons) -> None:
    row = comparisons[0]
    two = encoder.encode(replace(row, criteria=("Short", "Friendly")))
    one = encoder.encode(replace(row, criteria=("Friendly",)))
    assert two.sequences[:2] == one.sequences[:2] and two.sequences[3] == one.sequences[2]
    criteria = zip(two.sequences[2:], two.spans[2:], strict=True)
    spoken = [encoder.tokenizer.decode(list(sequence[-1][start:end])) for sequence, (start, end) in criteria]
    assert spoken == [" Short<|im_end|>", " Friendly<|im_end|>"]
