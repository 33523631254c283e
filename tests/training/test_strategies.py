"""The strategy that a setting names is the one built."""

from __future__ import annotations

from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy

from crm.training.strategies import build_strategy


def test_one_process_needs_no_strategy_and_several_get_lightnings() -> None:
    assert build_strategy("auto", 1) == "auto"
    assert isinstance(build_strategy("auto", 2), DDPStrategy)
    assert isinstance(build_strategy("ddp", 1), DDPStrategy)
    assert isinstance(build_strategy("fsdp", 8), ModelParallelStrategy)
