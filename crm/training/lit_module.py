"""The Lightning module: training step, validation step and its metrics, schedule, and AdamW or Muon."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Muon, Optimizer
from torchmetrics import MeanMetric

from crm.io.draws import fraction
from crm.model.batching.batches import Batch
from crm.model.heads import HeadOutput
from crm.model.reward_model import RewardModel
from crm.training.config import OptimizerConfig
from crm.training.datamodule import PreferenceDataModule
from crm.training.devices import gather, shard
from crm.training.loss import LossConfig, preference_loss, training_loss


def build_optimizer(module: nn.Module, settings: OptimizerConfig) -> Optimizer:
    """The optimizer of what is trained in ``module``; vectors do not decay.

    With ``settings.name=muon`` the matrices of the transformer layers are updated by Muon. On a CUDA device AdamW is
    torch's fused one. Raises ``ValueError`` where Muon has no matrices (all frozen, or flattened).
    """
    betas, decay, muon = (0.9, settings.beta2), settings.weight_decay, settings.name == "muon"
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    matrices = {name: p for name, p in trained.items() if ".layers." in name and p.ndim == 2}
    others = {name: p for name, p in trained.items() if name not in matrices} if muon else trained
    groups = [
        {"params": [p for p in others.values() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in others.values() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    fused = all(parameter.is_cuda for parameter in others.values())
    adamw = AdamW([group for group in groups if group["params"]], lr=settings.lr, betas=betas, fused=fused or None)
    if not muon:
        return adamw
    if not matrices:
        raise ValueError("optimizer.name=muon: no matrix of a transformer layer is trained; use optimizer.name=adamw")
    return Together(adamw, Muon(matrices.values(), lr=settings.matrix_lr, weight_decay=decay))


class Together(Optimizer):
    """Several optimizers, each for its own parameters, as the one optimizer that schedules and checkpoints expect.

    Groups and state are those of the parts, one after another; ``state_dict`` has torch's usual form.
    """

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """One step of every part."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        start = 0
        for part in self.parts:
            # Linked anew at each step: loading a checkpoint puts other objects in place of groups and state.
            end = start + len(part.param_groups)
            part.param_groups, part.state = self.param_groups[start:end], self.state
            part.step()
            start = end
        return loss


WAY_OUT = "lower optimizer.lr or use trainer.precision=32-true"


class NonFiniteError(ValueError):
    """Loss or gradients became NaN or infinite; nothing of the step is saved."""


class PreferenceAccuracy(MeanMetric):
    """Share of decided comparisons on which the judge agrees, in [0, 1]; a logit of exactly 0 counts one half.

    Rows whose target is 1/2 are ties of the voter: they say nothing about agreement and are left out. NaN where no
    row was decided, or where a logit was NaN.
    """

    def __init__(self) -> None:
        super().__init__(nan_strategy="disable")

    def update(self, preference_logit: Tensor, target: Tensor) -> None:  # type: ignore[override]
        """``preference_logit`` (B,) and ``target`` (B,) in {0, 1/2, 1}, about the same response."""
        decided = target != 0.5
        agreement = torch.sign(preference_logit) * torch.sign(target - 0.5)
        points = ((agreement + 1.0) / 2.0).masked_fill(preference_logit.isnan(), torch.nan)  # sign(NaN) is 0, a tie
        super().update(points[decided])


class ValidationMetrics(nn.Module):
    """What a validation measures: loss, accuracy, and accuracy by direction."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = MeanMetric(nan_strategy="disable")  # NaN where a row's is: else it would be left out
        self.accuracy, self.original, self.reverse = PreferenceAccuracy(), PreferenceAccuracy(), PreferenceAccuracy()

    def update(self, preference_logit: Tensor, batch: Any, counted: Tensor, paired: Tensor) -> None:
        """``preference_logit`` (B,) of a batch with ``target`` (B,) and ``reverse`` (B,).

        Rows that are ``counted`` (B,) are in all but the accuracies by direction, which are of those that are
        ``paired`` (B,): whose pair is read in both directions.
        """
        counted, paired = (rows.to(batch.reverse.device) for rows in (counted, paired))
        self.loss.update(preference_loss(preference_logit, batch.target)[counted])
        self.accuracy.update(preference_logit[counted], batch.target[counted])
        for metric, rows in ((self.original, paired & ~batch.reverse), (self.reverse, paired & batch.reverse)):
            metric.update(preference_logit[rows], batch.target[rows])

    def finish(self) -> dict[str, Tensor]:
        """Accuracy by direction, of all ranks together. Starts anew.

        ``accuracy_sum`` of both directions, on the same pairs, is 1 for a model that does not read the criteria. A
        direction that no row has is left out, and so is the sum.
        """
        original, reverse = self.original.compute(), self.reverse.compute()
        numbers = {"accuracy_original": original, "accuracy_reverse": reverse, "accuracy_sum": original + reverse}
        self.original.reset()
        self.reverse.reset()
        return {name: value for name, value in numbers.items() if not torch.isnan(value)}


class LitRewardModel(L.LightningModule):
    """A reward model in training.

    ``total_steps`` counts optimizer steps of the whole run and is computed by the data module, never by the trainer:
    asking Lightning for it makes a resumed run forget its position in the epoch.
    """

    def __init__(self, model: RewardModel, optimizer: OptimizerConfig, loss: LossConfig, total_steps: int) -> None:
        super().__init__()
        self.model, self.optimizer_config, self.loss_config = model, optimizer, loss
        self.total_steps = total_steps
        self.validation = ValidationMetrics()
        self.train_accuracy = PreferenceAccuracy()
        self._of_step: list[Tensor] = []
        """Of each pass of the step so far, weighted means: loss, size of the logits, scores and their squares."""
        self._skeletons: tuple[RewardModel, ...] = ()  # a tuple: a module here would be trained and saved too

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Have dropout depend on seed, batch and rank alone, so that a resumed run drops what the unbroken one does."""
        seed = self.trainer.datamodule.config.seed  # type: ignore[attr-defined]
        torch.manual_seed(int(2**53 * fraction(seed, self.current_epoch, batch_idx, self.global_rank)))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Mean loss of a pass, weighted."""
        output = self.model(batch)
        loss, objective = training_loss(output, batch.target, self.loss_config)
        if batch.weight:  # else another rank's row, read only to keep in step
            self.train_accuracy.update(output.preference_logit.detach(), batch.target)
        if batch_idx % self.trainer.accumulate_grad_batches == 0:
            self._of_step = []
        self._of_step.append(_means(loss, output) * batch.weight)
        self._log_step(len(batch))
        return objective * batch.weight

    def _log_step(self, rows: int) -> None:
        """What Lightning writes of this step if the pass at hand is its last."""
        loss, margin, *scores = torch.stack(self._of_step).sum(dim=0) / self.trainer.accumulate_grad_batches
        self.log("train/loss", loss, prog_bar=True, batch_size=rows, sync_dist=True)
        self.log("train/accuracy", self.train_accuracy, on_step=False, on_epoch=True, batch_size=rows)
        self.log("train/margin", margin, batch_size=rows, sync_dist=True)
        if scores:
            mean, square = scores
            self.log("train/score_mean", mean, batch_size=rows, sync_dist=True)
            spread = (square - mean**2).clamp(min=0).sqrt()  # on several ranks the mean of theirs
            self.log("train/score_spread", spread, batch_size=rows, sync_dist=True)
        self.log("train/lr", self.lr_schedulers().get_last_lr()[0])  # type: ignore[union-attr]

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Clip gradients; raise `NonFiniteError` where they are not finite, before any weight is touched.

        Lightning refuses to clip for a fused AdamW, which could unscale gradients itself; bfloat16 does not scale them.
        """
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        clipped = clip_grad_norm_(weights, self.optimizer_config.clip or math.inf)
        norm = float(clipped.full_tensor() if isinstance(clipped, DTensor) else clipped)
        if not math.isfinite(norm):
            raise NonFiniteError(f"the gradient norm is {norm} at optimizer step {self.global_step}: {WAY_OUT}")
        self.log("train/gradient_norm", norm)  # before clipping

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Accumulate what is measured at the end, over rows and on all ranks."""
        measured, logit = self.validation, self.model(batch).preference_logit
        if batch.weight:  # else another rank's row, read only to keep in step
            data: PreferenceDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
            measured.update(logit, batch, *data.validation_roles(batch_idx))
        self.log("validation/loss", measured.loss, prog_bar=True, on_epoch=True, batch_size=len(batch))
        self.log("validation/accuracy", measured.accuracy, prog_bar=True, on_epoch=True, batch_size=len(batch))

    def on_validation_epoch_end(self) -> None:
        """Log what needs all rows: accuracy by direction."""
        for name, value in self.validation.finish().items():
            self.log(f"validation/{name}", value)

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        """What `build_optimizer` makes of what is trained; linear warm-up, then a cosine to zero, a step at a time."""
        optimizer, steps = build_optimizer(self.model, self.optimizer_config), self.total_steps
        warmup = math.ceil(self.optimizer_config.warmup_fraction * steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: lr_factor(step, warmup, steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_model(self) -> None:
        """Shard the weights where the strategy has a mesh of devices (FSDP2), the first time that it asks."""
        if self.device_mesh is None or self._skeletons:
            return
        compute_dtype = torch.bfloat16 if self.trainer.precision == "bf16-mixed" else torch.float32
        mesh, device = self.device_mesh["data_parallel"], self.trainer.strategy.root_device
        self._skeletons = (shard(self.model, mesh, device, compute_dtype),)

    def whole_model(self) -> RewardModel:
        """The model in plain tensors: itself, or where it is sharded a gathered copy, empty but on the first rank.

        All ranks must call it together.
        """
        return gather(self.model, *self._skeletons) if self._skeletons else self.model


def _means(loss: Tensor, output: HeadOutput) -> Tensor:
    """Of one pass: loss and mean size of the logits and, where there are scores, their mean and that of their squares.

    (2,) or (4,), without a gradient.
    """
    scores = [] if output.scores is None else [output.scores.mean(), output.scores.square().mean()]
    return torch.stack([loss, output.preference_logit.abs().mean(), *scores]).detach()


def lr_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """Learning rate at optimizer step ``step`` as a share in [0, 1] of the peak: linear up, then a cosine to 0."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
