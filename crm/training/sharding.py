"""A reward model sharded over devices by FSDP2, and gathered again.

Every transformer layer is one unit: its weights are gathered for its forward and its backward pass and dropped in
between. Master weights, gradients and optimizer state stay sharded float32.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from crm.model.reward_model import RewardModel


def shard_as_asked(lit: L.LightningModule, model: RewardModel) -> tuple[RewardModel, ...]:
    """Shard ``model`` of ``lit`` where its strategy has a mesh of devices; the skeleton for `gather`, else nothing."""
    if lit.device_mesh is None:
        return ()
    compute_dtype = torch.bfloat16 if lit.trainer.precision == "bf16-mixed" else torch.float32
    return (shard(model, lit.device_mesh["data_parallel"], lit.trainer.strategy.root_device, compute_dtype),)


def shard(model: RewardModel, mesh: DeviceMesh, device: torch.device, compute_dtype: torch.dtype) -> RewardModel:
    """Shard ``model`` in place over the one-dimensional ``mesh``; returns its empty skeleton, for `gather`.

    Layers compute in ``compute_dtype``; gradients are summed in float32, and the head, whose logits are float32
    everywhere, stays float32. Weights and buffers are those of the first process: those of the others are not read
    and may be on the meta device. No device ever holds more than its share and one layer.
    """
    weights, buffers = model.state_dict(), dict(model.named_buffers())
    model.to("meta")
    skeleton = copy.deepcopy(model)
    wrap(model, mesh, compute_dtype)
    model.to_empty(device=device)
    for name, buffer in model.named_buffers():
        if dist.get_rank() == 0:
            buffer.copy_(buffers[name])
        dist.broadcast(buffer, src=0)
    load_whole(model, weights)
    return skeleton


def wrap(model: RewardModel, mesh: DeviceMesh, compute_dtype: torch.dtype) -> None:
    """Make every transformer layer, the rest of the backbone, and the head a unit of FSDP2."""
    policy = MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32)
    for layer in model.backbone.layers:  # type: ignore[union-attr]
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model.backbone, mesh=mesh, mp_policy=policy)
    # Not kept whole between forward and backward: between steps every weight is then a shard, whatever came before.
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(), reshard_after_forward=True)


def load_whole(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state dict of whole tensors; for a sharded module only that of the first process is read."""
    if any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        whole: dict[str, Any] = dict(state) if dist.get_rank() == 0 else {}
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(module, whole, options=options)
    else:
        module.load_state_dict(state)


def gather(model: RewardModel, skeleton: RewardModel) -> RewardModel:
    """The whole model in plain CPU tensors on the first process; an empty one on the others.

    All processes must call it together. ``skeleton`` is what `shard` returned and is left as it was.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state: dict[str, Any] = get_model_state_dict(model, options=options)
    whole = copy.deepcopy(skeleton)
    if dist.get_rank() == 0:
        whole.load_state_dict(state, assign=True)
        for name, buffer in model.named_buffers():  # those that are not in the state dict too
            owner, _, own_name = name.rpartition(".")
            whole.get_submodule(owner)._buffers[own_name] = buffer.cpu()
    return whole
