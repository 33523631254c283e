"""``python -m bench.parity``: every head, way of batching, pruning and backbone against stock transformers."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSequenceClassification

from bench.models import FILLER_ID, PAD_ID, SMALL, build_reward_model, stock_twin, twin_of_ours
from bench.ours import LAYOUTS, mixed
from bench.pairs import TEXT, Draw, bench_tokenizer, from_ids
from crm.model.backbone import add_lora, merge_lora
from crm.model.encoding import EncodedComparison, Encoder, Order, token_ids
from crm.model.export import export_model
from crm.model.reward_model import RewardModel, build_score
from crm.schema import Comparison, Message

EXACT = {"cpu": 1e-5, "cuda": 1e-4}
"""Allowed in float32."""
PARTS = ("logits", "gradients")
BACKBONES = ("qwen3", "llama")
Side = Literal["right", "left"]
SIDES: tuple[Side, ...] = ("right", "left")
Ids = tuple[int, ...]
TARGETS = (1.0, 0.0, 0.5)


class Compared(NamedTuple):
    """``gap`` is a norm relative to that of all logits, or of the whole gradient."""

    what: str
    gap: float
    allowed: float


def main(words: Sequence[str] | None = None) -> int:
    """Check everything and print the worst of it."""
    parser = argparse.ArgumentParser(prog="python -m bench.parity", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="all corner cases in one batch, right padding, Qwen3")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    print(check_parity(quick=given.quick))
    return 0


def check_parity(*, quick: bool = False, backbones: Sequence[str] = BACKBONES) -> str:
    """Compare every combination in float32. Raises ``ValueError`` at the first difference above what is allowed."""
    compared = []
    for one in compare("cpu", backbones[:1] if quick else backbones, every_case=not quick):
        compared.append(one)
        if not one.gap <= one.allowed:
            raise ValueError(f"{one.what} differ by {one.gap:.2g} (allowed {one.allowed})")
    worst = max(compared, key=lambda one: one.gap)
    return f"{len(compared)} comparisons with stock transformers; worst {worst.gap:.1e} ({worst.what})"


def check_device(device: str) -> Iterator[Compared]:
    """What to know of a device before its speed: both precisions, LoRA, the export, the late head."""
    for bf16 in (False, True):
        yield from compare(device, BACKBONES[:1], bf16=bf16)
    yield from _check_adapters(device)
    yield _check_late(device)


def compare(
    device: str, backbones: Sequence[str], *, every_case: bool = False, bf16: bool = False
) -> Iterator[Compared]:
    """Heads, batches and layers beside stock transformers in float32.

    In bfloat16 we may be twice as far from it as stock transformers in bfloat16 is.
    """
    sides = SIDES if every_case else SIDES[:1]
    for head, backbone in itertools.product(("scalar", "pairwise", "pairwise_span"), backbones):
        model = build_reward_model(
            SMALL, head, seed=3, architecture=backbone, device=device, prunes=False, pad_id=FILLER_ID
        )
        reference = stock_twin(model).eval()  # token classification has dropout
        ours = {"full": model, "pruned": twin_of_ours(model, prunes=True)}
        assert ours["pruned"].prunes, f"{backbone}: the last layer was not pruned, so this would check nothing"
        for name, rows in cases(head).items():
            if not every_case and name != "everything":
                continue
            for side in sides:
                expected = _outcome(model, _reference_logits(reference, head, rows, side), rows)
                allowed = (EXACT[device], EXACT[device])
                if bf16:
                    with mixed(device, bf16):
                        gaps = _gaps(expected, _outcome(model, _reference_logits(reference, head, rows, side), rows))
                    allowed = 2 * gaps[0], 2 * gaps[1]
                for mode, layer in itertools.product(LAYOUTS, ours):
                    with mixed(device, bf16):
                        batch = LAYOUTS[mode].collate(rows).to(device)
                        own = _outcome(model, ours[layer](batch).preference_logit, rows)
                    place = f"{head} {backbone} {name} {mode} {layer} {side} {'bfloat16' if bf16 else 'float32'}"
                    for part, gap, most in zip(PARTS, _gaps(expected, own), allowed, strict=True):
                        yield Compared(f"{place}: {part}", gap, most)


def _check_adapters(device: str) -> Iterator[Compared]:
    """LoRA, and its exported folder in plain transformers, in float32."""
    model, rows = build_reward_model(SMALL, "scalar", 3, device=device, pad_id=FILLER_ID), cases("scalar")["everything"]
    adapted = RewardModel(add_lora(model.backbone, 4, 8), model.score, model.head)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight, std=0.05)
    batches = [layout.collate(rows).to(device) for layout in LAYOUTS.values()]
    padded, own = (_outcome(adapted, adapted(batch).preference_logit, rows) for batch in batches)
    for part, gap in zip(PARTS, _gaps(padded, own), strict=True):
        yield Compared(f"LoRA, tree and padded, float32: {part}", gap, EXACT[device])
    with tempfile.TemporaryDirectory() as folder:
        merged = RewardModel(merge_lora(adapted.backbone).cpu(), model.score.cpu(), model.head)
        export_model(merged, bench_tokenizer(0), Path(folder), {"max_length": 8192})
        stock = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    stock.config.pad_token_id = FILLER_ID
    logits = _reference_logits(stock, "scalar", rows, "right").detach()
    yield Compared("export with LoRA merged, plain transformers: logits", _gap(own[0], logits), EXACT[device])


def _check_late(device: str) -> Compared:
    """Forests and padded batches of texts, with the head that pools over tokens."""
    score = build_score("late", SMALL.hidden, 3)
    nn.init.normal_(score.criterion.outer.weight, std=0.5)  # type: ignore[union-attr, arg-type]
    model = RewardModel(build_reward_model(SMALL, "scalar", 3, device=device).backbone, score, "late").to(device)
    encoder = Encoder(bench_tokenizer(0), "late", 1024)
    texts = [(Message("assistant", "word " * count),) for count in (3, 40, 9)]
    rows = [Comparison(f"{i}", "p", (f"Likes {i}",), TEXT, texts[i], texts[i - 1], "a") for i in range(3)]
    encoded = [row for row in map(encoder.encode, rows) if row is not None]
    batches = [layout.collate(encoded).to(device) for layout in LAYOUTS.values()]
    padded, tree = (model(batch).preference_logit.detach() for batch in batches)
    return Compared("late head, tree and padded, float32: logits", _gap(padded, tree), EXACT[device])


def _gap(expected: Tensor, found: Tensor) -> float:
    return float((expected.cpu() - found.cpu()).norm() / expected.norm())


def _gaps(expected: Any, found: Any) -> tuple[float, float]:
    """Of logits, and of the whole gradient."""
    if expected[1].keys() != found[1].keys():
        raise ValueError(f"gradients of {expected[1].keys() ^ found[1].keys()} on one side only")
    whole = torch.stack([gradient.norm() for gradient in expected[1].values()]).norm()
    apart = torch.stack([(found[1][name] - own).norm() for name, own in expected[1].items()]).norm()
    return _gap(expected[0], found[0]), float(apart / whole)


def _outcome(model: RewardModel, logits: Tensor, rows: Sequence[EncodedComparison]) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits, and the gradients of their mean loss; all models share the parameters of ``model``."""
    model.zero_grad()
    target = torch.tensor([row.target for row in rows], device=logits.device)
    logits = logits.float()
    binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _reference_logits(reference: Any, head: str, rows: Sequence[EncodedComparison], side: Side) -> Tensor:
    """Logits (B,) of the stock class, every sequence of every comparison in a row of its own."""
    sequences = [token_ids(sequence) for row in rows for sequence in row.sequences]
    ids = pad_sequence(list(map(torch.tensor, sequences)), True, FILLER_ID, padding_side=side)
    mask = (ids != FILLER_ID).long()
    # Where padding stands first, positions have to be given: stock models count from the start of the row.
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    moved: Any = {name: part.to(reference.device) for name, part in inputs.items()}
    logits: Tensor = reference(**moved, use_cache=False).logits
    if head == "scalar":
        return logits[0::2, 0] - logits[1::2, 0]
    if head == "pairwise":
        return logits[:, 0] - logits[:, 1]
    shift = mask.argmax(dim=1)
    reads = torch.tensor([[position for _, position in row.reads] for row in rows]) + shift[:, None]
    each = torch.arange(len(rows))
    return logits[each, reads[:, 0], 0] - logits[each, reads[:, 1], 1]


def cases(head: str) -> dict[str, list[EncodedComparison]]:
    """Every corner by itself, and all of them in one batch."""
    draw = Draw(seed=7).ids
    user, query = draw(11), draw(9)
    same = draw(8)
    padded = (*draw(2), PAD_ID, PAD_ID)
    found = {
        "one_token_responses": [(user, query, draw(1), draw(1)), (user, query, draw(1), draw(6))],
        "equal_lengths": [(user, query, draw(7), draw(7)) for _ in range(3)],
        "identical_responses": [(user, query, same, same), (user, query, same, draw(8))],
        "ends_in_the_pad_id": [(user, query, (*draw(4), PAD_ID), padded), (user, query, draw(3), padded[:3])],
        "single_comparison": [(user, query, draw(6), draw(4))],
        "one_criterion_and_twenty": [(draw(5), query, draw(6), draw(7)), (draw(160), query, draw(6), draw(9))],
        "several_prompts": _several_prompts(draw),
        "one_response_begins_another": [(user, query, same[:3], same), (user, query, same, same[:5])],
    }
    encoded = {name: _encoded(head, rows, ("ab",)) for name, rows in found.items()}
    encoded["both_orders"] = _encoded(head, found["several_prompts"], ("ab", "ba"))
    encoded["everything"] = [row for rows in encoded.values() for row in rows]
    return encoded


def _several_prompts(draw: Callable[[int], Ids]) -> list[tuple[Ids, Ids, Ids, Ids]]:
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


if __name__ == "__main__":
    sys.exit(main())
