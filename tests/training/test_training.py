"""A run leaves what it promises, whatever the head, measures its speed, and says in words what it cannot do."""

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
import torch
import yaml
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from transformers import AutoModel, AutoTokenizer

import crm.training.callbacks
import crm.training.train
from crm.config import compose
from crm.judges.crm_judge import open_checkpoint
from crm.model.export import load_checkpoint
from crm.model.reward_model import RewardModel
from crm.training.config import TrainerConfig
from crm.training.datamodule import PreferenceDataModule
from crm.training.devices import settle_precision
from crm.training.train import TrainingOutcome, build_model, run_training, settle_hardware
from tests.conftest import TINY_MODEL, rounding

TINY = [
    *(*TINY_MODEL, "schedule.comparisons_per_step=8", "data.train=24", "data.validation=24", "data.suite=4"),
    *("trainer.progress=false", "schedule.max_steps=1"),
]


def train(run_dir: Path, *overrides: str) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], run_dir))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome, list[int]]:
    """Three steps with a validation each, and how many rows every pass without gradients read."""
    folder, read, compiled = tmp_path_factory.mktemp("run") / "a run", list[int](), list[Any]()
    forward = RewardModel.forward

    def counted(model: RewardModel, batch: Any) -> Any:
        if not torch.is_grad_enabled():
            read.append(len(batch))
        return forward(model, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RewardModel, "forward", counted)
        patch.setattr("crm.training.train.compile_layers", lambda *given: compiled.append(given))
        settings = ("schedule.max_steps=3", "schedule.validate_every=1", "trainer.precision=32-true")
        outcome = train(folder, "loss=ranking", *settings, "trainer.compile=true")
    assert [type(backbone).__name__ for (backbone,) in compiled] == ["Qwen3Model"]
    return folder, outcome, read


@pytest.mark.slow
def test_the_folder_holds_config_curves_summary_and_the_model_of_the_best_step(
    run: tuple[Path, TrainingOutcome, list[int]],
) -> None:
    folder, outcome, read = run
    summary = json.loads((folder / "summary.json").read_text())
    assert yaml.safe_load((folder / "config.yaml").read_text()) == summary["config"]
    unset = {"kept": None, "width": None, "dropout": 0.0}
    assert summary["config"]["head"] == {"name": "scalar", **unset}
    assert load_checkpoint(outcome.checkpoint)[2]["digest"] == outcome.digest == summary["digest"]
    assert (summary["steps"], summary["counts"]["read"]) == (3, 24)
    losses = pd.read_csv(folder / "metrics.csv")["validation/loss"].dropna().tolist()
    assert len(losses) == 3, "a validation a step, and no row for the weights measured at the end"
    assert outcome.validation_loss == pytest.approx(min(losses))
    assert sum(read) == 3 * summary["counts"]["validation_made"], "once each in the run"


def test_a_job_does_not_leave_its_threads_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crm.training.train, "THREADS", 3)
    monkeypatch.setattr(crm.training.train, "check_reachable", lambda *_: None)
    monkeypatch.setattr(crm.training.train, "settle_memory", lambda *_: None)
    before, found = torch.get_num_threads(), []
    for words in ([], ["trainer.threads=2"], ["model.path=x"]):
        settle_hardware(compose("train", [*TINY, "trainer=cpu", *words], tmp_path))
        found.append(torch.get_num_threads())
    torch.set_num_threads(before)
    assert found == [1, 2, 3]


class Worse(Callback):
    """Weights are far worse at the only validation of the fit, or after the last step; keeps the last ones."""

    def __init__(self, when: str) -> None:
        self.when = when

    def scale(self, trainer: Any, module: Any, by: float) -> None:
        if trainer.state.fn == "fit":
            module.model.score.weight.data.mul_(by)

    def on_validation_start(self, trainer: Any, module: Any) -> None:
        self.scale(trainer, module, 1e4 if self.when == "validated" else 1)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        self.scale(trainer, module, 1e-4 if self.when == "validated" else 1)

    def on_train_end(self, trainer: Any, module: Any) -> None:
        self.scale(trainer, module, 1e4 if self.when == "last" else 1)
        self.last = module.model.score.weight.detach().clone()


@pytest.mark.slow
@pytest.mark.parametrize("worse", ["validated", "last"])
def test_the_last_weights_compete_where_no_validation_followed_them(
    worse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Mock(side_effect=torch.load)
    monkeypatch.setattr(torch, "load", load)
    watch, settings = Worse(worse), ("loss=ranking", "schedule.max_steps=3", "schedule.validate_every=2")
    outcome = run_training(compose("train", [*TINY, *settings], tmp_path), [watch])
    table = pd.read_csv(tmp_path / "metrics.csv").dropna(subset=["validation/loss"])
    assert table["step"].tolist() == [1, 2], "the last step too"
    assert outcome.validation_loss == pytest.approx(table["validation/loss"].min())
    exported = load_checkpoint(outcome.checkpoint)[0].score.weight
    assert torch.equal(exported, watch.last) == (worse == "validated")
    assert all(call.kwargs["mmap"] for call in load.call_args_list), "every rank would hold all of it"


@pytest.mark.slow
def test_a_run_goes_on_from_the_weights_of_a_checkpoint(
    run: tuple[Path, TrainingOutcome, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = load_checkpoint(run[1].checkpoint)[0]
    settings = ("loss=ranking", "model=pretrained", "data=simulation", f"model.path={run[1].checkpoint}")
    config = compose("train", [*TINY, *settings], tmp_path)
    assert config.model.max_length == 512, "its positions; 2048 where it has them"
    begun, _ = build_model(config)
    assert all(torch.equal(weight, start.state_dict()[name]) for name, weight in begun.state_dict().items())
    with monkeypatch.context() as hub:
        hub.setattr(crm.training.train, "model_folder", lambda *_: run[1].checkpoint)
        words = ("loss=ranking", "model.path=somebody/ranker")
        theirs, _ = build_model(compose("train", [*TINY, *words], tmp_path))
        assert torch.equal(theirs.score.weight, begun.score.weight), "a hub's model has its head too"
        with pytest.raises(ValueError, match=r"model.max_length=4096: .* has \d+ positions; use at most that"):
            build_model(compose("train", [*TINY, *words, "model.max_length=4096"], tmp_path))
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    other, _ = build_model(compose("train", [*TINY, *settings, "optimizer=paper", "trainer.strategy=fsdp"], tmp_path))
    assert {part.device.type for part in other.backbone.parameters()} == {"meta"}, "its weights come from the first"
    assert other.state_dict().keys() == begun.state_dict().keys()
    judge, manifest = open_checkpoint(run[1].checkpoint, batch_size=2, precision="32-true")
    assert manifest["template"] == judge.encoder.digest


@pytest.mark.slow
def test_frozen_layers_run_once_leave_what_they_leave_run_always(tmp_path: Path) -> None:
    """Two epochs and their validations; what was kept is gone with the run."""
    settings = (
        *("loss=ranking", "direction=original", "model.layers=3", "model.freeze_layers=2"),
        *("schedule.max_steps=6", "schedule.epochs=2", "schedule.validate_every=2", "trainer.precision=32-true"),
    )
    off, run = (train(tmp_path / kind, *settings, f"model.kept_states={kind}") for kind in ("off", "float32"))
    assert run.validation_loss == pytest.approx(off.validation_loss, abs=rounding(off.validation_loss))
    ours, theirs = (load_checkpoint(each.checkpoint)[0].state_dict() for each in (run, off))
    assert list(ours) == list(theirs)
    for name, weight in theirs.items():
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=1e-4, msg=name)
    files = [{path.name for path in at.checkpoint.parent.rglob("*")} for at in (off, run)]
    assert files[0] == files[1]


def test_a_backbone_out_of_reach_is_an_error_before_any_data_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("crm.training.train.load_data", lambda *_, **__: pytest.fail("read the data first"))
    with pytest.raises(ValueError, match=r"model\.path=.*model=tiny"):
        train(tmp_path, "model=qwen3_4b", "data=simulation", "model.path=./not-there")


@pytest.mark.parametrize(("fast", "settled"), [(True, "bf16-mixed"), (False, "32-true")])
def test_a_cpu_without_bfloat16_instructions_computes_in_float32(fast: bool, settled: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("crm.training.devices.computes_bfloat16", lambda device: fast)
    for given, expected in (("auto", settled), ("bf16-mixed", "bf16-mixed")):
        trainer = TrainerConfig(precision=given)
        settle_precision(trainer)
        assert trainer.precision == expected


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ("validation_comparisons", r"no comparison to validate on; raise data\.validation"),
        ("validation_rows", r"model\.max_length=\d+: all \d+ comparisons to validate on are longer"),
    ],
)
def test_nothing_to_validate_on_is_an_error(lost: str, why: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(PreferenceDataModule, lost, [])
    with pytest.raises(ValueError, match=why):
        train(tmp_path)


@pytest.mark.slow
def test_a_validation_of_ties_only_has_no_accuracy_and_the_run_ends_whole(tmp_path: Path) -> None:
    texts = [
        {"prompt": f"Name river {n} of {n * 7}", "response_a": str(n), "response_b": "?" * n} for n in range(1, 41)
    ]
    votes = tmp_path / "ties.jsonl"
    rest = {"winner": "tie", "criteria_a": ["Be brief"], "criteria_b": ["Go on"]}
    votes.write_text("".join(json.dumps({**row, **rest}) + "\n" for row in texts), encoding="utf-8")
    words = ("loss=ranking", "loss.ties=soft", "data=file", f"data.path={votes}", "data.validation_fraction=0.3")
    own = [word for word in TINY if not word.startswith("data.")]
    outcome = run_training(compose("train", [*own, *words], tmp_path / "run"))
    assert outcome.validation_accuracy is None
    assert outcome.validation_loss == pytest.approx(math.log(2), abs=0.05)
    summary = json.loads((tmp_path / "run/summary.json").read_text(encoding="utf-8"))
    assert summary["validation_accuracy"] is None and summary["validation_loss"] == outcome.validation_loss
    assert json.loads((outcome.checkpoint / "crm.json").read_text(encoding="utf-8"))["validation_accuracy"] is None
    card = (outcome.checkpoint / "README.md").read_text(encoding="utf-8")
    assert "nan" not in card.lower().split() and "validation accuracy" not in card


@pytest.mark.slow
def test_a_run_is_measured_at_optimizer_steps_without_its_validations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """8 passes of 4 comparisons, two a step: four steps; the first is left out, and validation stops the clock."""
    caplog.set_level(logging.INFO)
    clock = iter(range(100))
    monkeypatch.setattr(crm.training.callbacks, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    settings = [
        *(*TINY_MODEL, "loss=ranking", "data.train=32", "data.validation=8", "data.suite=4", "loss.ties=soft"),
        *("schedule.epochs=1", "schedule.save_every=0", "schedule.patience=0", "schedule.comparisons_per_step=8"),
        *("schedule.validate_every=2", "batching=padded", "batching.tokens=4096", "model.max_length=512"),
    ]
    run_training(compose("train", settings, tmp_path))
    # Looks at the clock: step 1 (0), validation (1, 2), validation (3, 4), the end (5); two seconds stopped.
    mean = json.loads((tmp_path / "summary.json").read_text())["throughput"]
    assert (mean["steps_per_second"], mean["comparisons_per_second"]) == (3 / 3, 24 / 3)
    assert "8 comparisons a step, at most 4 steps" in caplog.text and "tokens/s; the model is in" in caplog.text
    assert len([message for message in caplog.messages if "validation loss" in message]) == 2


LATE = (
    *(*TINY_MODEL, "head=late", "head.kept=3", "head.width=4", "loss=ranking", "direction=original"),
    *("data.train=16", "data.validation=17", "data.suite=4", "schedule.epochs=2", "schedule.max_steps=3"),
    *("schedule.comparisons_per_step=4", "schedule.validate_every=0", "trainer.precision=32-true"),
    *("trainer.threads=1", "trainer.progress=false", "schedule.save_every=0"),
    # Rates at which rounding stays small.
    *("optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.warmup_fraction=0"),
)


def train_late(folder: Path, *overrides: str) -> TrainingOutcome:
    return run_training(compose("train", [*LATE, *overrides], folder))


@pytest.mark.slow
def test_a_late_head_has_its_sizes_and_goes_on_with_adapters_from_the_lowest_layer(tmp_path: Path, caplog: Any) -> None:
    pytest.importorskip("peft")
    first = train_late(tmp_path / "first", "loss.off_criteria_penalty=0.1").checkpoint
    model, _, manifest = load_checkpoint(first)
    assert (model.score.kept, model.score.width) == (3, 4)
    assert manifest["config"]["head"] == {"name": "late", "kept": 3, "width": 4, "dropout": 0.0}
    assert (model.score.response.spread == 1).all(), "trained from scratch"
    start = f"model.path={first}"
    caplog.clear()
    adapters = ("model.lora_rank=2", "model.use_layers=1", "schedule.max_steps=1", "optimizer.lr=1e-5")
    further = train_late(tmp_path / "run", start, *adapters)
    assert "optimizer.lr=1e-05 is for all weights" in caplog.text
    model, _, _ = load_checkpoint(further.checkpoint)
    assert len(model.backbone.layers) == model.backbone.config.num_hidden_layers == 1
    assert (model.score.response.spread == 1).all(), "its head was trained before"
    for kind in (AutoModel, AutoTokenizer):
        kind.from_pretrained(first).save_pretrained(tmp_path / "backbone")
    new = load_checkpoint(train_late(tmp_path / "new", f"model.path={tmp_path / 'backbone'}").checkpoint)[0].score
    assert (new.response.spread != 1).all() and torch.equal(new.response.spread, new.criterion.spread)
    with pytest.raises(ValueError, match=r"head.kept=5: the head to go on from has 3"):
        train_late(tmp_path / "other", start, "head.kept=5")
