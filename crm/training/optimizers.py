"""Optimizers. In: a module and its rates. Out: AdamW, or Muon for the matrices of the layers and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import AdamW, Muon, Optimizer

from crm.training.number_formats import computes_bfloat16


def build_optimizer(
    module: nn.Module, *, lr: float, weight_decay: float, betas: tuple[float, float], matrix_lr: float | None
) -> Optimizer:
    """The optimizer of what is trained in ``module``; vectors do not decay.

    Without ``matrix_lr`` it is AdamW; with it, the matrices of the transformer layers are updated by Muon at that
    rate, in float32 where the device has no bfloat16. On a CUDA device AdamW is torch's fused one. Raises
    ``ValueError`` where there are no matrices (all frozen, or flattened), or where they are sharded.
    """
    trained = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    matrices = {name: p for name, p in trained.items() if ".layers." in name and p.ndim == 2}
    others = trained if matrix_lr is None else {name: p for name, p in trained.items() if name not in matrices}
    groups = [
        {"params": [p for p in others.values() if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in others.values() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    fused = all_on_cuda(list(others.values()))
    adamw = AdamW([group for group in groups if group["params"]], lr=lr, betas=betas, fused=fused or None)
    # A fused AdamW says that it unscales gradients by itself, whereupon Lightning refuses to clip them. Nothing scales
    # gradients here: bfloat16 needs no scaling.
    adamw._step_supports_amp_scaling = False
    if matrix_lr is None:
        return adamw
    if any(isinstance(matrix, DTensor) for matrix in matrices.values()):
        raise ValueError("optimizer.name=muon: its matrices are spread over processes; use optimizer.name=adamw")
    if not matrices:
        raise ValueError("optimizer.name=muon: no matrix of a transformer layer is trained; use optimizer.name=adamw")
    fast = all(computes_bfloat16(matrix.device) for matrix in matrices.values())
    return Together(adamw, (Muon if fast else Float32Muon)(matrices.values(), lr=matrix_lr, weight_decay=weight_decay))


def all_on_cuda(parameters: Sequence[Tensor]) -> bool:
    """Whether torch can update all of ``parameters`` in one kernel of a CUDA device."""
    return bool(parameters) and all(parameter.is_cuda for parameter in parameters)


class Float32Muon(Muon):
    """`torch.optim.Muon` with its products in float32.

    torch always takes bfloat16 for them, which a processor without such instructions emulates, up to nine times slower
    (576 x 1,536 on an AMD EPYC with AVX2: 99 ms against 11).
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step: momentum, orthogonalised, at the rate that torch gives a matrix of that shape."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                if "momentum_buffer" not in self.state[matrix]:
                    self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix.grad)
                momentum = self.state[matrix]["momentum_buffer"].lerp_(matrix.grad, 1 - group["momentum"])
                update = orthogonalized(
                    matrix.grad.lerp(momentum, group["momentum"]), group["ns_coefficients"], group["ns_steps"]
                )
                rows, columns = matrix.shape
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(update, alpha=-group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int) -> Tensor:
    """About the nearest matrix of orthonormal rows or columns, by Newton-Schulz (Jordan et al. 2024, Muon)."""
    linear, cubic, quintic = coefficients
    wide: Tensor = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = wide @ wide.T
        wide = linear * wide + (cubic * gram + quintic * gram @ gram) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


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
