"""One training run. In: a checked `TrainConfig`. Out: a run folder with an exported model, curves and a summary."""

from __future__ import annotations

import logging
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import lightning as L
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities import rank_zero_only
from omegaconf import OmegaConf

from crm import __version__
from crm.dataset.load import load_data
from crm.io.files import replace_file
from crm.model.backbone import check_reachable, show_loading, without_lora_wrapper
from crm.model.encoding import Encoder
from crm.model.heads import PromptOrder
from crm.training.building import (
    LAST,
    build_data,
    build_lit_module,
    build_model,
    build_trainer,
    faster_layers,
    keep_frozen_states,
    settle_checkpointing,
    total_steps,
)
from crm.training.checkpointing import is_whole, previous
from crm.training.config import TrainConfig
from crm.training.console import quieten, show_counts, show_run
from crm.training.devices import settle_devices, settle_precision, settle_threads
from crm.training.memory import settle_strategy
from crm.training.results import TrainingOutcome, finish
from crm.training.run_folder import alone_in
from crm.training.run_identity import KeepIdentity, identify, refuse_another
from crm.training.tracking import build_loggers, finished

log = logging.getLogger(__name__)


def run_training(config: TrainConfig, callbacks: Sequence[Callback] = ()) -> TrainingOutcome:
    """Train, export the best step, write ``summary.json``. Raises ``ValueError`` for anything a user can mend."""
    started = time.perf_counter()
    quieten()
    show_loading(config.trainer.progress)
    settle_devices(config.trainer)
    config.schedule.share(config.trainer.devices * config.trainer.nodes)
    settle_precision(config)
    if config.model.path is not None:
        check_reachable(config.model.path, config.model.revision)
    settle_strategy(config)
    settle_threads(config)
    with alone_in(Path(config.run_dir)):
        return _run(config, callbacks, started)


def _run(config: TrainConfig, callbacks: Sequence[Callback], started: float) -> TrainingOutcome:
    run_dir = Path(config.run_dir)
    resume = _resume_point(config, run_dir)
    plain = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.structured(config)))
    L.seed_everything(config.seed, verbose=False)
    splits = load_data(**asdict(config.data), criteria=config.criteria)
    model, tokenizer = build_model(config)
    identity = identify(plain, without_lora_wrapper(model.backbone), tokenizer, splits.train, splits.validation)
    if resume is not None:
        refuse_another(resume, identity)
    _prepare_folder(run_dir, plain, resume is not None)
    encoder = Encoder(tokenizer, model.head, config.model.max_length, cast(PromptOrder, config.prompt.order))
    data = build_data(config, splits, encoder, model, tokenizer.pad_token_id)
    batches, counts = data.survey(config.trainer.devices * config.trainer.nodes)
    _refuse_nothing_to_do(config, batches, counts)
    settle_checkpointing(config, model, counts["largest_batch_tokens"])
    keep_frozen_states(config, model, counts["largest_batch_tokens"])
    lit = build_lit_module(config, model, total_steps(config, batches, data.passes))
    rank_zero_only(show_counts)(splits.counts, counts)
    rank_zero_only(show_run)(config, model, counts["trained_on"], lit.total_steps)
    group = f"{config.model.name} {config.head.name} {config.loss.name}"
    loggers = build_loggers(
        config.logger, run_dir, name=run_name(config), group=group, config=plain, resume=config.resume
    )
    with finished(loggers):
        trainer = build_trainer(config, run_dir, loggers, [KeepIdentity(identity), *callbacks], data.passes)
        with faster_layers(config, model):
            _fit(trainer, lit, data, resume)
        return finish(config, trainer, lit, data, counts, plain, started)


def _fit(trainer: L.Trainer, lit: L.LightningModule, data: L.LightningDataModule, resume: Path | None) -> None:
    """Train; Ctrl-C, of which Lightning makes an exit, is raised again, and has its handler of before."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(lit, datamodule=data, ckpt_path=resume, weights_only=True)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise end.__context__ from None
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def run_name(config: TrainConfig) -> str:
    """Model, head, data, what was overridden on the command line, and the seed: no two runs of a sweep are alike."""
    named = ("model", "head", "loss", "data", "seed", "logger", "hydra", "resume", "overwrite", "experiment")
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    changed = [word for word in words if not word.startswith(named) and "path" not in word.partition("=")[0]]
    data = Path(config.data.path).stem if config.data.path else config.data.name
    return " ".join([config.model.name, config.head.name, data, *changed[:4], f"seed {config.seed}"])


def _resume_point(config: TrainConfig, run_dir: Path) -> Path | None:
    if not config.resume:
        return None
    last = run_dir / "checkpoints" / LAST
    if not is_whole(last) and not is_whole(previous(last)):
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
    replace_file(run_dir / "config.yaml", f"# crm {__version__}\n{OmegaConf.to_yaml(OmegaConf.create(plain))}")


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
