"""A whole model with a late head: one score from every kind of batch, and from vectors made apart."""

from dataclasses import replace

import pytest
import torch

from crm.model.batching.batches import collate, collate_forest
from crm.model.late_reading import LateReader, added_up
from crm.schema import GENERIC_CRITERION, Message
from tests.conftest import rounding
from tests.model.helpers import assert_same


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
