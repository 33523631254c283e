"""Our side of the contests: what is timed starts at token ids, as it does for the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from bench.models import PAD_ID
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.batching.plans import Layout, Packing, Padding
from crm.model.encoding import EncodedComparison
from crm.model.reward_model import RewardModel
from crm.training.config import OptimizerConfig
from crm.training.lit_module import LitRewardModel
from crm.training.loss import LossConfig, preference_loss

PACKED = Packing(4096)
"""As many tokens as `batching.tokens` has by default."""
PADDED = Padding(4, PAD_ID)
"""No packing: near-equal lengths together, every sequence in a row of its own, no prefix shared."""
LAYOUTS: dict[str, Layout] = {"padded": PADDED, "tree": PACKED}


def mixed(device: str, bf16: bool) -> AbstractContextManager[Any]:
    """bfloat16 autocast around a forward pass, or nothing."""
    return torch.autocast(device.partition(":")[0], torch.bfloat16) if bf16 else nullcontext()


def train_step(
    model: RewardModel,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    *,
    layout: Layout = PACKED,
    bf16: bool = False,
) -> Contestant:
    """One optimizer step over ``pairs``; answers their mean loss."""
    device = str(model.device)

    def passes() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in layout.cut(pairs, rank=0, world_size=1):
            batch = layout.collate(rows).to(device)
            with mixed(device, bf16):
                logit = model(batch).preference_logit
            yield logit, batch.target

    return optimizer_step(optimizer, len(pairs), passes)


def optimizer_step(
    optimizer: Optimizer, pairs: int, passes: Callable[[], Iterable[tuple[Tensor, Tensor]]]
) -> Contestant:
    """A step over forward passes, each with logits and targets; the loss is the mean over all ``pairs``."""

    def run(stopwatch: Stopwatch) -> Answer:
        losses = []
        with stopwatch:
            for logit, target in passes():
                loss = preference_loss(logit, target).sum() / pairs
                loss.backward()  # type: ignore[no-untyped-call]
                losses.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        return [float(sum(losses))]

    return run


def score_queries(
    model: RewardModel,
    queries: Sequence[Sequence[EncodedComparison]],
    *,
    layout: Layout = PACKED,
    bf16: bool = False,
) -> Contestant:
    """Logits for the response shown first, query by query."""
    flat = [row for query in queries for row in query]
    device = str(model.device)

    @torch.inference_mode()
    def run(stopwatch: Stopwatch) -> Answer:
        model.eval()
        found: dict[int, float] = {}
        with stopwatch:
            for rows in layout.cut(flat, rank=0, world_size=1):
                with mixed(device, bf16):
                    logits = model(layout.collate(rows).to(device)).preference_logit
                found.update(zip(map(id, rows), logits.tolist(), strict=True))
        return [found[id(row)] for row in flat]

    return run


def lightning_steps(
    model: RewardModel, pairs: Sequence[EncodedComparison], *, pairs_a_step: int, layout: Layout = PACKED
) -> Contestant:
    """The same pairs through our own training loop, Lightning and `LitRewardModel`, from its first to its last batch.

    For the contest with another library's trainer: both loops have the bookkeeping that their users get. The learning
    rate is 0, so the weights stay, and the mean loss over all steps is that of the pairs.
    """

    def run(stopwatch: Stopwatch) -> Answer:
        still = OptimizerConfig(lr=1e-30, warmup_fraction=0.0)
        lit = LitRewardModel(model, still, LossConfig(), total_steps=-(-len(pairs) // pairs_a_step))
        lit.on_train_batch_start = lambda *_: None  # type: ignore[method-assign]  # seeds dropout, of which there is none
        timer = _Timer(stopwatch)
        trainer = L.Trainer(
            accelerator="gpu" if str(model.device).startswith("cuda") else "cpu",
            devices=1,
            max_epochs=1,
            callbacks=[timer],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(lit, DataLoader(pairs, batch_size=pairs_a_step, collate_fn=layout.collate))  # type: ignore[arg-type]
        return [timer.loss / len(pairs)]

    return run


class _Timer(Callback):
    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self.loss = 0.0

    def on_train_epoch_start(self, *_: Any) -> None:
        self._stopwatch.start()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.loss += float(outputs["loss"]) * len(batch)

    def on_train_epoch_end(self, *_: Any) -> None:
        self._stopwatch.stop()
