"""A run leaves what it promises, whatever the head, and refuses in words what it cannot do."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml

from crm.config import compose
from crm.dataset.comparisons import make_comparisons
from crm.judges.crm_judge import CrmJudge, open_checkpoint
from crm.model.batching.plans import draw_order
from crm.model.encoding import Encoder
from crm.model.export import load_checkpoint
from crm.model.heads import PROMPT_ORDERS
from crm.model.reward_model import RewardModel
from crm.training.building import build_model
from crm.training.checkpointing import digest_of, previous
from crm.training.devices import settle_precision
from crm.training.kernels import compiled_layers
from crm.training.results import TrainingOutcome
from crm.training.run import run_training
from crm.training.worst_pairs import COLUMNS
from crm.votes.simulation.arena import simulate
from tests.conftest import TINY_MODEL, rounding

pytestmark = pytest.mark.slow

TINY = [
    *TINY_MODEL,
    "schedule.comparisons_per_step=8",
    *("data.train=24", "data.validation=24", "data.suite=4", "trainer.progress=false", "schedule.max_steps=1"),
]


def train(run_dir: Path, *overrides: str) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], run_dir))


def test_a_head_that_reads_pairs_and_the_blind_control_take_a_step(tmp_path: Path) -> None:
    heads = {"demo_pairwise_span": "pairwise_span", "without_criteria": "scalar"}
    for experiment, head in heads.items():
        outcome = train(tmp_path / experiment, f"experiment={experiment}")
        assert outcome.steps == 1
        assert load_checkpoint(outcome.checkpoint)[2]["head"] == head


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingOutcome]:
    folder = tmp_path_factory.mktemp("run") / "a run"
    return folder, train(
        folder, "loss=ranking", "schedule.max_steps=3", "schedule.validate_every=1", "trainer.precision=32-true"
    )


def test_the_folder_holds_config_curves_summary_and_model(run: tuple[Path, TrainingOutcome]) -> None:
    folder, outcome = run
    summary = json.loads((folder / "summary.json").read_text())
    assert yaml.safe_load((folder / "config.yaml").read_text()) == summary["config"]
    unset = dict.fromkeys(("kept", "width", "response_layers", "gated"))
    assert summary["config"]["head"] == {"name": "scalar", **unset}
    _, _, manifest = load_checkpoint(outcome.checkpoint)
    assert manifest["digest"] == outcome.digest == summary["digest"]
    assert (summary["steps"], summary["counts"]["read"]) == (3, 24)


def test_the_numbers_are_those_of_the_best_step(run: tuple[Path, TrainingOutcome]) -> None:
    folder, outcome = run
    losses = pd.read_csv(folder / "metrics.csv")["validation/loss"].dropna().tolist()
    assert len(losses) == 3, "a validation a step, and no row for the weights measured at the end"
    assert outcome.validation_loss == pytest.approx(min(losses))


def test_validation_rows_are_read_once_after_the_last_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    forward = RewardModel.forward

    def counted(model: RewardModel, batch: Any) -> Any:
        if not torch.is_grad_enabled():
            read.append(len(batch))
        return forward(model, batch)

    monkeypatch.setattr(RewardModel, "forward", counted)
    train(tmp_path, "loss=ranking", "schedule.validate_every=1")
    made = json.loads((tmp_path / "summary.json").read_text())["counts"]["validation_made"]
    assert sum(read) == 2 * made, "in the run, and of the best weights"
    assert len(pd.read_csv(tmp_path / "worst_pairs.csv")) == min(20, made)


def test_the_worst_pairs_are_the_ones_with_the_largest_loss(run: tuple[Path, TrainingOutcome]) -> None:
    folder, outcome = run
    table = pd.read_csv(folder / "worst_pairs.csv")
    assert tuple(table.columns) == COLUMNS
    model, tokenizer, manifest = load_checkpoint(outcome.checkpoint)
    arena = simulate(seed=1, train=24, validation=24, suite=4)
    rows, _ = make_comparisons(arena.validation, direction="both", noise="none", pool=None, seed=42, epoch=0)
    judge = CrmJudge(model, Encoder(tokenizer, model.head, manifest["max_length"]), batch_size=3)
    expected: dict[str, tuple[float, float, Any]] = {}
    for reading in (reading for portion in judge.read([(row, "ab") for row in rows]) for reading in portion):
        p_a = 1 / (1 + math.exp(-reading.preference_logit))
        right = p_a if reading.comparison.label == "a" else 1 - p_a
        first = draw_order(reading.comparison.preference_id, seed=42, epoch=0) == "ab"
        shown = reading.comparison.response_a if first else reading.comparison.response_b
        expected[reading.comparison.id] = (-math.log(right), p_a if first else 1 - p_a, shown[0].content)
    worst = sorted(expected, key=lambda name: -expected[name][0])[:20]
    assert len(table) == min(20, len(rows))
    assert table["comparison_id"].tolist() == worst
    allowed = rounding([loss for loss, _, _ in expected.values()])
    for row in table.to_dict("records"):
        loss, p_first, text = expected[str(row["comparison_id"])]
        assert row["loss"] == pytest.approx(loss, abs=allowed)
        assert row["p_first"] == pytest.approx(p_first, abs=allowed)
        assert text.startswith(str(row["first"]).removesuffix(" …"))
        assert row["label"] == ("second" if row["p_first"] > 0.5 else "first") or row["loss"] < 0.7


def test_a_run_may_start_from_a_checkpoint_of_the_other_prompt_order(
    run: tuple[Path, TrainingOutcome], tmp_path: Path
) -> None:
    """Weights and tokenizer go on; the head does only under the same order, for it reads another state."""
    start = load_checkpoint(run[1].checkpoint)[0]
    for order in PROMPT_ORDERS:
        settings = ("loss=ranking", f"prompt={order}", f"model.path={run[1].checkpoint}")
        begun, tokenizer = build_model(compose("train", [*TINY, *settings], tmp_path))
        for name, weight in begun.backbone.state_dict().items():
            assert torch.equal(weight, start.backbone.state_dict()[name])
        assert torch.equal(begun.score.weight, start.score.weight) == (order == "criteria_first")
    judge, manifest = open_checkpoint(train(tmp_path, *settings).checkpoint, batch_size=2, precision="32-true")
    assert manifest["prompt_order"] == judge.encoder.prompt_order == "criteria_last"
    assert manifest["template"] == judge.encoder.digest != Encoder(tokenizer, "scalar", 512).digest
    assert manifest["config"]["prompt"] == {"order": "criteria_last"}


def test_a_run_with_compiled_layers_leaves_what_a_plain_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.training.building.compiled_layers", partial(compiled_layers, backend="eager"))
    settings = ("loss=ranking", "schedule.max_steps=2", "schedule.validate_every=1", "schedule.save_every=1")
    plain, compiled = (
        train(tmp_path / str(wanted), *settings, f"trainer.compile={wanted}") for wanted in (False, True)
    )
    weights, others = (load_checkpoint(run.checkpoint)[0].state_dict() for run in (plain, compiled))
    assert list(weights) == list(others)
    for name, weight in weights.items():
        torch.testing.assert_close(others[name], weight, rtol=0, atol=1e-4, msg=name)
    # The checkpoint of one is that of the other: a compiled run goes on as a plain one.
    last = tmp_path / "True/checkpoints/last.ckpt"
    previous(last).replace(last)
    digest_of(previous(last)).replace(digest_of(last))
    assert train(tmp_path / "True", *settings, "resume=true").steps == 2


def test_frozen_layers_run_once_leave_what_they_leave_run_always(tmp_path: Path) -> None:
    """Two epochs and their validations; what was kept is gone with the run."""
    settings = (
        *("loss=ranking", "direction=original", "model.layers=3", "model.freeze_layers=2"),
        *("schedule.max_steps=6", "schedule.epochs=2", "schedule.validate_every=2", "trainer.precision=32-true"),
    )
    off, *kept = (train(tmp_path / kind, *settings, f"model.kept_states={kind}") for kind in ("off", "memory"))
    weights, *others = (load_checkpoint(run.checkpoint)[0].state_dict() for run in (off, *kept))
    for run, found in zip(kept, others, strict=True):
        assert run.validation_loss == pytest.approx(off.validation_loss, abs=rounding(off.validation_loss))
        for name, weight in weights.items():
            torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-4, msg=name)
    counts = json.loads((tmp_path / "memory" / "summary.json").read_text())["frozen_layers"]
    assert 0 < counts["computed"] < counts["read"] / 2 and counts["without_room"] == 0
    assert "frozen_layers" not in json.loads((tmp_path / "off" / "summary.json").read_text())


def test_a_backbone_out_of_reach_is_told_before_any_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.training.run.load_data", lambda **_: pytest.fail("read the data first"))
    with pytest.raises(ValueError, match=r"model\.path=.*model=tiny"):
        train(tmp_path, "model=qwen3_4b", "data=simulation", "model.path=./not-there")


@pytest.mark.parametrize("trainer", ["trainer=gpu", "trainer=fsdp", "trainer.accelerator=mps"])
def test_devices_that_are_not_there_are_told_before_any_data_is_read(
    trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    monkeypatch.setattr("crm.training.run.load_data", None)
    with pytest.raises(ValueError, match=r"trainer\.accelerator=\w+ trainer\.devices=\d: torch .* sees 0 such devices"):
        train(tmp_path, trainer, "optimizer=paper")


@pytest.mark.parametrize(("fast", "settled"), [(True, "bf16-mixed"), (False, "32-true")])
def test_a_cpu_without_bfloat16_instructions_computes_in_float32(
    fast: bool, settled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.training.devices.computes_bfloat16", lambda device: fast)
    config = compose("train", TINY, tmp_path)
    assert config.trainer.precision == "auto"
    settle_precision(config)
    assert config.trainer.precision == settled
    asked = compose("train", [*TINY, "trainer.precision=bf16-mixed"], tmp_path)
    settle_precision(asked)
    assert asked.trainer.precision == "bf16-mixed"


def test_nothing_to_validate_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import crm.training.run

    plain = crm.training.run.build_data

    def without_validation(*arguments: Any) -> Any:
        data = plain(*arguments)
        data.validation = []
        return data

    monkeypatch.setattr("crm.training.run.build_data", without_validation)
    with pytest.raises(ValueError, match=r"no comparison to validate on; raise data\.validation"):
        train(tmp_path)


def test_validation_rows_that_are_all_too_long_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crm.training.datamodule import PreferenceDataModule

    monkeypatch.setattr(PreferenceDataModule, "_encoded", lambda *_: [])
    with pytest.raises(ValueError, match=r"model\.max_length=\d+: all \d+ comparisons to validate on are longer"):
        train(tmp_path)


def test_a_validation_of_ties_only_has_no_accuracy_and_the_run_ends_whole(tmp_path: Path) -> None:
    rows = [
        {
            "prompt": f"Name river {n} of {n * 7} and say where it ends",
            "response_a": f"River {n}",
            "response_b": "?" * n,
        }
        for n in range(1, 41)
    ]
    votes = tmp_path / "ties.jsonl"
    lines = (json.dumps({**row, "winner": "tie", "criteria_a": ["Be brief"], "criteria_b": ["Go on"]}) for row in rows)
    votes.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ("loss=ranking", "loss.ties=soft", "data=table", f"data.path={votes}", "data.validation_fraction=0.3")
    own = [word for word in TINY if not word.startswith("data.")]
    outcome = run_training(compose("train", [*own, *words], tmp_path / "run"))
    assert outcome.validation_accuracy is None
    assert outcome.validation_loss == pytest.approx(math.log(2), abs=0.05)
    told = json.loads((tmp_path / "run/summary.json").read_text(encoding="utf-8"))
    assert told["validation_accuracy"] is None and told["validation_loss"] == outcome.validation_loss
    assert (tmp_path / "run/worst_pairs.md").is_file()
    assert json.loads((outcome.checkpoint / "crm.json").read_text(encoding="utf-8"))["validation_accuracy"] is None
    card = (outcome.checkpoint / "README.md").read_text(encoding="utf-8")
    assert "nan" not in card.lower().split() and "validation accuracy" not in card
