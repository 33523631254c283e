"""The late head: its vectors by hand, the same scores from every kind of batch and from the index's way of reading."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crm.model.batching.batches import TextTokens
from crm.model.late_head import LateHead, TextPooling
from tests.conftest import rounding


@pytest.fixture()
def pooling() -> TextPooling:
    torch.manual_seed(3)
    return TextPooling(hidden_size=6, queries=2, width=3, size=4, inner=5)


def test_text_pooling_is_the_formula_written_out(pooling: TextPooling) -> None:
    states = torch.randn(5, 6)
    normed = states / states.square().mean(dim=1, keepdim=True).add(torch.finfo(torch.float32).eps).sqrt()
    pooled = []
    for query in range(2):
        logits = normed @ pooling.attention.weight[query] + pooling.attention.bias[query]
        weights = logits.exp() / logits.exp().sum()
        pooled.append(
            sum(weight * (state @ pooling.values[query]) for weight, state in zip(weights, normed, strict=True))
        )
    counts = sum(torch.sigmoid(pooling.detectors(state)) for state in normed)
    seen = torch.cat([*pooled, (1 + counts).log() / 2, 4 * counts / 5, torch.tensor([5.0]).log() / 4])
    expected = pooling.outer(torch.nn.functional.gelu(pooling.inner(seen)))
    got = pooling(states[None], torch.ones(1, 5, dtype=torch.bool))[0]
    torch.testing.assert_close(got, expected, atol=rounding(expected, 10_000), rtol=0)


def test_padding_changes_nothing(pooling: TextPooling) -> None:
    states = torch.randn(2, 7, 6)
    mask = torch.arange(7) < torch.tensor([[4], [7]])
    together = pooling(states, mask)
    alone = pooling(states[:1, :4], mask[:1, :4])
    torch.testing.assert_close(together[:1], alone, atol=rounding(alone, 10_000), rtol=0)


def test_counts_tell_a_text_from_itself_twice(pooling: TextPooling) -> None:
    """A mean over tokens could not."""
    states = torch.randn(1, 4, 6)
    once = pooling(states, torch.ones(1, 4, dtype=torch.bool))
    twice = pooling(states.repeat(1, 2, 1), torch.ones(1, 8, dtype=torch.bool))
    assert (once - twice).abs().max() > 0.01


def test_a_new_head_prefers_next_to_nothing_and_depends_on_its_seed_alone() -> None:
    torch.manual_seed(0)
    one = LateHead.seeded(8, seed=5)
    torch.manual_seed(1)
    same, other = LateHead.seeded(8, seed=5), LateHead.seeded(8, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), same.state_dict().values(), strict=True))
    assert not torch.equal(one.response.attention.weight, other.response.attention.weight)
    states, mask = torch.randn(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)
    scores = one.response(states, mask) @ one.criterion(states, mask).T / (one.kept * one.width) ** 0.5
    assert 0 < scores.abs().max() < 0.3


def test_sizes_are_read_off_the_weights() -> None:
    head = LateHead.seeded(8, seed=1, kept=3, width=5)
    again = LateHead.of_weights(head.state_dict())
    assert (again.kept, again.width) == (3, 5)
    assert again.side is again.shared is None
    gated = LateHead(8, 3, 5, gated=True, shared=True, side_inner=7)
    again = LateHead.of_weights(gated.state_dict())
    assert again.gated and again.shared is not None and again.side is not None
    assert again.side.inner.out_features == 7
    older = LateHead.of_weights({name: value for name, value in gated.state_dict().items() if name != "shared"})
    assert older.gated and older.shared is None
    with pytest.raises(ValueError, match=r"weights of the head do not fit it"):
        LateHead.of_weights({name: value for name, value in head.state_dict().items() if "inner" not in name})


def test_a_gate_is_one_number_that_multiplies_what_a_criterion_is_about() -> None:
    head = LateHead.seeded(8, seed=1, kept=3, width=5, gated=True).eval()
    states, group = torch.randn(6, 8), torch.tensor([[0, 1, 2, -1], [2, 3, 4, 5]])
    assert head.side is not None
    side = head.side(states[None, :3], torch.ones(1, 3, dtype=torch.bool))[0]
    about = head.criterion.of_groups(states, [group])
    found = head.of_criteria(states, [group])
    torch.testing.assert_close(found[0], torch.tanh(side + 0.5) * about[0], atol=rounding(about, 10_000), rtol=0)
    with torch.no_grad():
        head.side.outer.bias.sub_(2 * (head.side.of_groups(states, [group])[1, 0] + 0.5))
    torch.testing.assert_close(head.of_criteria(states, [group])[1], -found[1], atol=rounding(about, 10_000), rtol=0)
    plain = LateHead.seeded(8, seed=1, kept=3, width=5)
    assert torch.equal(plain.of_criteria(states, [group]), plain.criterion.of_groups(states, [group]))


def test_what_is_shared_counts_under_a_wish_and_its_opposite() -> None:
    """Three texts of one token, the last a criterion: its products with two responses, by hand."""
    head = LateHead.seeded(8, seed=1, kept=3, width=5, gated=True).eval()
    assert head.shared is not None and head.side is not None
    states = torch.randn(3, 8, generator=torch.Generator().manual_seed(4))
    texts = TextTokens([torch.tensor([[0], [1]])], [torch.tensor([[2]])], torch.tensor([[0, 1]]), torch.tensor([[0]]))
    vectors = head.response.of_groups(states, [torch.tensor([[0], [1]])])
    gap = (vectors[0] - vectors[1]) / 15**0.5
    about = head.of_criteria(states, texts.criteria)[0]

    def close(expected: torch.Tensor, wish: torch.Tensor, texts: TextTokens = texts) -> None:
        summed = rounding(vectors[:, None] * torch.stack([wish, head.shared]) / 15**0.5, 10_000)
        torch.testing.assert_close(head(states, states, texts).preference_logit[0], expected, atol=summed, rtol=0)

    close(gap @ about, about)
    with torch.no_grad():
        head.shared.copy_(torch.arange(15.0))
        expected = gap @ about, gap @ head.shared
    close(sum(expected), about)
    with torch.no_grad():
        head.side.outer.bias.sub_(2 * (head.side.of_groups(states, texts.criteria)[0, 0] + 0.5))
    close(expected[1] - expected[0], about)
    head.learn_user_vectors(1, seed=0)
    assert head.user_vectors is not None
    close(gap @ (head.user_vectors[0] + head.shared), head.user_vectors[0], replace(texts, criteria=[]))


def test_a_gated_head_does_without_some_of_the_states_while_it_is_trained() -> None:
    head = LateHead.seeded(8, seed=1, gated=True)
    states, group = torch.randn(6, 8), [torch.arange(6)[None]]
    assert not torch.equal(head.of_criteria(states, group), head.of_criteria(states, group))
    head.eval()
    assert torch.equal(head.of_criteria(states, group), head.of_criteria(states, group))


def test_what_nobody_asked_is_the_mean_square_of_all_other_differences() -> None:
    """Five texts of one token: three responses, two criteria."""
    head = LateHead.seeded(8, seed=2).eval()
    states = torch.randn(5, 8, generator=torch.Generator().manual_seed(4))
    texts = TextTokens(
        [torch.tensor([[0], [1], [2]])],
        [torch.tensor([[3], [4]])],
        shown=torch.tensor([[0, 1], [2, 0], [1, 2]]),
        asked=torch.tensor([[1, -1], [0, -1], [0, 1]]),
    )
    assert head(states, states, texts).unasked is None
    head.asks_others = True
    output = head(states, states, texts)
    one = torch.ones(1, 1, dtype=torch.bool)
    vectors = [head.response(state[None, None], one)[0] for state in states[:3]]
    wishes = [head.criterion(state[None, None], one)[0] for state in states[3:]]

    def gap(first: int, second: int, wish: int) -> float:
        product = (vectors[first] - vectors[second]) @ wishes[wish]
        return product.item() / (head.kept * head.width) ** 0.5

    expected = torch.tensor([gap(0, 1, 0) ** 2, gap(2, 0, 1) ** 2, 0.0])
    torch.testing.assert_close(output.unasked, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(output.preference_logit[2], torch.tensor(gap(1, 2, 0) + gap(1, 2, 1)), atol=1e-5, rtol=0)
