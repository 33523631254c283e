"""``python -m bench.parity``: every head, way of batching, pruning and backbone against stock transformers."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bench.models import FILLER_ID, PAD_ID, SMALL, build_reward_model, stock_twin, twin_of_ours
from bench.ours import MODES, batch_of, mixed
from bench.pairs import FIRST_ID, from_ids
from crm.model.encoding import EncodedComparison, Order, token_ids
from crm.model.heads import LINEAR_HEADS
from crm.model.reward_model import RewardModel

ALLOWED = {False: (1e-4, 1e-5), True: (0.2, 0.05)}
"""In float32 and under bfloat16 autocast: the greatest difference of a logit, and of a parameter's gradient as
Euclidean norms, relative to that of the whole gradient."""
BACKBONES = ("qwen3", "llama")
Side = Literal["right", "left"]
SIDES: tuple[Side, ...] = ("right", "left")
Ids = tuple[int, ...]
TARGETS = (1.0, 0.0, 0.5)


@dataclass
class Worst:
    """The greatest differences so far, and where they were."""

    logit: float = 0.0
    gradient: float = 0.0
    at: tuple[str, str] = ("", "")
    compared: int = 0

    def __str__(self) -> str:
        return (
            f"{self.compared} comparisons with stock transformers; worst logit {self.logit:.1e} ({self.at[0]}), "
            f"worst gradient {self.gradient:.1e} ({self.at[1]})"
        )


def main(words: Sequence[str] | None = None) -> int:
    """Check everything and print the worst of it."""
    parser = argparse.ArgumentParser(prog="python -m bench.parity", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="all corner cases in one batch, right padding, Qwen3")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    print(check_parity(quick=given.quick))
    return 0


def check_parity(
    *, quick: bool = False, backbones: Sequence[str] = BACKBONES, device: str = "cpu", bf16: bool = False
) -> Worst:
    """Compare every combination. Raises ``ValueError`` at the first difference above what is allowed."""
    worst = Worst()
    for head, backbone in itertools.product(LINEAR_HEADS, backbones[:1] if quick else backbones):
        model = build_reward_model(
            SMALL, head, seed=3, architecture=backbone, prunes=False, pad_id=FILLER_ID, device=device
        )
        reference = stock_twin(model).eval()  # token classification has dropout
        ours = {"full": model, "pruned": twin_of_ours(model, prunes=True)}
        assert ours["pruned"].prunes, f"{backbone}: the last layer was not pruned, so this would check nothing"
        for name, rows in cases(head).items():
            if quick and name != "everything":
                continue
            sides = SIDES[:1] if quick else SIDES
            with mixed(device, bf16):
                stock = {side: _reference_logits(reference, head, rows, side) for side in sides}
            expected = {side: _outcome(model, logits, rows) for side, logits in stock.items()}
            for mode, layer in itertools.product(MODES, ours):
                with mixed(device, bf16):
                    logits = ours[layer](batch_of(rows, mode).to(device)).preference_logit
                found = _outcome(model, logits, rows)
                for side in sides:
                    place = f"{head} {backbone} {name} {mode} {layer} {side}"
                    _compare(worst, expected[side], found, place, ALLOWED[bf16])
    return worst


def _outcome(model: RewardModel, logits: Tensor, rows: Sequence[EncodedComparison]) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits, and the gradients of their mean loss; all models share the parameters of ``model``."""
    model.zero_grad()
    target = torch.tensor([row.target for row in rows], device=logits.device)
    binary_cross_entropy_with_logits(logits.float(), target).backward()  # type: ignore[no-untyped-call]
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _compare(worst: Worst, expected: Any, found: Any, place: str, allowed: tuple[float, float]) -> None:
    worst.compared += 1
    logit = float((expected[0] - found[0]).abs().max())
    if expected[1].keys() != found[1].keys():
        raise ValueError(f"{place}: gradients of {expected[1].keys() ^ found[1].keys()} on one side only")
    whole = torch.stack([gradient.norm() for gradient in expected[1].values()]).norm()
    gradient = max(float((found[1][name] - own).norm() / whole) for name, own in expected[1].items())
    if not (logit <= allowed[0] and gradient <= allowed[1]):
        raise ValueError(
            f"{place}: logits differ by {logit:.2g} (allowed {allowed[0]}), gradients by {gradient:.2g} ({allowed[1]})"
        )
    if logit >= worst.logit:
        worst.logit, worst.at = logit, (place, worst.at[1])
    if gradient >= worst.gradient:
        worst.gradient, worst.at = gradient, (worst.at[0], place)


def _reference_logits(reference: Any, head: str, rows: Sequence[EncodedComparison], side: Side) -> Tensor:
    """Logits (B,) of the stock class, every sequence of every comparison in a row of its own."""
    sequences = [token_ids(sequence) for row in rows for sequence in row.sequences]
    width = max(map(len, sequences))
    ids = torch.full((len(sequences), width), FILLER_ID)
    for index, sequence in enumerate(sequences):
        start = width - len(sequence) if side == "left" else 0
        ids[index, start : start + len(sequence)] = torch.tensor(sequence)
    mask = (ids != FILLER_ID).long()
    # Where padding stands first, positions have to be given: stock models count from the start of the row.
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    on_device = {name: tensor.to(reference.device) for name, tensor in inputs.items()}
    logits: Tensor = reference(**on_device, use_cache=False).logits.float()
    if head == "scalar":
        return logits[0::2, 0] - logits[1::2, 0]
    if head == "pairwise":
        return logits[:, 0] - logits[:, 1]
    shift = torch.tensor([width - len(sequence) if side == "left" else 0 for sequence in sequences])
    reads = (torch.tensor([[position for _, position in row.reads] for row in rows]) + shift[:, None]).to(logits.device)
    each = torch.arange(len(rows), device=logits.device)
    return logits[each, reads[:, 0], 0] - logits[each, reads[:, 1], 1]


def cases(head: str) -> dict[str, list[EncodedComparison]]:
    """Every corner by itself, and all of them in one batch."""
    draw = _Ids(seed=7)
    user, query = draw(11), draw(9)
    one = "one_token_responses", [(user, query, draw(1), draw(1)), (user, query, draw(1), draw(6))]
    same = draw(8)
    found = dict(
        [
            one,
            ("equal_lengths", [(user, query, draw(7), draw(7)) for _ in range(3)]),
            ("identical_responses", [(user, query, same, same), (user, query, same, draw(8))]),
            (
                "ends_in_the_pad_id",
                [
                    (user, query, (*draw(4), PAD_ID), (*draw(2), PAD_ID, PAD_ID)),
                    (user, query, draw(3), (*draw(5), PAD_ID)),
                ],
            ),
            ("single_comparison", [(user, query, draw(6), draw(4))]),
            ("one_criterion_and_twenty", [(draw(5), query, draw(6), draw(7)), (draw(160), query, draw(6), draw(9))]),
            ("several_prompts", _several_prompts(draw)),
            ("one_response_begins_another", [(user, query, same[:3], same), (user, query, same, same[:5])]),
        ]
    )
    encoded = {name: _encoded(head, rows, ("ab",)) for name, rows in found.items()}
    encoded["both_orders"] = _encoded(head, found["several_prompts"], ("ab", "ba"))
    encoded["everything"] = [row for rows in encoded.values() for row in rows]
    return encoded


def _several_prompts(draw: _Ids) -> list[tuple[Ids, Ids, Ids, Ids]]:
    """Two users and three queries; all candidates of a query meet one baseline, which stands first."""
    rows = []
    for user in (draw(10), draw(13)):
        for query in (draw(6), draw(12), draw(3)):
            baseline = draw(9)
            rows += [(user, query, baseline, draw(length)) for length in (5, 14, 2)]
    return rows


def _encoded(head: str, rows: list[tuple[Ids, Ids, Ids, Ids]], orders: tuple[Order, ...]) -> list[EncodedComparison]:
    found = []
    for index, (user, query, first, second) in enumerate(rows):
        target = TARGETS[index % len(TARGETS)]
        for order in orders:
            shown = (first, second) if order == "ab" else (second, first)
            name = f"{index}-{order}"
            # A target is about the response shown first.
            own = target if order == "ab" else 1.0 - target
            found.append(from_ids(head, user, query, *shown, order=order, target=own, name=name))
    return found


class _Ids:
    """Random ids that are neither control tokens nor the filler of the reference."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, length: int) -> Ids:
        return tuple(torch.randint(FIRST_ID, FILLER_ID, (length,), generator=self._generator).tolist())


if __name__ == "__main__":
    sys.exit(main())
