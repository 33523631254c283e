"""The parity gate: it passes, and it notices what it is there to notice."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bench import parity
from bench.parity import cases, check_parity

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "cases", lambda head: {"everything": cases(head)["everything"][::3]})


@pytest.mark.parametrize("backbone", ["qwen3", "llama"])
def test_every_head_batching_and_layer_gives_what_stock_transformers_gives(backbone: str) -> None:
    """Heads, ways of batching and layers, with a third of the corner cases in one batch."""
    worst = check_parity(backbones=[backbone], quick=True)
    assert worst.compared == 3 * 2 * 2
    assert 0 < worst.logit < 1e-5 and 0 < worst.gradient < 1e-5


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
