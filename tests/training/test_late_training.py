"""A late head in training: its sizes, `loss.off_criteria_penalty`, frozen layers, adapters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from crm.config import compose
from crm.model.export import LATE_HEAD, load_checkpoint
from crm.training.train import TrainingOutcome, run_training
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.slow

TINY = (
    *(*TINY_MODEL, "head=late", "head.kept=3", "head.width=4", "loss=ranking", "direction=original"),
    *("data.train=16", "data.validation=17", "data.suite=4", "schedule.epochs=2", "schedule.max_steps=3"),
    *("schedule.comparisons_per_step=4", "schedule.validate_every=0", "trainer.precision=32-true"),
    *("trainer.threads=1", "trainer.progress=false", "schedule.save_every=0"),
    # Rates at which rounding stays small.
    *("optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.warmup_fraction=0"),
)


def train(folder: Path, *overrides: str) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], folder))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model/model.safetensors") | load_file(folder / "model" / LATE_HEAD)


def assert_alike(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, expected in theirs.items():
        if name == "response.outer.bias":  # adds as much to either score: its gradient is rounding alone
            continue
        torch.testing.assert_close(ours[name], expected, rtol=0, atol=2e-4, msg=name)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome]:
    folder = tmp_path_factory.mktemp("plain")
    return folder, train(folder, "loss.off_criteria_penalty=0.1")


def test_sizes_of_the_head_are_those_of_the_settings(plain: tuple[Path, TrainingOutcome]) -> None:
    model, _, manifest = load_checkpoint(plain[0] / "model")
    assert (model.score.kept, model.score.width) == (3, 4)
    sizes = {"kept": 3, "width": 4}
    assert manifest["config"]["head"] == {"name": "late", **sizes}


def test_it_goes_on_with_adapters_from_the_lowest_layer_of_an_earlier_run(
    plain: tuple[Path, TrainingOutcome], tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    start = f"model.path={plain[0] / 'model'}"
    outcome = train(tmp_path / "run", start, "model.lora_rank=2", "model.use_layers=1", "schedule.max_steps=1")
    model, _, _ = load_checkpoint(outcome.checkpoint)
    assert len(model.backbone.layers) == model.backbone.config.num_hidden_layers == 1
    with pytest.raises(ValueError, match=r"head.kept=5: the head to go on from has 3"):
        train(tmp_path / "other", start, "head.kept=5")
