"""The strategy that a setting names is the one built. DeepSpeed is a stand-in here: it was never run."""

from __future__ import annotations

import importlib.machinery
import logging
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import lightning.pytorch.strategies.deepspeed as engine
import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy, DeepSpeedStrategy, ModelParallelStrategy

from crm.config import compose
from crm.training.building import build_trainer
from crm.training.strategies import build_strategy, zero_weights


def test_one_process_needs_no_strategy_and_several_get_lightnings() -> None:
    assert build_strategy("auto", 1, 2) == "auto"
    assert isinstance(build_strategy("auto", 2, 2), DDPStrategy)
    assert isinstance(build_strategy("ddp", 1, 2), DDPStrategy)
    assert isinstance(build_strategy("fsdp", 8, 2), ModelParallelStrategy)


@pytest.mark.parametrize(("name", "strategy"), [("fsdp", "fsdp"), ("deepspeed", "deepspeed"), ("ddp", "ddp")])
def test_the_trainers_of_several_devices_compose(name: str, strategy: str) -> None:
    config = compose("train", [f"trainer={name}", "optimizer=paper", "trainer.accumulate=8"], Path("x"))
    assert config.trainer.strategy == strategy
    assert config.trainer.devices * config.trainer.accumulate * config.trainer.batch_size == 32


def test_deepspeed_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "_DEEPSPEED_AVAILABLE", False)
    config = compose("train", ["trainer=deepspeed", "optimizer=paper"], tmp_path)
    with pytest.raises(ValueError, match=r"trainer.strategy='deepspeed': .* not installed; pip install .*trainer=fsdp"):
        build_trainer(config, tmp_path, [], [], passes=1)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Modules where Lightning and we look for DeepSpeed; returns what its checkpoints are said to hold."""
    held: dict[str, torch.Tensor] = {}
    names = ("deepspeed", "deepspeed.utils", "deepspeed.utils.zero_to_fp32")
    top, utils, converter = modules = [ModuleType(name) for name in names]
    for name, module in zip(names, modules, strict=True):
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    top.utils = utils  # type: ignore[attr-defined]
    utils.logging = SimpleNamespace(logger=logging.getLogger("deepspeed"))  # type: ignore[attr-defined]
    converter.get_fp32_state_dict_from_zero_checkpoint = lambda folder: held  # type: ignore[attr-defined]
    monkeypatch.setattr(engine, "_DEEPSPEED_AVAILABLE", True)
    monkeypatch.setattr(engine, "_DEEPSPEED_GREATER_EQUAL_0_16", True)
    return held


@pytest.mark.parametrize("stage", [2, 3])
def test_the_stage_reaches_deepspeed(stage: int, stand_in: dict[str, torch.Tensor]) -> None:
    config = compose("train", ["trainer=deepspeed", "optimizer=paper", f"trainer.zero_stage={stage}"], Path("x"))
    strategy = build_strategy(config.trainer.strategy, 4, config.trainer.zero_stage)
    assert isinstance(strategy, DeepSpeedStrategy) and isinstance(strategy.config, dict)
    assert strategy.config["zero_optimization"]["stage"] == stage


def test_weights_in_its_checkpoints_get_the_names_of_the_reward_model(stand_in: dict[str, torch.Tensor]) -> None:
    stand_in["_forward_module.model.score.weight"] = stand_in["model.backbone.norm.weight"] = torch.ones(2)
    assert sorted(zero_weights(Path("best.ckpt"))) == ["backbone.norm.weight", "score.weight"]


def test_deepspeed_is_refused_on_a_cpu() -> None:
    with pytest.raises(ValueError, match=r"trainer.strategy='deepspeed': expected auto, ddp or fsdp"):
        compose("train", ["trainer=deepspeed", "optimizer=paper", "trainer.accelerator=cpu"], Path("x"))
