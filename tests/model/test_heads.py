"""Heads and losses: symmetries, where they read, float32 differences, numbers by hand."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

from crm.model.batching.batches import TextTokens
from crm.model.heads import KEPT, WIDTH, HeadOutput
from crm.model.late_head import LateHead, TextPooling
from crm.model.reward_model import build_score, read_head
from crm.training.loss import LossConfig, preference_loss, training_loss
from tests.conftest import LINEAR_HEADS, rounding

LOGITS = torch.tensor([-30.0, -2.0, -0.1, 0.0, 0.4, 3.0, 30.0], dtype=torch.float64)


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
    assert head == "scalar" or torch.equal(first[0], first[1]) == (head == "pairwise_span")


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


def test_a_head_goes_on_from_a_trained_one_where_it_reads_the_same() -> None:
    scalar = build_score("scalar", 8, seed=3)
    span = build_score("pairwise_span", 8, seed=4, start=scalar)
    assert torch.equal(span.weight, scalar.weight.expand(2, -1))
    assert torch.equal(build_score("scalar", 8, seed=4, start=scalar).weight, scalar.weight)
    assert torch.equal(build_score("pairwise", 8, 4, start=scalar).weight, build_score("pairwise", 8, 4).weight)
    assert torch.equal(build_score("scalar", 8, 4, start=span).weight, build_score("scalar", 8, 4).weight)
    late = build_score("late", 8, seed=3, kept=2, width=5)
    assert build_score("late", 8, seed=4, start=late, kept=2, width=5) is late
    with pytest.raises(ValueError, match=r"head.kept=4: the head to go on from has 2;"):
        build_score("late", 8, seed=4, start=late, kept=4)
    anew = build_score("late", 8, seed=4, start=scalar)
    assert (anew.kept, anew.width) == (KEPT, WIDTH)


@pytest.fixture()
def pooling() -> TextPooling:
    torch.manual_seed(3)
    pooling = TextPooling(hidden_size=6, queries=2, width=3, size=4, inner=5)
    pooling.centre.normal_()
    pooling.spread.uniform_(1, 3)
    return pooling


def test_text_pooling_is_the_formula_written_out(pooling: TextPooling) -> None:
    raw = torch.randn(5, 6)
    states = (raw - pooling.centre) / pooling.spread
    normed = states / states.square().mean(dim=1, keepdim=True).add(torch.finfo(torch.float32).eps).sqrt()
    pooled = []
    for query in range(2):
        logits = normed @ pooling.attention.weight[query] + pooling.attention.bias[query]
        weights = logits.exp() / logits.exp().sum()
        pooled.append(sum(w * (state @ pooling.values[query]) for w, state in zip(weights, normed, strict=True)))
    counts = sum(torch.sigmoid(pooling.detectors(state)) for state in normed)
    seen = torch.cat([*pooled, (1 + counts).log() / 2, 4 * counts / 5, torch.tensor([5.0]).log() / 4])
    expected = pooling.outer(torch.nn.functional.gelu(pooling.inner(seen)))
    padded = torch.cat([raw, torch.randn(2, 6)])[None]
    got = pooling(padded, torch.arange(7)[None] < 5)[0]
    torch.testing.assert_close(got, expected, atol=rounding(expected, 10_000), rtol=0)
    twice = pooling(raw[None].repeat(1, 2, 1), torch.ones(1, 10, dtype=torch.bool))[0]
    assert (twice - expected).abs().max() > 0.01, "counts tell a text from itself twice; a mean could not"


def test_a_new_late_head_prefers_next_to_nothing_and_depends_on_its_seed_alone() -> None:
    torch.manual_seed(0)
    one = LateHead.seeded(8, seed=5)
    torch.manual_seed(1)
    same, other = LateHead.seeded(8, seed=5), LateHead.seeded(8, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), same.state_dict().values(), strict=True))
    assert not torch.equal(one.response.attention.weight, other.response.attention.weight)
    states, mask = torch.randn(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)
    scores = one.response(states, mask) @ one.criterion(states, mask).T / (one.kept * one.width) ** 0.5
    assert 0 < scores.abs().max() < 0.3


def test_states_are_standardised_once_by_the_tokens_of_responses() -> None:
    """A number that is a hundred times as large as the others is then one of them."""
    torch.manual_seed(0)
    head, states = LateHead.seeded(8, seed=5), torch.randn(9, 8) * torch.tensor([100.0] + [1.0] * 7) + 3
    texts = TextTokens(
        [torch.tensor([[0, -1], [1, 2]])], [torch.tensor([[8]])], torch.tensor([[0, 1]]), torch.tensor([[0]])
    )
    plain = head(((states - states[:3].mean(dim=0)) / states[:3].std(dim=0)), texts).preference_logit
    head.standardise(states, texts)
    torch.testing.assert_close(head(states, texts).preference_logit, plain)
    torch.nn.init.ones_(head.response.outer.bias)
    head.standardise(2 * states, texts)
    torch.testing.assert_close(head(states, texts).preference_logit, plain, msg="a trained head stays as it is")
    assert torch.equal(LateHead.of_weights(head.state_dict(), states.shape[1]).criterion.spread, head.response.spread)


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
    assert head(states, texts).off_criteria is None
    output = head.train()(states, texts)
    one = torch.ones(1, 1, dtype=torch.bool)
    vectors = [head.response(state[None, None], one)[0] for state in states[:3]]
    users = [head.criterion(state[None, None], one)[0] for state in states[3:]]

    def gap(first: int, second: int, user: int) -> float:
        return ((vectors[first] - vectors[second]) @ users[user]).item() / (head.kept * head.width) ** 0.5

    expected = torch.tensor([gap(0, 1, 0) ** 2, gap(2, 0, 1) ** 2, 0.0])
    torch.testing.assert_close(output.off_criteria, expected, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(output.preference_logit[2], torch.tensor(gap(1, 2, 0) + gap(1, 2, 1)), atol=1e-5, rtol=0)


def test_the_loss_is_that_of_two_logits_and_of_a_score_difference() -> None:
    two = torch.stack([LOGITS * 0.75, -LOGITS * 0.25], dim=1)
    for label in (0, 1):
        expected = cross_entropy(two, torch.full((len(LOGITS),), label), reduction="none")
        torch.testing.assert_close(preference_loss(LOGITS, torch.full_like(LOGITS, 1.0 - label)), expected)
    torch.testing.assert_close(preference_loss(LOGITS, torch.ones_like(LOGITS)), -logsigmoid(LOGITS))
    half = preference_loss(LOGITS, torch.full_like(LOGITS, 0.5))
    torch.testing.assert_close(half, -0.5 * (logsigmoid(LOGITS) + logsigmoid(-LOGITS)))
    assert int(half.argmin()) == 3 and half[3].item() == pytest.approx(math.log(2))


def test_label_smoothing_and_centring_by_hand() -> None:
    """Smoothing 0.2 makes targets 0.9 and 0.1 of 1 and 0, and leaves a tie; with logit ln 3, P = 3/4."""
    logit = torch.tensor([math.log(3.0)] * 3)
    by_hand = [-share * math.log(0.75) - (1 - share) * math.log(0.25) for share in (0.9, 0.1, 0.5)]
    assert preference_loss(logit, torch.tensor([1.0, 0.0, 0.5]), 0.2).tolist() == pytest.approx(by_hand)
    output = HeadOutput(logit, torch.tensor([[1.0, 2.0], [3.0, -3.0], [-1.0, 0.0]]))
    loss, objective = training_loss(output, torch.ones(3), LossConfig(centre_scores=0.3))
    assert (objective - loss).item() == pytest.approx(0.3 * (9 + 0 + 1) / 3)
