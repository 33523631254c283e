"""The parity gate: it passes, and it notices what it is there to notice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench import parity
from bench.parity import check_parity

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(
    ("backbone", "quick", "compared"), [("qwen3", False, 3 * 10 * 2 * 2 * 2), ("llama", True, 3 * 2 * 2)]
)
def test_every_head_batching_and_layer_gives_what_stock_transformers_gives(
    backbone: str, quick: bool, compared: int
) -> None:
    """Heads, cases, sides, ways of batching, layers; Llama has all corner cases in one batch, right padding."""
    worst = check_parity(backbones=[backbone], quick=quick)
    assert worst.compared == compared
    assert 0 < worst.logit < 1e-12 and 0 < worst.gradient < 1e-12


def test_float32_passes_the_gate() -> None:
    assert check_parity(quick=True).compared == 3 * 2 * 2


@pytest.mark.parametrize("fault", ["logits", "gradients"])
def test_a_small_fault_is_noticed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    honest = parity.batch_of

    def faulty(rows: Any, mode: Any) -> Any:
        batch = honest(rows, mode)
        if fault == "logits":
            batch.input_ids[..., 0] += 1  # the first token of a prompt
        return batch

    def other_targets(logits: Any, target: Any) -> Any:
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, target * (1 - 1e-3 * next(noise)))

    noise = iter(range(10_000))
    monkeypatch.setattr(parity, "batch_of", faulty)
    if fault == "gradients":
        monkeypatch.setattr(parity, "binary_cross_entropy_with_logits", other_targets)
    with pytest.raises(ValueError, match=r"scalar qwen3 everything padded full right: logits differ by"):
        check_parity(quick=True)
