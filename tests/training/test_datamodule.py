"""The data module, whose counts add up, and the accuracy of what it validates on, against a loop and by hand."""

import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.config import compose
from crm.schema import GENERIC_CRITERION, Message
from crm.training.datamodule import PreferenceDataModule, check_counts
from crm.training.lit_module import PreferenceAccuracy, ValidationMetrics

BASE = compose("train", ["loss=ranking", "trainer.devices=1", "trainer.nodes=1", "seed=0"], Path("run"))


@pytest.fixture()
def make_data(make_encoder, preferences):
    def make(max_length: int = 2048, rows: int = 4, tokens: int = 0, **changes: Any) -> PreferenceDataModule:
        """Padded batches of ``rows`` comparisons, or packs of ``tokens``."""
        giant = replace(preferences[1], id="giant", prompt=(Message("user", "long " * 300),))
        config = deepcopy(BASE)
        config.direction.kind, config.noise.kind = changes.get("direction", "original"), changes.get("noise", "none")
        config.loss.ties, config.criteria = changes.get("ties", "drop"), changes.get("criteria", "own")
        config.trainer.devices = changes.get("devices", 1)
        config.seed, config.schedule.comparisons_per_step = changes.get("seed", 0), rows
        config.batching.name, config.batching.tokens = ("tree", tokens) if tokens else ("padded", 10**6)
        train, validation = [*preferences, giant], [*preferences[:4], replace(giant, id="giant too")]
        config.batching.tokens = changes.get("most", config.batching.tokens)
        config.model.max_length = max_length
        config.head.name, config.loss.off_criteria_penalty = changes.get("head", "scalar"), changes.get("penalty", 0)
        return PreferenceDataModule(config, train, validation, make_encoder(config.head.name, max_length), pad_id=0)

    return make


@pytest.mark.parametrize(("devices", "tokens", "passes"), [(1, 0, 3), (2, 0, 2), (1, 10_000, 3)])
def test_counts_account_for_every_row(make_data, devices: int, tokens: int, passes: int) -> None:
    data = make_data(max_length=400, rows=4 * devices, devices=devices, tokens=tokens)
    counts = data.counts()
    assert counts["read"] == 13 and len(data.loader) == passes
    assert (counts["ties_dropped"], counts["overlong"], counts["trained_on"]) == (3, 1, 9)
    assert counts["read"] == sum(
        counts[name] for name in ("ties_dropped", "without_criteria", "overlong", "trained_on")
    )
    assert (counts["validation_read"], counts["validation_made"], counts["validation_overlong"]) == (5, 8, 2)
    drawn = data.loader.plan(0)
    assert drawn is data.loader.plan(0), "what was counted is what is read"
    data.loader.plan(1)
    assert drawn is not data.loader.plan(0), "and later epochs do not hold it"


def test_noise_changes_training_and_never_validation(make_data) -> None:
    clean, noised = make_data(), make_data(noise="remove")
    assert all(row.noise == "none" for row in clean.epoch_comparisons(0)[0])
    assert any(row.noise == "remove" for row in noised.epoch_comparisons(0)[0])
    for ours, theirs in zip(clean.val_dataloader(), noised.val_dataloader(), strict=True):
        assert torch.equal(ours.input_ids, theirs.input_ids) and torch.equal(ours.target, theirs.target)


@pytest.mark.parametrize("tokens", (0, 600))
def test_all_seeds_are_validated_on_the_same_comparisons_in_the_same_order(make_data, tokens: int) -> None:
    one, two = (make_data(direction="random", seed=seed, tokens=tokens) for seed in (1, 2))
    drawn = [[row.direction for row in data.epoch_comparisons(0)[0]] for data in (one, two)]
    assert drawn[0] != drawn[1]
    for ours, theirs in zip(one.val_dataloader(), two.val_dataloader(), strict=True):
        assert torch.equal(ours.input_ids, theirs.input_ids) and torch.equal(ours.sign, theirs.sign)
    assert one.counts()["validation_made"] == two.counts()["validation_made"]


@pytest.mark.parametrize(("direction", "number"), [("original", 3), ("both", 6)])
def test_the_accuracy_is_of_as_many_rows_as_are_shown(make_data, direction: str, number: int) -> None:
    """Of four votes that fit and one that does not, one is a tie."""
    data, metrics = make_data(max_length=400, direction=direction, ties="soft"), ValidationMetrics()
    for place, batch in enumerate(data.val_dataloader()):
        metrics.update(torch.ones(len(batch)), batch, *data.validation_roles(place))
    assert data.counts()["validation_decided"] == number == metrics.accuracy.weight


@pytest.mark.parametrize("direction", ("original", "reverse", "random", "both"))
@pytest.mark.parametrize("tokens", (0, 600))
def test_validation_reads_both_directions_of_a_row_whatever_is_trained(make_data, tokens: int, direction: str) -> None:
    data = make_data(direction=direction, tokens=tokens)
    one_sided = replace(data.validation[0], id="one side", criteria_a=(), criteria_b=("x",), winner="b")
    data.validation = [*data.validation, one_sided]
    loader = list(data.val_dataloader())
    read = {(row.comparison.preference_id, row.comparison.direction) for row in data.validation_rows}
    both = {name for name, _ in read} - {"one side"}
    alone = {("one side", "original")} if direction != "reverse" else set()
    assert len(both) == 4 and read == {(name, way) for name in both for way in ("original", "reverse")} | alone
    for place, batch in enumerate(loader):
        counted, paired = data.validation_roles(place)
        rows = [row.comparison for row in data.validation_batches[place]]
        assert batch.reverse.tolist() == [row.direction == "reverse" for row in rows]
        assert paired.tolist() == [row.preference_id != "one side" for row in rows]
        assert counted.tolist() == [direction in ("random", "both", row.direction) for row in rows]


def test_a_padded_pass_of_a_late_head_counts_the_sequences_of_criteria_too(make_data) -> None:
    """Two responses and two criteria a comparison, of at most 300 tokens each."""
    loader = make_data(head="late", max_length=300, rows=8, most=300 * 4 * 3).train_dataloader()
    shapes = [batch.input_ids.shape for batch in loader]
    assert len(shapes) > 1 and max(sequences for sequences, _ in shapes) <= 3 * 4


@pytest.mark.parametrize(
    ("changes", "enough"),
    [
        ({"most": 2000}, {"most": 2400}),
        ({"most": 2000, "rows": 5}, {"most": 3600}),
        ({"devices": 4}, {"devices": 1}),
    ],
)
def test_a_penalty_that_would_be_zero_in_every_pass_is_refused(make_data, changes: Any, enough: Any) -> None:
    """Whether one comparison of 1,200 tokens fills a pass, or several devices have one each."""
    given = {"head": "late", "max_length": 300, "penalty": 0.1, **changes}
    data = make_data(**given)
    with pytest.raises(ValueError, match=r"penalty=0.1: .* devices; raise batching.tokens, or train on fewer devices$"):
        check_counts(data, data.counts())
    data = make_data(**given | enough)
    check_counts(data, data.counts())


def test_soft_ties_are_kept_as_one_half(make_data) -> None:
    targets = torch.cat([batch.target for batch in make_data(ties="soft").train_dataloader()])
    assert (targets == 0.5).sum() == 3 and len(targets) == 13


def test_training_without_criteria_shows_the_generic_one(make_data) -> None:
    rows, _ = make_data(direction="random", criteria="none").epoch_comparisons(0)
    assert {row.criteria for row in rows} == {(GENERIC_CRITERION,)}
    own, _ = make_data(direction="random").epoch_comparisons(0)
    assert [(row.id, row.label) for row in rows] == [(row.id, row.label) for row in own]


rows = st.lists(
    st.tuples(st.sampled_from([-5.0, -1e-6, 0.0, 1e-6, 2.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30
)


def accuracy(*batches: list[tuple[float, float]]) -> float:
    metric = PreferenceAccuracy()
    for batch in batches:
        metric.update(torch.tensor([logit for logit, _ in batch]), torch.tensor([target for _, target in batch]))
    return metric.compute().item()


@settings(max_examples=40)
@given(rows, st.integers(0, 30))
def test_any_cut_into_batches_gives_the_mean_over_decided_rows(batch, cut) -> None:
    decided = [(logit, target) for logit, target in batch if target != 0.5]
    points = [0.5 if logit == 0 else float((logit > 0) == (target == 1.0)) for logit, target in decided]
    whole, parts = accuracy(batch), accuracy(batch[:cut], batch[cut:])
    if not points:
        assert math.isnan(whole) and math.isnan(parts)
    else:
        assert whole == parts == pytest.approx(sum(points) / len(points))


class Rows(NamedTuple):
    target: torch.Tensor
    reverse: torch.Tensor


def measure(metrics: ValidationMetrics, logits: torch.Tensor, rows: Rows, **chosen: torch.Tensor) -> None:
    every = torch.ones_like(rows.reverse)
    metrics.update(logits, rows, **{"counted": every, "paired": every} | chosen)


def test_directions_are_measured_apart_and_a_missing_one_is_left_out() -> None:
    """A judge that always takes the winner of the vote: right in the original direction, wrong in reverse."""
    metrics = ValidationMetrics()
    measure(
        metrics, torch.tensor([3.0, 3.0, 3.0]), Rows(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([False, True, True]))
    )
    numbers = metrics.finish()
    numbers = {name: value.item() for name, value in numbers.items()}
    assert numbers == {"accuracy_original": 1.0, "accuracy_reverse": 0.0, "accuracy_sum": 1.0}
    measure(metrics, torch.tensor([3.0]), Rows(torch.tensor([1.0]), torch.tensor([False])))
    numbers = metrics.finish()
    assert set(numbers) == {"accuracy_original"}, "it starts anew"


def test_one_row_that_is_nan_makes_the_loss_nan() -> None:
    metrics = ValidationMetrics()
    for logit in (1.0, math.nan):
        measure(metrics, torch.tensor([logit]), Rows(torch.tensor([1.0]), torch.tensor([False])))
    assert math.isnan(metrics.loss.compute())


def test_a_blind_judge_sums_to_one_on_pairs_and_rows_of_one_side_count_elsewhere() -> None:
    """Two pairs in both directions, and three rows of one direction that a blind judge gets right."""
    logits = torch.tensor([2.0, 2.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    reverse = torch.tensor([False, True, False, True, False, False, False])
    target = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    paired = torch.tensor([True] * 4 + [False] * 3)
    metrics = ValidationMetrics()
    for part in (slice(0, 3), slice(3, 7)):  # a pair may be in two batches
        measure(metrics, logits[part], Rows(target[part], reverse[part]), paired=paired[part])
    assert metrics.accuracy.compute() == pytest.approx((1 + 0 + 0 + 1 + 3) / 7)
    numbers = metrics.finish()
    assert {name: value.item() for name, value in numbers.items()} == {
        "accuracy_original": 0.5, "accuracy_reverse": 0.5, "accuracy_sum": 1.0
    }  # fmt: skip
    # Of a training in direction original the loss and accuracy are of that direction.
    metrics = ValidationMetrics()
    measure(metrics, logits, Rows(target, reverse), counted=~reverse, paired=paired)
    assert metrics.accuracy.compute() == pytest.approx(4 / 5)
    assert metrics.loss.compute() == pytest.approx(
        (math.log1p(math.exp(-2)) + math.log1p(math.e) + 3 * math.log1p(math.exp(-1))) / 5
    )
    numbers = metrics.finish()
    assert numbers["accuracy_sum"] == 1
    measure(metrics, logits[1:2], Rows(target[1:2], reverse[1:2]), counted=~reverse[1:2], paired=paired[1:2])
