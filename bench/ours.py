"""Our side of the contests: what is timed starts at token ids, as it does for the peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch.optim import Optimizer

from bench.models import PAD_ID
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.batching.batches import collate
from crm.model.batching.plans import Packing, fill
from crm.model.encoding import EncodedComparison
from crm.model.reward_model import RewardModel
from crm.training.config import OptimizerConfig
from crm.training.lit_module import LitRewardModel
from crm.training.loss import LossConfig, preference_loss

Mode = Literal["padded", "tree"]
MODES: tuple[Mode, ...] = get_args(Mode)
TOKENS_A_FORWARD = 4096
"""As many as `batching.tokens` has by default."""


def batch_of(encoded: Sequence[EncodedComparison], mode: Mode) -> Any:
    """One forward pass: a padded batch, or a forest that shares beginnings."""
    return collate(encoded, PAD_ID) if mode == "padded" else Packing(TOKENS_A_FORWARD).collate(encoded)


def batches_of(
    encoded: Sequence[EncodedComparison], tokens: int = TOKENS_A_FORWARD
) -> Iterator[tuple[Any, list[EncodedComparison]]]:
    """Forward passes as our trainer and judge make them, of at most ``tokens``, and the rows of each."""
    packing = Packing(tokens)
    for rows in fill(encoded, packing):
        yield packing.collate(rows), rows


def mixed(device: str, bf16: bool) -> AbstractContextManager[Any]:
    """bfloat16 autocast around a forward pass, or nothing."""
    return torch.autocast(device.partition(":")[0], torch.bfloat16) if bf16 else nullcontext()


def train_step(
    model: RewardModel,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    *,
    tokens: int = TOKENS_A_FORWARD,
    bf16: bool = False,
) -> Contestant:
    """One optimizer step over ``pairs``; answers their mean loss.

    The loss is divided by the pairs of the step, not of the forward pass.
    """
    device = str(model.device)

    def run(stopwatch: Stopwatch) -> Answer:
        losses = []
        with stopwatch:
            for made, _ in batches_of(pairs, tokens):
                batch = made.to(device)
                with mixed(device, bf16):
                    logit = model(batch).preference_logit
                loss = preference_loss(logit, batch.target).sum() / len(pairs)
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
    tokens: int = TOKENS_A_FORWARD,
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
            for batch, rows in batches_of(flat, tokens):
                with mixed(device, bf16):
                    logits = model(batch.to(device)).preference_logit
                found.update(zip(map(id, rows), logits.tolist(), strict=True))
        return [found[id(row)] for row in flat]

    return run


def lightning_steps(
    model: RewardModel, pairs: Sequence[EncodedComparison], *, pairs_a_step: int, bf16: bool = False
) -> Contestant:
    """The same pairs through our own training loop, Lightning and `LitRewardModel`, from its first to its last batch.

    For the contest with another library's trainer: both loops have the bookkeeping that their users get. The learning
    rate is 0, so the weights stay, and the mean loss over all steps is that of the pairs.
    """

    def run(stopwatch: Stopwatch) -> Answer:
        still = OptimizerConfig(lr=1e-30, warmup_fraction=0.0)
        lit = LitRewardModel(model, still, LossConfig(), total_steps=-(-len(pairs) // pairs_a_step))
        timer = _Timer(stopwatch)
        trainer = L.Trainer(
            accelerator="gpu" if str(model.device).startswith("cuda") else "cpu",
            devices=1,
            precision="bf16-mixed" if bf16 else "32-true",
            max_epochs=1,
            callbacks=[timer],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(lit, train_dataloaders=_Loader(pairs, pairs_a_step))
        return [timer.loss / len(pairs)]

    return run


class _Loader:
    """A forest a step, collated when asked for."""

    def __init__(self, pairs: Sequence[EncodedComparison], pairs_a_step: int) -> None:
        self._pairs, self._pairs_a_step = pairs, pairs_a_step

    def __len__(self) -> int:
        return -(-len(self._pairs) // self._pairs_a_step)

    def __iter__(self) -> Iterator[Any]:
        packing = Packing(TOKENS_A_FORWARD)
        for start in range(0, len(self._pairs), self._pairs_a_step):
            yield packing.collate(self._pairs[start : start + self._pairs_a_step])


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
