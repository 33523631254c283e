"""What a training run leaves. In: a trainer that has stopped. Out: its best weights, measured, exported, summed up."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
from lightning.pytorch.loggers import Logger
from transformers.utils import logging as transformers_logging

from crm.io.files import replace_file, shown_path, with_nulls
from crm.io.installed import commit
from crm.model.backbone import merge_lora
from crm.model.encoding import Encoder
from crm.model.export import export_as_single_label, export_model
from crm.model.reward_model import RewardModel
from crm.report.tables import write_table
from crm.sealed import sealed_text
from crm.training.building import BEST
from crm.training.checkpointing import SafeCheckpointIO, is_whole
from crm.training.config import TrainConfig
from crm.training.datamodule import PreferenceDataModule
from crm.training.lit_module import WAY_OUT, LitRewardModel, NonFiniteError
from crm.training.row_logits import KeepLogits
from crm.training.sharding import load_whole
from crm.training.sweep_jobs import SUMMARY, SUMMARY_FORMAT
from crm.training.throughput import mean_throughput, told
from crm.training.tracking import log_artifact, log_summary
from crm.training.worst_pairs import Judged, worst_pairs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingOutcome:
    """What a run leaves: ``checkpoint`` is the exported model folder; loss (nats) and accuracy (0 to 1, None where
    every validation row is a tie) are those of its best step."""

    checkpoint: Path
    digest: str
    validation_loss: float
    validation_accuracy: float | None
    steps: int
    seconds: float


def finish(
    config: TrainConfig,
    trainer: L.Trainer,
    lit: LitRewardModel,
    data: PreferenceDataModule,
    counts: dict[str, int],
    plain: dict[str, Any],
    started: float,
) -> TrainingOutcome:
    """Measure the best weights, then export them and write the summary, both on the first rank only.

    ``counts`` are of rows, ``plain`` is the configuration, ``started`` the run's first `time.perf_counter`.
    """
    run_dir, steps, loggers = Path(config.run_dir), trainer.global_step, list(trainer.loggers)
    best = run_dir / "checkpoints" / BEST
    if is_whole(best):
        load_whole(lit, SafeCheckpointIO().load_checkpoint(best)["state_dict"])
    # These are the numbers of an earlier step: in the curves they would stand as the last point.
    trainer.loggers = []
    logits = KeepLogits()
    trainer.callbacks.append(logits)  # type: ignore[attr-defined]
    numbers = trainer.validate(lit, datamodule=data, verbose=False)[0]
    loss = float(numbers["validation/loss"])
    _refuse_not_finite(loss, steps)
    accuracy: float | None = with_nulls(float(numbers["validation/accuracy"]))
    judged = logits.gather(trainer)
    seconds = time.perf_counter() - started
    outcome = TrainingOutcome(run_dir / "model", "", loss, accuracy, steps, seconds)
    whole = lit.whole_model()
    if not trainer.is_global_zero:
        return outcome
    model = RewardModel(merge_lora(whole.backbone), whole.score, whole.head)
    digest = _export(config, run_dir, model, data.encoder, plain, accuracy)
    outcome = replace(outcome, digest=digest, seconds=time.perf_counter() - started)
    speed = mean_throughput(trainer)
    _write_summary(run_dir, outcome, lit, {"counts": counts, "throughput": speed, "config": plain})
    _look_at_worst(run_dir, judged, loggers, outcome)
    said = f"; {told(speed)}" if speed else ""
    shown = "unknown (every row is a tie)" if accuracy is None else f"{accuracy:.3f}"
    log.info("validation accuracy %s, loss %.3f%s; the model is in %s", shown, loss, said, outcome.checkpoint)
    log.info("next: python evaluate.py checkpoint=%s", shown_path(run_dir))
    return outcome


def _refuse_not_finite(loss: float, steps: int) -> None:
    if not math.isfinite(loss):
        told = f"validation loss is {loss} after {steps} optimizer steps, so no model was exported"
        raise NonFiniteError(f"{told}: {WAY_OUT}")


def _write_summary(run_dir: Path, outcome: TrainingOutcome, lit: LitRewardModel, facts: dict[str, Any]) -> None:
    summary = {
        "format": SUMMARY_FORMAT,
        **asdict(outcome),
        "checkpoint": str(outcome.checkpoint),
        **facts,
        "commit": commit(),
    }
    if lit.model.keeping:
        counts = [asdict(part.counts) for part in lit.model.keeping]
        summary["frozen_layers"] = {name: sum(count[name] for count in counts) for name in counts[0]}
        lit.model.keep_nothing()  # the memory is free for what follows
    replace_file(run_dir / SUMMARY, sealed_text(summary))


def _look_at_worst(run_dir: Path, judged: Sequence[Judged], loggers: list[Logger], outcome: TrainingOutcome) -> None:
    """The table of the validation rows that the best weights get most wrong, and what trackers keep of the run."""
    worst = worst_pairs(judged)
    files = [*write_table(run_dir, "worst_pairs", worst), run_dir / SUMMARY, run_dir / "metrics.csv"]
    best = {"best/loss": outcome.validation_loss, "best/accuracy": outcome.validation_accuracy}
    log_summary(loggers, {name: value for name, value in best.items() if value is not None}, {"worst_pairs": worst})
    log_artifact(loggers, f"results-{outcome.digest}", files)


def _with_whole_paths(data: dict[str, Any]) -> dict[str, Any]:
    """Paths as they are found from any folder: the model is evaluated elsewhere, on the same data."""
    path = data["path"] and (data["path"] if data["path"].startswith("hf://") else str(Path(data["path"]).absolute()))
    return {**data, "path": path, "root": str(Path(data["root"]).absolute())}


def _export(
    config: TrainConfig,
    run_dir: Path,
    model: RewardModel,
    encoder: Encoder,
    plain: dict[str, Any],
    validation_accuracy: float | None,
) -> str:
    """``model/`` and, for the pairwise head, its one-label twin; returns the digest."""
    facts = {
        "template": encoder.digest,
        "max_length": config.model.max_length,
        "seed": config.seed,
        "commit": commit(),
        "validation_accuracy": validation_accuracy,
        "config": {**plain, "data": _with_whole_paths(plain["data"])},
    }
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    digest = export_model(model, encoder.tokenizer, run_dir / "model", facts, encoder.prompt_order)
    if model.head == "pairwise":
        twin = run_dir / "model_single_label"
        export_as_single_label(model, encoder.tokenizer, twin, facts, encoder.prompt_order)
    return digest
