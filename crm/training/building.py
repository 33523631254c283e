"""The parts of a training run. In: a checked `TrainConfig`. Out: model, data module, Lightning module and trainer."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.utilities import rank_zero_only

from crm.dataset.load import tokenizer_texts
from crm.io.installed import plugin
from crm.model.attention.frozen_layers import FrozenLayers, FrozenStates, freeze_lower_layers, most_frozen
from crm.model.backbone import (
    add_lora,
    build_tiny_backbone,
    keep_lowest_layers,
    load_backbone,
    train_tokenizer,
    without_lora_wrapper,
)
from crm.model.batching.plans import packing_named
from crm.model.config import BATCHINGS
from crm.model.encoding import Encoder
from crm.model.export import load_checkpoint
from crm.model.heads import head_named
from crm.model.manifest import MANIFEST
from crm.model.reward_model import RewardModel, build_score
from crm.training.checkpointing import BestCheckpoint, LastCheckpoint, SafeCheckpointIO
from crm.training.config import TrainConfig
from crm.training.console import in_terminal, progress_bar
from crm.training.datamodule import BatchLoader, PreferenceDataModule
from crm.training.devices import training_device
from crm.training.kernels import compiled_layers, enable_checkpointing, liger_kernels
from crm.training.lit_module import LitRewardModel
from crm.training.memory import GIB, memory_at_hand, training_need
from crm.training.strategies import engine
from crm.training.throughput import Throughput
from crm.votes.splits import Splits

log = logging.getLogger(__name__)
BEST, LAST = "best.ckpt", "last.ckpt"
OF_CRITERIA = 0.25
"""Share of the room for kept states that criteria have where responses are read by fewer layers."""


def build_model(config: TrainConfig) -> tuple[RewardModel, Any]:
    """Backbone and head as configured, and the tokenizer; everything random is drawn from ``config.seed``.

    ``model.path`` may be a checkpoint of an earlier run: training goes on from its backbone and, where it fits, head.
    Under another prompt order than that run's a head reads another state, so only the backbone is taken over.
    """
    settings, head = config.model, config.head.name
    late = {name: getattr(config.head, name) for name in ("kept", "width", "response_layers", "gated")}
    score = None
    if settings.path is None:
        assert settings.vocab_size and settings.hidden_size and settings.layers and settings.heads
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
    elif (Path(settings.path) / MANIFEST).is_file():
        start, tokenizer, manifest = load_checkpoint(Path(settings.path))
        backbone, score = start.backbone, start.score if manifest["prompt_order"] == config.prompt.order else None
    else:
        # Sharding deals out the weights of the first process: the others need none, and memory of a machine is finite.
        weights = config.trainer.strategy != "fsdp" or getattr(rank_zero_only, "rank", 0) == 0
        backbone, tokenizer = load_backbone(settings.path, settings.revision, settings.max_length, weights)
    keep_lowest_layers(backbone, settings.use_layers)
    freeze_lower_layers(backbone, settings.freeze_layers)
    hidden_size = backbone.config.hidden_size
    if settings.lora_rank:
        backbone = add_lora(
            backbone, settings.lora_rank, settings.lora_alpha, settings.lora_dropout, settings.freeze_layers
        )
    model = RewardModel(backbone, build_score(head, hidden_size, config.seed, score, **late), head)
    if not model.reads_forests and config.batching.name != "padded":
        raise ValueError(
            f"batching={config.batching.name}: layers of {type(backbone).__name__} are not known to pack (those of "
            "Qwen3 and Llama are); use batching=padded"
        )
    return model, tokenizer


def settle_checkpointing(config: TrainConfig, model: RewardModel, tokens: int) -> bool:
    """Switch gradient checkpointing on where it is asked for, or ``auto`` finds too little memory for ``tokens``."""
    wanted, backbone = config.model.gradient_checkpointing, without_lora_wrapper(model.backbone)
    if wanted == "auto":
        settings, device = config.trainer, training_device(config.trainer.accelerator)
        ranks, mixed = settings.devices * settings.nodes, settings.precision == "bf16-mixed"
        shards, replicas = (ranks, 1) if settings.strategy == "fsdp" else (1, ranks)
        need = training_need(backbone, tokens, mixed=mixed, shards=shards, replicas=replicas)
        at_hand = memory_at_hand(device)
        if need.total > GIB:
            rank_zero_only(log.info)(need.told(at_hand, str(device)))
        wanted = not need.fits(at_hand)
    if wanted:
        enable_checkpointing(backbone)
    return bool(wanted)


def keep_frozen_states(config: TrainConfig, model: RewardModel, tokens: int) -> None:
    """Have the frozen layers run once for each beginning of a sequence, where there are any and it is not switched off.

    Room is half of the memory that is left of a step on ``tokens``, unless a number is given.
    """
    settings, backbone = config.model, without_lora_wrapper(model.backbone)
    whole = not model.prunes  # such a head reads every token
    layers = most_frozen(backbone, settings.freeze_layers, whole=whole)
    partly = model.depths is not None and layers < len(backbone.layers)  # a layer that is trained may read responses
    if settings.kept_states == "off" or layers < 1 or partly:
        return
    if not model.reads_forests:
        rank_zero_only(log.info)("frozen layers: run at every pass, %s is not known to split", type(backbone).__name__)
        return
    room = _room_for_states(config, backbone, tokens) / config.trainer.devices

    def keeping(layers: int, share: float) -> FrozenLayers:
        kept = FrozenStates(
            backbone.config.hidden_size,
            budget=int(room * share),
            dtype=getattr(torch, settings.kept_states_dtype),
        )
        return FrozenLayers(backbone, layers, kept, whole=whole)

    if model.depths is None:
        model.frozen = keeping(layers, 1.0)
    else:
        of_responses = len(model.depths.lower.layers)
        model.depths.kept = keeping(of_responses, 1 - OF_CRITERIA), keeping(layers, OF_CRITERIA)
    rank_zero_only(log.info)(
        "frozen layers: the states that %d layers give are kept (%s): room for %.1f GB, %d tokens a process; "
        "model.kept_states=off computes them anew",
        layers,
        settings.kept_states_dtype,
        room / 1e9,
        sum(part.kept.room for part in model.keeping),
    )


def _room_for_states(config: TrainConfig, backbone: Any, tokens: int) -> float:
    """Bytes on this machine."""
    if config.model.kept_states_gb:
        return config.model.kept_states_gb * 1e9
    need = training_need(backbone, tokens, mixed=config.trainer.precision == "bf16-mixed").total
    return max(0, memory_at_hand(torch.device("cpu")) - need) / 2


@contextmanager
def faster_layers(config: TrainConfig, model: RewardModel) -> Iterator[None]:
    """The layers compiled or on Liger's kernels, as configured, inside the ``with``."""
    device, backbone = training_device(config.trainer.accelerator), without_lora_wrapper(model.backbone)
    with ExitStack() as stack:
        if config.trainer.compile:
            stack.enter_context(compiled_layers(backbone, device))
        if config.trainer.liger:
            stack.enter_context(liger_kernels(backbone, device))
        yield


def build_data(
    config: TrainConfig, splits: Splits, encoder: Encoder, model: RewardModel, pad_id: int
) -> PreferenceDataModule:
    """Train and validation rows behind loaders."""
    share = config.schedule.share(config.trainer.devices * config.trainer.nodes)
    rows = share if config.batching.name != "padded" else padded_rows(config, share, head_named(config.head.name).joint)
    return PreferenceDataModule(
        splits.train,
        splits.validation,
        encoder,
        direction=config.direction.kind,
        noise=config.noise.kind,
        ties=config.loss.ties,
        criteria_mode=config.criteria,
        batch_size=rows,
        accumulate=share // rows,
        packing=packing_named(config.batching.name, config.batching.tokens),
        pad_id=pad_id,
        seed=config.seed,
        loader=_added_loader(config, encoder, model),
    )


def padded_rows(config: TrainConfig, share: int, joint: bool) -> int:
    """Comparisons of a padded forward pass: ``batching.batch_size``, or as many as ``batching.tokens`` holds.

    A divisor of the ``share`` of a step that a device has. Raises ``ValueError`` where ``batch_size`` is none.
    """
    if rows := config.batching.batch_size:
        if share % rows:
            raise ValueError(
                f"batching.batch_size={rows}: expected a divisor of {share}, the comparisons of a step on each device "
                "(schedule.comparisons_per_step / devices)"
            )
        return rows
    most = max(1, config.batching.tokens // (config.model.max_length * (1 if joint else 2)))
    return max(rows for rows in range(1, min(most, share) + 1) if share % rows == 0)


def _added_loader(config: TrainConfig, encoder: Encoder, model: RewardModel) -> BatchLoader | None:
    """What another package makes of ``batching.name``. Raises ``ValueError`` for several devices."""
    if config.batching.name in BATCHINGS:
        return None
    if (devices := config.trainer.devices * config.trainer.nodes) > 1:
        raise ValueError(
            f"trainer.devices={devices} with batching.name={config.batching.name}: batches of another package are made "
            "for one device; use trainer.devices=1, or batching=tree"
        )
    loader: BatchLoader = plugin("batching", config.batching.name)(config, encoder, model)
    return loader


def total_steps(config: TrainConfig, batches: int, passes: int) -> int:
    """Optimizer steps of the whole run, from the forward passes that an epoch and a step have on each rank."""
    steps = config.schedule.epochs * math.ceil(batches / passes)
    return min(steps, config.schedule.max_steps) if config.schedule.max_steps else steps


def build_lit_module(config: TrainConfig, model: RewardModel, steps: int) -> LitRewardModel:
    """The model with its loss, optimizer and schedule of ``steps`` optimizer steps."""
    return LitRewardModel(
        model,
        lr=config.optimizer.lr,
        weight_decay=config.optimizer.weight_decay,
        betas=(config.optimizer.beta1, config.optimizer.beta2),
        warmup_fraction=config.optimizer.warmup_fraction,
        total_steps=steps,
        matrix_lr=config.optimizer.matrix_lr if config.optimizer.name == "muon" else None,
        label_smoothing=config.loss.label_smoothing,
        centre_scores=config.loss.centre_scores,
        silence=config.loss.silence,
    )


def build_trainer(
    config: TrainConfig, run_dir: Path, loggers: list[Any], callbacks: Sequence[Callback], passes: int
) -> L.Trainer:
    """Lightning's trainer, of ``passes`` a step; it draws no data and computes no schedule, both are ours."""
    settings = config.schedule
    every = settings.validate_every * passes
    return L.Trainer(
        **engine(config.trainer, run_dir),
        max_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        accumulate_grad_batches=passes,
        gradient_clip_val=config.optimizer.clip or None,
        val_check_interval=every or None,
        check_val_every_n_epoch=None if every else 1,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        callbacks=[*_callbacks(config, run_dir), *callbacks],
        logger=loggers,
        plugins=[SafeCheckpointIO()],
        enable_progress_bar=config.trainer.progress and in_terminal(),
    )


def _callbacks(config: TrainConfig, run_dir: Path) -> list[Callback]:
    folder = run_dir / "checkpoints"
    callbacks: list[Callback] = [
        BestCheckpoint(
            folder,
            filename=Path(BEST).stem,
            monitor="validation/loss",
            save_weights_only=True,
            enable_version_counter=False,
            save_on_train_epoch_end=False,  # else after `last.ckpt`, which would not know of it
        )
    ]
    callbacks.append(
        Throughput(
            peak_tflops=config.trainer.peak_tflops,
            bfloat16=config.trainer.precision == "bf16-mixed",
            tell=config.trainer.progress,
        )
    )
    callbacks.append(LastCheckpoint(folder / LAST, config.schedule.save_every))
    if config.schedule.patience:
        callbacks.append(EarlyStopping("validation/loss", patience=config.schedule.patience))
    return [*callbacks, *progress_bar(config.trainer.progress)]
