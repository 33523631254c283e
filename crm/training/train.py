"""One training run: config, data, model, module, fit, export. Who writes which file: docs/architecture.md."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, TQDMProgressBar
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import OmegaConf
from transformers.utils import logging as transformers_logging

from crm import __version__
from crm.data.load import load_data, tokenizer_texts
from crm.io.files import replace_file, typed_path, with_nulls
from crm.io.installed import commit
from crm.model.backbone import (
    build_tiny_backbone,
    load_backbone,
    merge_lora,
    prepare_layers,
    show_loading,
    train_tokenizer,
    without_lora_wrapper,
)
from crm.model.encoding import Encoder
from crm.model.export import export_model, load_checkpoint
from crm.model.folders import check_reachable, model_folder
from crm.model.late_head import LateHead
from crm.model.manifest import MANIFEST
from crm.model.reward_model import RewardModel, build_score
from crm.schema import prompt_key
from crm.training.callbacks import (
    Checkpoints,
    StoppedError,
    Throughput,
    ValidationLines,
    WholeCheckpoints,
    quieten,
    show_counts,
    show_run,
)
from crm.training.config import TrainConfig
from crm.training.datamodule import PreferenceDataModule, check_counts
from crm.training.devices import (
    build_strategy,
    compile_layers,
    enable_checkpointing,
    load_whole,
    settle_devices,
    settle_precision,
    training_device,
)
from crm.training.lit_module import WAY_OUT, LitRewardModel, NonFiniteError
from crm.training.memory import keep_frozen_states, settle_memory
from crm.training.resume import BEST, PROMPTS, SUMMARY, checkpoint_to_resume
from crm.training.tracking import check_tracker, finished, log_summary, run_loggers

log = logging.getLogger(__name__)
THREADS = torch.get_num_threads()
"""Torch's default: a job of a sweep sets what the next one may not want."""
SAMPLE = 16
"""Comparisons of validation whose states show a late head what a pretrained backbone's are like."""


@dataclass(frozen=True)
class TrainingOutcome:
    """``checkpoint`` is the exported model folder; loss (nats) and accuracy (0 to 1, None where every validation row
    is a tie) are those of its step, the best of those validated and the last."""

    checkpoint: Path
    digest: str
    validation_loss: float
    validation_accuracy: float | None
    steps: int
    seconds: float


def run_training(config: TrainConfig, callbacks: Sequence[Callback] = ()) -> TrainingOutcome:
    """Train, export the best step, write ``summary.json``. Raises ``ValueError`` for anything a user can correct."""
    started = time.perf_counter()
    quieten()
    check_tracker(config.logger.kinds)
    show_loading(config.trainer.progress)
    settle_hardware(config)
    settings = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))
    resume = checkpoint_to_resume(config, settings)
    L.seed_everything(config.seed, verbose=False)

    splits = load_data(config.data, criteria=config.criteria)
    model, tokenizer = build_model(config)
    encoder = Encoder(tokenizer, model.head, config.model.max_length)
    data = PreferenceDataModule(config, splits.train, splits.validation, encoder, tokenizer.pad_token_id)
    counts = data.counts()
    check_counts(data, counts)
    if resume is None and config.model.path is not None:
        standardise(model, data)
    speed_up(config, model)
    steps = config.schedule.epochs * math.ceil(len(data.loader) / data.passes)
    steps = min(steps, config.schedule.max_steps or steps)
    lit = LitRewardModel(model, config.optimizer, config.loss, steps)
    lit.configure_optimizers()  # may refuse, so before anything of an old run is removed
    rank_zero_only(show_counts)(splits.counts, counts)
    rank_zero_only(show_run)(config, model, counts["trained_on"], lit.total_steps)

    _prepare_folder(Path(config.run_dir), settings, resumed=resume is not None)
    loggers, speed = run_loggers(config, settings, resume), Throughput()
    with finished(loggers):
        trainer = build_trainer(config, loggers, [speed, *callbacks], data.passes)
        try:
            trainer.fit(lit, datamodule=data, ckpt_path=resume, weights_only=True)
        except StoppedError as stop:
            raise KeyboardInterrupt(str(stop)) from None
        except SystemExit:  # what Lightning makes of a second Ctrl-C
            raise KeyboardInterrupt from None
        facts = {"counts": counts, "throughput": speed.mean, "config": settings, "commit": commit()}
        return finish(trainer, lit, data, facts, started)


def settle_hardware(config: TrainConfig) -> None:
    """Replace every ``auto`` by what this machine has. Raises ``ValueError`` for what it has not."""
    settle_devices(config.trainer)
    config.schedule.share(config.trainer.processes)
    settle_precision(config.trainer)
    if config.model.path is not None:
        check_reachable(config.model.path, config.model.revision)
    settle_memory(config)
    small = config.model.path is None  # more than one thread slows it down
    torch.set_num_threads(config.trainer.threads or (1 if small else THREADS))


def standardise(model: RewardModel, data: PreferenceDataModule) -> None:
    """Show a late head what the states of a pretrained backbone are like, in a process that has its weights."""
    if isinstance(model.score, LateHead) and next(model.backbone.parameters()).device.type != "meta":
        rows, hardware = data.validation_rows[:: len(data.validation_rows) // SAMPLE + 1], data.config.trainer
        # Shards are made because the whole may not fit on a device; on a CPU a large backbone takes minutes.
        device = training_device("cpu" if hardware.strategy == "fsdp" else hardware.accelerator)
        model.to(device).standardise(data.layout.collate(rows).to(device))


def speed_up(config: TrainConfig, model: RewardModel) -> None:
    """Checkpointing, frozen states and kernels as configured."""
    backbone = without_lora_wrapper(model.backbone)
    if config.model.gradient_checkpointing:
        enable_checkpointing(backbone)
    keep_frozen_states(config, model)
    if config.trainer.compile:
        compile_layers(backbone)


def build_model(config: TrainConfig) -> tuple[RewardModel, Any]:
    """Backbone and head as configured, and the tokenizer; everything random is drawn from ``config.seed``.

    ``model.path`` may be a checkpoint of an earlier run, here or on a hub: training goes on from its backbone and head.
    """
    settings, head, score = config.model, config.head.name, None
    # Sharding distributes the weights of the first process: the others need none.
    weights = config.trainer.strategy != "fsdp" or getattr(rank_zero_only, "rank", 0) == 0
    late = {name: getattr(config.head, name) for name in ("kept", "width")}
    if settings.path is None:
        assert settings.vocab_size and settings.hidden_size and settings.layers and settings.heads
        sizes = (settings.hidden_size, settings.layers, settings.heads, settings.max_length)
        tokenizer = train_tokenizer(tokenizer_texts(config.data.seed), settings.vocab_size)
        backbone: Any = build_tiny_backbone(len(tokenizer), *sizes, tokenizer.pad_token_id, config.seed)
    else:
        folder = model_folder(settings.path, settings.revision)
        if (folder / MANIFEST).is_file() and weights:
            start, tokenizer, _ = load_checkpoint(folder)
            backbone, score = start.backbone, start.score
        else:
            backbone, tokenizer = load_backbone(settings.path, settings.revision, weights)
        positions = getattr(backbone.config, "max_position_embeddings", settings.max_length)
        if settings.max_length > positions:
            raise ValueError(
                f"model.max_length={settings.max_length}: {settings.path} has {positions} positions; use at most that"
            )
    score = build_score(head, backbone.config.hidden_size, config.seed, score, **late)
    if isinstance(score, LateHead):
        score.response.dropout.p = config.head.dropout
    model = RewardModel(prepare_layers(backbone, settings), score, head)
    if not model.reads_forests and config.batching.name != "padded":
        raise ValueError(
            f"batching={config.batching.name}: layers of {type(backbone).__name__} are not known to pack (those of "
            "Qwen3 and Llama are); use batching=padded"
        )
    return model.train(), tokenizer  # Hugging Face loads in eval mode, where checkpointing is ignored


def build_trainer(config: TrainConfig, loggers: list[Any], callbacks: Sequence[Callback], passes: int) -> L.Trainer:
    """Lightning's trainer, with ``passes`` forward passes a step."""
    run_dir, schedule, hardware = Path(config.run_dir), config.schedule, config.trainer
    every = schedule.validate_every * passes
    bar = config.trainer.progress and sys.stderr.isatty()  # in a log file it would be thousands of lines
    # Not at the end of an epoch, which max_steps may end before its validation.
    stopping = EarlyStopping("validation/loss", patience=schedule.patience, check_on_train_epoch_end=False)
    callbacks = [
        *callbacks,
        *([stopping] if schedule.patience else []),
        *([ValidationLines()] if config.trainer.progress else []),
        *([TQDMProgressBar(refresh_rate=5)] if bar else []),
        Checkpoints(run_dir, schedule.save_every),
    ]
    return L.Trainer(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        strategy=build_strategy(hardware.strategy, hardware.processes),
        precision=cast(Any, hardware.precision),
        use_distributed_sampler=False,  # loaders give each process its share
        default_root_dir=run_dir,
        enable_model_summary=False,
        max_epochs=schedule.epochs,
        max_steps=schedule.max_steps or -1,
        accumulate_grad_batches=passes,
        val_check_interval=every or None,
        check_val_every_n_epoch=None if every else 1,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        callbacks=callbacks,
        logger=loggers,
        plugins=[WholeCheckpoints()],
        enable_progress_bar=bar,
    )


@rank_zero_only
def _prepare_folder(run_dir: Path, settings: dict[str, Any], resumed: bool) -> None:
    """Write ``config.yaml``; a new run in an old folder starts without what is of another model."""
    if not resumed:
        shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
        if (run_dir / "model" / MANIFEST).is_file():
            shutil.rmtree(run_dir / "model")
        for name in ("metrics.csv", SUMMARY):
            (run_dir / name).unlink(missing_ok=True)
    replace_file(run_dir / "config.yaml", f"# crm {__version__}\n{OmegaConf.to_yaml(OmegaConf.create(settings))}")


def finish(
    trainer: L.Trainer, lit: LitRewardModel, data: PreferenceDataModule, facts: dict[str, Any], started: float
) -> TrainingOutcome:
    """Export the best weights and write results on the first rank. All ranks must call it together."""
    run_dir, steps, loggers = Path(data.config.run_dir), trainer.global_step, list(trainer.loggers)
    numbers = validate_best(trainer, lit, data)
    loss, accuracy = float(numbers["validation/loss"]), with_nulls(float(numbers["validation/accuracy"]))
    if not math.isfinite(loss):
        found = f"validation loss is {loss} after {steps} optimizer steps, so no model was exported"
        raise NonFiniteError(f"{found}: {WAY_OUT}")
    whole = lit.whole_model()
    digest = ""
    if trainer.is_global_zero:
        model = RewardModel(merge_lora(whole.backbone), whole.score, whole.head)
        digest = _export(data.config, model, data.encoder, facts, accuracy)
        prompts = {prompt_key(row.prompt) for row in (*data.train, *data.validation)}
        replace_file(run_dir / PROMPTS, "\n".join(sorted(prompts)))
    outcome = TrainingOutcome(run_dir / "model", digest, loss, accuracy, steps, time.perf_counter() - started)
    if trainer.is_global_zero:
        write_results(run_dir, outcome, facts, loggers)
    lit.model.frozen = None  # the memory is free for what follows
    return outcome


def validate_best(trainer: L.Trainer, lit: LitRewardModel, data: PreferenceDataModule) -> Mapping[str, float]:
    """Leave the weights of the lowest validation loss in ``lit``; what they measured.

    The last ones compete too where the run ended between two validations.
    """
    loggers, steps = trainer.loggers, trainer.global_step
    best = next(each for each in trainer.checkpoint_callbacks if isinstance(each, Checkpoints)).best
    every = data.config.schedule.validate_every or math.ceil(len(data.loader) / data.passes)
    if steps % every or not best:
        trainer.loggers = []
        numbers = trainer.validate(lit, datamodule=data, verbose=False)[0]
        for logger in loggers:
            logger.log_metrics(dict(numbers), steps - 1)
        if not best or numbers["validation/loss"] < best["validation/loss"]:
            return numbers
    # Mapped, not read: of shards the first process alone needs it.
    weights = torch.load(Path(data.config.run_dir) / BEST, map_location="cpu", weights_only=True, mmap=True)
    load_whole(lit, weights["state_dict"])
    return best


def write_results(run_dir: Path, outcome: TrainingOutcome, facts: dict[str, Any], loggers: list[Logger]) -> None:
    """``summary.json``, W&B's summary, and two lines in the log."""
    summary = {**asdict(outcome), "checkpoint": str(outcome.checkpoint), **facts}
    replace_file(run_dir / SUMMARY, json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    loss, accuracy = outcome.validation_loss, outcome.validation_accuracy
    log_summary(loggers, {"best/loss": loss} | ({} if accuracy is None else {"best/accuracy": accuracy}))
    shown = "unknown (every row is a tie)"
    if accuracy is not None:
        shown = f"{accuracy:.3f} (n = {facts['counts']['validation_decided']})"
    speed = "; {comparisons_per_second:,.1f} comparisons/s, {tokens_per_second:,.0f} tokens/s"
    speed = speed.format(**facts["throughput"]) if facts["throughput"] else ""
    log.info(f"validation accuracy {shown}, loss {loss:.3f}{speed}; the model is in {outcome.checkpoint}")
    held_out = "" if facts["config"]["data"]["test_fraction"] else " data=<file of test votes>"
    log.info("next: python evaluate.py checkpoint=%s%s", typed_path(run_dir), held_out)


def _export(
    config: TrainConfig, model: RewardModel, encoder: Encoder, facts: Mapping[str, Any], accuracy: float | None
) -> str:
    """Write ``model/`` and return its digest."""
    run_dir, data = Path(config.run_dir), dict(facts["config"]["data"])
    for name in ("path", "root"):  # the model is evaluated elsewhere, on the same data
        if data[name] and not data[name].startswith("hf://"):
            data[name] = str(Path(data[name]).absolute())
    manifest = {
        "template": encoder.digest,
        "max_length": config.model.max_length,
        "seed": config.seed,
        "commit": facts["commit"],
        "validation_accuracy": accuracy,
        "validation_n": facts["counts"]["validation_decided"],
        "config": {**facts["config"], "data": data},
    }
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return export_model(model, encoder.tokenizer, run_dir / "model", manifest)
