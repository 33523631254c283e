"""Devices, precision and strategy of a trainer, shards of FSDP2, and faster layers."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from crm.io.processes import launched_processes, settled
from crm.model.reward_model import RewardModel
from crm.training.config import TrainerConfig


def training_device(accelerator: str) -> torch.device:
    """The device of this process, by Lightning's rules: its local rank's GPU where GPUs are asked for and there."""
    if accelerator in ("gpu", "auto") and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def computes_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for bfloat16; on a CPU without them oneDNN has no kernels."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def settle_precision(settings: TrainerConfig) -> None:
    """Replace ``precision=auto`` by what the device of this process computes fast."""
    if settings.precision == "auto":
        fast = computes_bfloat16(training_device(settings.accelerator))
        settings.precision = "bf16-mixed" if fast else "32-true"


def settle_devices(settings: TrainerConfig) -> None:
    """Replace ``accelerator``, ``devices`` and ``nodes`` where they are ``auto``.

    Under torchrun or srun these are the processes and machines that they started, else every visible GPU of this
    machine, or one process on a CPU. Raises ``ValueError`` where torch sees fewer devices than the settings ask for,
    or a launcher started another number of processes.
    """
    if settings.accelerator == "auto":
        settings.accelerator = "gpu" if training_device("auto").type == "cuda" else "cpu"
    if settings.accelerator != "gpu" and settings.devices == "auto" and not launched_processes():
        settings.devices = 1
    settings.devices, settings.nodes = settled(settings.devices, settings.nodes)
    if settings.accelerator == "gpu" and settings.devices > (seen := torch.cuda.device_count()):
        raise ValueError(
            f"trainer.accelerator=gpu trainer.devices={settings.devices}: torch {torch.__version__} sees {seen} CUDA "
            "devices here; use trainer.devices=auto, trainer=cpu, or a torch built for your GPU"
        )


def build_strategy(name: str, processes: int) -> Strategy | str:
    """The strategy ``name`` for ``processes`` on all machines together."""
    if name == "fsdp":
        return ModelParallelStrategy(processes, 1, save_distributed_checkpoint=False)
    if name == "ddp" or processes > 1:
        # The only buffers are tables of rotations, equal everywhere. Broadcast before a forward pass, they would make
        # a rank without a validation batch block all others.
        return DDPStrategy(forward_sync_buffers=False)
    return name


def enable_checkpointing(backbone: Any) -> None:
    """Recompute each layer's activations in the backward pass instead of keeping them."""
    # 2026-11: the first name is new in transformers 5.2x, where the second one warns.
    enable = getattr(backbone, "activation_checkpointing_enable", None) or backbone.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    # transformers also makes the embedding's output need a gradient, which only reentrant checkpointing needs: it
    # would be carried down through all frozen layers for nothing.
    backbone.disable_input_require_grads()


def compile_layers(backbone: Any, backend: Any = "inductor") -> None:
    """Compile every decoder layer in place, for lengths that vary."""
    for layer in backbone.layers:
        layer.compile(backend=backend, dynamic=True)


def shard(model: RewardModel, mesh: DeviceMesh, device: torch.device, compute_dtype: torch.dtype) -> RewardModel:
    """Shard ``model`` in place over the one-dimensional ``mesh`` (FSDP2); returns its empty skeleton, for `gather`.

    Layers compute in ``compute_dtype``; gradients are summed in float32, and the head stays float32. Weights and
    buffers are those of the first process: those of the others are not read and may be on the meta device.
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
    """The whole model in plain CPU tensors on the first process, but for buffers that are not saved; on others empty.

    All processes must call it together. ``skeleton`` is what `shard` returned and is left as it was.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state: dict[str, Any] = get_model_state_dict(model, options=options)
    whole = copy.deepcopy(skeleton)
    if dist.get_rank() == 0:
        whole.load_state_dict(state, assign=True)
    return whole
