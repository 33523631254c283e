"""The estimate of `crm.training.memory` against torch's memory trackers, on a small model of four layers."""

from __future__ import annotations

import pytest

from bench.memory_table import Setup, peak_and_estimate
from bench.models import Size

SMALL = Size(256, 4, 4, 2, 64, 768, vocabulary=50_000)
SETUPS = [
    (Setup("one"), False),
    (Setup("ddp", "ddp", 2), True),
    (Setup("fsdp", "fsdp", 4), True),
    (Setup("lora", rank=8), False),
]


@pytest.mark.parametrize(("setup", "checkpointing"), SETUPS, ids=["one", "ddp", "fsdp", "lora"])
def test_the_estimate_is_near_what_torch_counts(setup: Setup, checkpointing: bool) -> None:
    peak, estimate = peak_and_estimate(SMALL, setup, checkpointing)
    assert estimate == pytest.approx(peak, rel=0.15)
