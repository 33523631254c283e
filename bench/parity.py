"""``python -m bench.parity``: every shortcut against stock transformers. Out: the worst differences, or an error.

The reference has nothing of ours but the weights: a stock classification class, a padded batch of whole sequences,
a full attention mask, its own pooling. Every head, way of batching, pruning and backbone has to give its logits within
`LOGITS` and its gradients within `GRADIENTS`, and in bfloat16 at least `DECISIONS` of its decisions.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from bench.models import FILLER_ID, SMALL, TOY, build_reward_model, stock_twin, twin_of_ours
from bench.ours import MODES, Mode, batch_of, mixed
from bench.pairs import arena_pairs
from bench.parity_cases import cases
from crm.model.encoding import EncodedComparison, token_ids
from crm.model.heads import LINEAR_HEADS
from crm.model.reward_model import RewardModel

LOGITS = 1e-4
"""Greatest difference of a logit."""
GRADIENTS = 1e-5
"""Greatest difference of a parameter's gradient, as Euclidean norms, relative to that of the whole gradient."""
DECISIONS = 0.99
COMPARISONS = 512
"""Of the bfloat16 check, a head."""
BACKBONES = ("qwen3", "llama")
Side = Literal["right", "left"]
SIDES: tuple[Side, ...] = ("right", "left")


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
    if not given.quick:
        print(f"{check_bf16():.1%} of {len(LINEAR_HEADS) * COMPARISONS} decisions in bfloat16 are those of float32")
    return 0


def check_parity(*, quick: bool = False, backbones: Sequence[str] = BACKBONES) -> Worst:
    """Compare every combination in float32. Raises ``ValueError`` at the first difference above what is allowed."""
    worst = Worst()
    for head, backbone in itertools.product(LINEAR_HEADS, backbones[:1] if quick else backbones):
        model = build_reward_model(SMALL, head, seed=3, architecture=backbone, prunes=False, pad_id=FILLER_ID)
        reference = stock_twin(model).eval()  # token classification has dropout
        ours = {"full": model, "pruned": twin_of_ours(model, prunes=True)}
        assert ours["pruned"].prunes, f"{backbone}: the last layer was not pruned, so this would check nothing"
        for name, rows in cases(head).items():
            if quick and name != "everything":
                continue
            sides = SIDES[:1] if quick else SIDES
            expected = {side: _outcome(model, _reference_logits(reference, head, rows, side), rows) for side in sides}
            for mode, layer in itertools.product(MODES, ours):
                found = _outcome(model, ours[layer](batch_of(rows, mode)).preference_logit, rows)
                for side in sides:
                    _compare(worst, expected[side], found, f"{head} {backbone} {name} {mode} {layer} {side}")
    return worst


def _outcome(model: RewardModel, logits: Tensor, rows: Sequence[EncodedComparison]) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits, and the gradients of their mean loss; all models share the parameters of ``model``."""
    model.zero_grad()
    target = torch.tensor([row.target for row in rows])
    binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _compare(worst: Worst, expected: Any, found: Any, place: str) -> None:
    worst.compared += 1
    logit = float((expected[0] - found[0]).abs().max())
    if expected[1].keys() != found[1].keys():
        raise ValueError(f"{place}: gradients of {expected[1].keys() ^ found[1].keys()} on one side only")
    whole = torch.stack([gradient.norm() for gradient in expected[1].values()]).norm()
    gradient = max(float((found[1][name] - own).norm() / whole) for name, own in expected[1].items())
    if not (logit <= LOGITS and gradient <= GRADIENTS):
        raise ValueError(
            f"{place}: logits differ by {logit:.2g} (allowed {LOGITS}), gradients by {gradient:.2g} ({GRADIENTS})"
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
    logits: Tensor = reference(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    if head == "scalar":
        return logits[0::2, 0] - logits[1::2, 0]
    if head == "pairwise":
        return logits[:, 0] - logits[:, 1]
    shift = torch.tensor([width - len(sequence) if side == "left" else 0 for sequence in sequences])
    reads = torch.tensor([[position for _, position in row.reads] for row in rows]) + shift[:, None]
    each = torch.arange(len(rows))
    return logits[each, reads[:, 0], 0] - logits[each, reads[:, 1], 1]


@torch.inference_mode()
def check_bf16(mode: Mode = "tree", comparisons: int = COMPARISONS) -> float:
    """Share of decisions that our bfloat16 has in common with the float32 reference, on arena pairs of every head.

    Random weights decide much more narrowly than trained ones: about one decision in 200 turns with rounding, with
    stock transformers in bfloat16 just as with ours. Raises ``ValueError`` below `DECISIONS`, and where the logits are
    too small to decide anything.
    """
    exact, rounded = [], []
    for head in LINEAR_HEADS:
        model = build_reward_model(replace(TOY, layers=2), head, seed=3, pad_id=FILLER_ID).eval()
        reference = stock_twin(model).eval()
        pairs = arena_pairs(head, comparisons, seed=5)
        for start in range(0, len(pairs), 8):
            rows = pairs[start : start + 8]
            exact.append(_reference_logits(reference, head, rows, "right"))
            with mixed("cpu", True):
                rounded.append(model(batch_of(rows, mode)).preference_logit)
    one, other = torch.cat(exact), torch.cat(rounded)
    if not one.abs().median() > 0.1:
        raise ValueError(f"half of the logits are within {one.abs().median():.2g} of 0; nothing is decided")
    share = float(((one > 0) == (other > 0)).float().mean())
    if not share >= DECISIONS:
        raise ValueError(f"{share:.1%} of decisions agree in bfloat16, expected {DECISIONS:.0%}")
    return share


if __name__ == "__main__":
    sys.exit(main())
