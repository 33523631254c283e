"""One training run. In: a checked `TrainConfig`. Out: a run folder with an exported model, curves and a summary."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.callbacks.progress import TQDMProgressBar
from omegaconf import OmegaConf

from crm.checkpointing import SafeCheckpointIO, is_whole, previous
from crm.config import TrainConfig
from crm.data.datamodule import PreferenceDataModule
from crm.data.encoding import Encoder, HeadName
from crm.data.loading import load_splits, tokenizer_texts
from crm.data.sources import Splits
from crm.lit_module import LitRewardModel
from crm.models.backbone import add_lora, check_reachable, freeze_lower_layers, load_backbone, merge_lora
from crm.models.export import export_as_single_label, export_model
from crm.models.heads import build_score
from crm.models.reward_model import RewardModel
from crm.models.tiny import build_tiny_backbone, train_tokenizer
from crm.tracking import build_loggers, commit, finished

log = logging.getLogger(__name__)
BEST, LAST = "best.ckpt", "last.ckpt"


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
    run_dir = Path(config.run_dir)
    if config.model.path is not None:
        check_reachable(config.model.path, config.model.revision)
    resume = _resume_point(config, run_dir)
    L.seed_everything(config.seed, verbose=False)
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    splits = load_splits(**_source_settings(config))
    model, tokenizer = build_model(config)
    encoder = Encoder(tokenizer, model.head, config.model.max_length)
    data = _data_module(config, splits, encoder, tokenizer.pad_token_id)
    world_size = config.trainer.devices * config.trainer.nodes
    batches, counts = data.survey(world_size)
    _report_counts(splits.counts | counts)
    if not batches:
        raise ValueError(f"data={config.data.name}: no comparison left to train on; rows went here: {counts}")
    lit = _lit_module(config, model, total_steps(config, batches))
    plain = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))
    loggers = build_loggers(
        config.logger.kind, run_dir, project=config.logger.project, name=config.logger.name, config=plain
    )
    with finished(loggers):
        trainer = _trainer(config, run_dir, loggers, callbacks)
        trainer.fit(lit, datamodule=data, ckpt_path=resume)
        outcome = _finish(config, run_dir, trainer, lit, encoder, counts, plain, started)
    return outcome


def _source_settings(config: TrainConfig) -> dict[str, Any]:
    settings = asdict(config.data)
    settings.pop("name")
    return settings


def build_model(config: TrainConfig) -> tuple[RewardModel, Any]:
    """Backbone and head as configured; everything random is drawn from ``config.seed``."""
    settings, head = config.model, cast(HeadName, config.head.name)
    if settings.path is None:
        tokenizer = train_tokenizer(tokenizer_texts(config.data.seed), settings.vocab_size)
        backbone: Any = build_tiny_backbone(
            len(tokenizer),
            settings.hidden_size,
            settings.layers,
            settings.heads,
            settings.max_length,
            tokenizer.pad_token_id,
            config.seed,
        )
    else:
        backbone, tokenizer = load_backbone(settings.path, settings.revision, settings.max_length)
    freeze_lower_layers(backbone, settings.freeze_layers)
    hidden_size = backbone.config.hidden_size
    if settings.gradient_checkpointing:
        backbone.gradient_checkpointing_enable({"use_reentrant": False})
    if settings.lora_rank:
        backbone = add_lora(backbone, settings.lora_rank, settings.lora_alpha, settings.lora_dropout)
    return RewardModel(backbone, build_score(head, hidden_size, config.seed), head), tokenizer


def total_steps(config: TrainConfig, batches: int) -> int:
    """Optimizer steps of the whole run, from the batches an epoch has on each rank."""
    steps = config.trainer.epochs * math.ceil(batches / config.trainer.accumulate)
    return min(steps, config.trainer.max_steps) if config.trainer.max_steps else steps


def _data_module(config: TrainConfig, splits: Splits, encoder: Encoder, pad_id: int) -> PreferenceDataModule:
    return PreferenceDataModule(
        splits.train,
        splits.validation,
        encoder,
        direction=config.direction.kind,
        noise=config.noise.kind,
        ties=config.loss.ties,
        criteria_mode=config.criteria,
        batch_size=config.trainer.batch_size,
        pad_id=pad_id,
        seed=config.seed,
    )


def _lit_module(config: TrainConfig, model: RewardModel, steps: int) -> LitRewardModel:
    return LitRewardModel(
        model,
        lr=config.optimizer.lr,
        weight_decay=config.optimizer.weight_decay,
        betas=(config.optimizer.beta1, config.optimizer.beta2),
        warmup_fraction=config.optimizer.warmup_fraction,
        total_steps=steps,
        label_smoothing=config.loss.label_smoothing,
        centre_scores=config.loss.centre_scores,
    )


def _trainer(config: TrainConfig, run_dir: Path, loggers: list[Any], callbacks: Sequence[Callback]) -> L.Trainer:
    settings = config.trainer
    every = settings.validate_every * settings.accumulate
    return L.Trainer(
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy=settings.strategy,
        precision=cast(Any, settings.precision),
        max_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        accumulate_grad_batches=settings.accumulate,
        gradient_clip_val=config.optimizer.clip or None,
        val_check_interval=every or None,
        check_val_every_n_epoch=None if every else 1,
        num_sanity_val_steps=0,
        log_every_n_steps=10,
        callbacks=[*_callbacks(config, run_dir), *callbacks],
        logger=loggers,
        plugins=[SafeCheckpointIO()],
        enable_progress_bar=settings.progress,
        enable_model_summary=False,
        use_distributed_sampler=False,
        default_root_dir=run_dir,
    )


def _callbacks(config: TrainConfig, run_dir: Path) -> list[Callback]:
    folder = run_dir / "checkpoints"
    callbacks: list[Callback] = [
        ModelCheckpoint(
            folder,
            filename=Path(BEST).stem,
            monitor="validation/loss",
            save_weights_only=True,
            enable_version_counter=False,
        )
    ]
    if config.trainer.save_every:
        callbacks.append(
            ModelCheckpoint(
                folder,
                filename=Path(LAST).stem,
                every_n_train_steps=config.trainer.save_every,
                enable_version_counter=False,
            )
        )
    if config.trainer.patience:
        callbacks.append(EarlyStopping("validation/loss", patience=config.trainer.patience))
    if config.trainer.progress:
        callbacks.append(TQDMProgressBar(refresh_rate=10))
    return callbacks


def _resume_point(config: TrainConfig, run_dir: Path) -> Path | None:
    if not config.resume:
        return None
    last = run_dir / "checkpoints" / LAST
    if not is_whole(last) and not is_whole(previous(last)):
        raise ValueError(
            f"resume=true: no whole checkpoint {last}; give the interrupted run's folder as hydra.run.dir=<folder>"
        )
    return last


def _report_counts(counts: dict[str, int]) -> None:
    log.info("data: %s", ", ".join(f"{name} {count}" for name, count in counts.items()))


def _finish(
    config: TrainConfig,
    run_dir: Path,
    trainer: L.Trainer,
    lit: LitRewardModel,
    encoder: Encoder,
    counts: dict[str, int],
    plain: dict[str, Any],
    started: float,
) -> TrainingOutcome:
    best = run_dir / "checkpoints" / BEST
    if is_whole(best):
        lit.load_state_dict(SafeCheckpointIO().load_checkpoint(best)["state_dict"])
    metrics = trainer.validate(lit, datamodule=trainer.datamodule, verbose=False)  # type: ignore[attr-defined]
    numbers = metrics[0] if metrics else {}
    folder, digest = run_dir / "model", ""
    if trainer.is_global_zero:
        model = RewardModel(merge_lora(lit.model.backbone), lit.model.score, lit.model.head)
        facts = {
            "template": encoder.digest,
            "max_length": config.model.max_length,
            "seed": config.seed,
            "commit": commit(),
            "config": plain,
        }
        digest = export_model(model, encoder.tokenizer, folder, facts)
        if model.head == "pairwise":
            export_as_single_label(model, encoder.tokenizer, run_dir / "model_single_label", facts)
    outcome = TrainingOutcome(
        folder,
        digest,
        float(numbers.get("validation/loss", float("nan"))),
        float(numbers.get("validation/accuracy", float("nan"))),
        trainer.global_step,
        time.perf_counter() - started,
    )
    if trainer.is_global_zero:
        summary = {**asdict(outcome), "checkpoint": str(folder), "counts": counts, "config": plain, "commit": commit()}
        (run_dir / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False), encoding="utf-8")
        log.info("model: %s (validation accuracy %.3f)", folder, outcome.validation_accuracy)
    return outcome
