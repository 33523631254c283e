"""One training run. In: a checked `TrainConfig`. Out: a run folder with an exported model, curves and a summary."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import OmegaConf
from transformers.utils import logging as transformers_logging

from crm.building import (
    BEST,
    LAST,
    build_data,
    build_lit_module,
    build_model,
    build_trainer,
    check_accelerator,
    faster_layers,
    keep_frozen_states,
    settle_checkpointing,
    total_steps,
)
from crm.checkpointing import SafeCheckpointIO, is_whole, previous
from crm.config import TrainConfig
from crm.console import quieten, show_counts
from crm.data.comparisons import make_comparisons
from crm.data.datamodule import VALIDATION_EPOCH, PreferenceDataModule
from crm.data.encoding import Encoder, Order, PromptOrder
from crm.data.loading import load_splits
from crm.data.plans import draw_order
from crm.evaluation.files import replace_file
from crm.evaluation.predict import Judge
from crm.evaluation.tables import write_table
from crm.lit_module import LitRewardModel
from crm.models.backbone import check_reachable, merge_lora
from crm.models.export import export_as_single_label, export_model
from crm.models.reward_model import RewardModel
from crm.models.sharding import load_whole
from crm.processes import check_launcher
from crm.provenance import commit
from crm.schema import Comparison
from crm.strategies import zero_weights
from crm.throughput import mean_throughput, told
from crm.tracking import build_loggers, finished, log_artifact, log_summary
from crm.worst_pairs import worst_pairs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingOutcome:
    """What a run leaves: ``checkpoint`` is the exported model folder; loss and accuracy are those of its best step."""

    checkpoint: Path
    digest: str
    validation_loss: float
    validation_accuracy: float
    steps: int
    seconds: float


def run_training(config: TrainConfig, callbacks: Sequence[Callback] = ()) -> TrainingOutcome:
    """Train, export the best step, write ``summary.json``. Raises ``ValueError`` for anything a user can mend."""
    started = time.perf_counter()
    quieten()
    check_launcher("trainer.devices", config.trainer.devices, config.trainer.nodes)
    check_accelerator(config.trainer.accelerator, config.trainer.devices)
    _refuse_sharded_muon(config)
    run_dir = Path(config.run_dir)
    if config.model.path is not None:
        check_reachable(config.model.path, config.model.revision)
    resume = _resume_point(config, run_dir)
    plain = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))
    _prepare_folder(run_dir, plain, resume is not None)
    L.seed_everything(config.seed, verbose=False)
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    splits = load_splits(**asdict(config.data))
    model, tokenizer = build_model(config)
    encoder = Encoder(tokenizer, model.head, config.model.max_length, cast(PromptOrder, config.prompt.order))
    data = build_data(config, splits, encoder, tokenizer.pad_token_id)
    batches, counts = data.survey(config.trainer.devices * config.trainer.nodes)
    _refuse_nothing_to_do(config, batches, counts)
    settle_checkpointing(config, model, counts["largest_batch_tokens"])
    keep_frozen_states(config, model, counts["largest_batch_tokens"], run_dir)
    lit = build_lit_module(config, model, total_steps(config, batches, data.passes))
    rank_zero_only(show_counts)(splits.counts, counts, batches, lit.total_steps)
    loggers = build_loggers(
        config.logger.kind,
        run_dir,
        project=config.logger.project,
        name=config.logger.name,
        config=plain,
        resume=config.resume,
    )
    with finished(loggers):
        trainer = build_trainer(config, run_dir, loggers, callbacks, data.passes)
        with faster_layers(config, model):
            trainer.fit(lit, datamodule=data, ckpt_path=resume, weights_only=True)
        return _finish(config, run_dir, trainer, lit, data, counts, plain, started)


def _resume_point(config: TrainConfig, run_dir: Path) -> Path | None:
    if not config.resume:
        return None
    last = run_dir / "checkpoints" / LAST
    if not is_whole(last) and not is_whole(previous(last)) and not last.is_dir():  # DeepSpeed's are folders
        raise ValueError(
            f"resume=true: no whole checkpoint {last}; give the interrupted run's folder as hydra.run.dir=<folder>"
        )
    return last


@rank_zero_only
def _prepare_folder(run_dir: Path, plain: dict[str, Any], resumed: bool) -> None:
    """Write ``config.yaml``; a new run in an old folder starts without the old checkpoints, which are another model."""
    run_dir.mkdir(parents=True, exist_ok=True)
    if not resumed:
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
    replace_file(run_dir / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(plain)))


def _refuse_sharded_muon(config: TrainConfig) -> None:
    if config.optimizer.name == "muon" and config.trainer.strategy in ("fsdp", "deepspeed"):
        raise ValueError(
            f"optimizer.name='muon' with trainer.strategy={config.trainer.strategy}: Muon works on whole matrices, and "
            "these are sharded; use optimizer=paper (AdamW)"
        )


def _refuse_nothing_to_do(config: TrainConfig, batches: int, counts: dict[str, int]) -> None:
    if not counts["read"]:
        raise ValueError(f"data={config.data.name}: a set to evaluate on; choose another to train on")
    if not batches:
        raise ValueError(f"data={config.data.name}: no comparison left to train on; rows went here: {counts}")
    if counts["validation_made"] == counts["validation_overlong"] > 0:
        raise ValueError(
            f"model.max_length={config.model.max_length}: all {counts['validation_made']} comparisons to validate on "
            "are longer; raise it"
        )
    if not counts["validation_made"]:
        raise ValueError(
            f"data={config.data.name}: no comparison to validate on; raise data.validation_fraction or data.validation"
        )


def _finish(
    config: TrainConfig,
    run_dir: Path,
    trainer: L.Trainer,
    lit: LitRewardModel,
    data: PreferenceDataModule,
    counts: dict[str, int],
    plain: dict[str, Any],
    started: float,
) -> TrainingOutcome:
    """Measure the best weights, then export them and write the summary, both on the first rank only."""
    steps, loggers = trainer.global_step, list(trainer.loggers)
    best = run_dir / "checkpoints" / BEST
    if is_whole(best):
        load_whole(lit, SafeCheckpointIO().load_checkpoint(best)["state_dict"])
    # These are the numbers of an earlier step: in the curves they would stand as the last point.
    trainer.loggers = []
    folder = best if best.is_dir() else None  # of DeepSpeed, which reads its own
    numbers = trainer.validate(lit, datamodule=data, ckpt_path=folder, verbose=False, weights_only=True)[0]
    outcome = TrainingOutcome(
        run_dir / "model",
        "",
        float(numbers["validation/loss"]),
        float(numbers["validation/accuracy"]),
        steps,
        time.perf_counter() - started,
    )
    whole = lit.whole_model()
    if not trainer.is_global_zero:
        return outcome
    if folder is not None:
        whole, _ = build_model(config)
        whole.load_state_dict(zero_weights(folder))
    model = RewardModel(merge_lora(whole.backbone), whole.score, whole.head)
    digest = _export(config, run_dir, model, data.encoder, plain)
    outcome = TrainingOutcome(**{**asdict(outcome), "digest": digest, "seconds": time.perf_counter() - started})
    speed = mean_throughput(trainer)
    summary = {**asdict(outcome), "checkpoint": str(outcome.checkpoint), "counts": counts, "throughput": speed}
    if lit.model.frozen is not None:
        summary["frozen_layers"] = asdict(lit.model.frozen.counts)
        lit.model.frozen = None  # the memory is free for what follows
    text = json.dumps({**summary, "config": plain, "commit": commit()}, indent=2, ensure_ascii=False)
    replace_file(run_dir / "summary.json", text)
    size, precision = config.trainer.batch_size, config.trainer.precision
    judge = Judge(model, data.encoder, batch_size=size, precision=precision, packing=data.packing)
    worst = worst_pairs(judge, _validation_rows(config, data))
    files = [*write_table(run_dir, "worst_pairs", worst), run_dir / "summary.json", run_dir / "metrics.csv"]
    best_numbers = {"best/loss": outcome.validation_loss, "best/accuracy": outcome.validation_accuracy}
    log_summary(loggers, best_numbers, {"worst_pairs": worst})
    log_artifact(loggers, f"results-{digest}", files)
    log.info(
        "validation accuracy %.3f, loss %.3f%s; the model is in %s",
        outcome.validation_accuracy,
        outcome.validation_loss,
        f"; {told(speed)}" if speed else "",
        outcome.checkpoint,
    )
    return outcome


def _export(config: TrainConfig, run_dir: Path, model: RewardModel, encoder: Encoder, plain: dict[str, Any]) -> str:
    """``model/`` and, for the pairwise head, its one-label twin; returns the digest."""
    facts = {
        "template": encoder.digest,
        "max_length": config.model.max_length,
        "seed": config.seed,
        "commit": commit(),
        "config": plain,
    }
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    digest = export_model(model, encoder.tokenizer, run_dir / "model", facts, encoder.prompt_order)
    if model.head == "pairwise":
        twin = run_dir / "model_single_label"
        export_as_single_label(model, encoder.tokenizer, twin, facts, encoder.prompt_order)
    return digest


def _validation_rows(config: TrainConfig, data: PreferenceDataModule) -> list[tuple[Comparison, Order]]:
    """The comparisons that validation reads, each in the order it is shown there."""
    rows, _ = make_comparisons(
        data.validation,
        direction=config.direction.kind,
        noise="none",
        pool=None,
        seed=config.seed,
        epoch=VALIDATION_EPOCH,
        ties=config.loss.ties,
        criteria_mode=config.criteria,
    )
    return [(row, draw_order(row.preference_id, seed=config.seed, epoch=VALIDATION_EPOCH)) for row in rows]
