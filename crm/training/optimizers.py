"""AdamW, or Muon for the matrices of the layers and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW, Muon, Optimizer

from crm.training.config import OptimizerConfig


def build_optimizer(module: nn.Module, settings: OptimizerConfig) -> Optimizer:
    """The optimizer of what is trained in ``module``; vectors do not decay.

    With ``settings.name=muon`` the matrices of the transformer layers are updated by Muon. On a CUDA device AdamW is
    torch's fused one. Raises ``ValueError`` where Muon has no matrices (all frozen, or flattened) or sharded ones.
    """
    betas, decay, muon = (0.9, settings.beta2), settings.weight_decay, settings.name == "muon"
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    matrices = {name: p for name, p in trained.items() if ".layers." in name and p.ndim == 2}
    others = {name: p for name, p in trained.items() if name not in matrices} if muon else trained
    groups = [
        {"params": [p for p in others.values() if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in others.values() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    fused = all_on_cuda(list(others.values()))
    adamw = AdamW([group for group in groups if group["params"]], lr=settings.lr, betas=betas, fused=fused or None)
    if not muon:
        return adamw
    if any(isinstance(matrix, DTensor) for matrix in matrices.values()):
        raise ValueError("optimizer.name=muon: its matrices are spread over processes; use optimizer.name=adamw")
    if not matrices:
        raise ValueError("optimizer.name=muon: no matrix of a transformer layer is trained; use optimizer.name=adamw")
    return Together(adamw, Muon(matrices.values(), lr=settings.matrix_lr, weight_decay=decay))


def all_on_cuda(parameters: Sequence[Tensor]) -> bool:
    """Whether torch can update all of ``parameters`` in one kernel of a CUDA device."""
    return bool(parameters) and all(parameter.is_cuda for parameter in parameters)


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
