"""Devices, precision and strategy of a trainer, and faster layers on them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy

from crm.io.processes import check_launcher, launched_processes, settled
from crm.training.config import TrainerConfig

LIGER = ("qwen3", "llama")
"""Architectures that Liger has kernels for and that `liger_kernels` supports."""


def training_device(accelerator: str) -> torch.device:
    """The device of this process, by Lightning's rules: its local rank's GPU where GPUs are asked for and there."""
    if accelerator in ("gpu", "auto") and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    mps = accelerator == "mps" or (accelerator in ("gpu", "auto") and torch.backends.mps.is_available())
    return torch.device("mps" if mps else "cpu")


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
        settings.accelerator = {"cuda": "gpu"}.get(kind := training_device("auto").type, kind)
    if settings.accelerator != "gpu" and settings.devices == "auto" and not launched_processes():
        settings.devices = 1
    settings.devices, settings.nodes = settled(settings.devices, settings.nodes)
    check_launcher("trainer.devices", settings.devices, settings.nodes)
    kind = training_device(settings.accelerator).type
    seen = {
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 0 if settings.accelerator == "gpu" else settings.devices,
    }[kind]
    if settings.devices > seen:
        raise ValueError(
            f"trainer.accelerator={settings.accelerator} trainer.devices={settings.devices}: torch {torch.__version__} "
            f"sees {seen} such devices here; use trainer.devices=auto, trainer=cpu, or a torch built for your GPU"
        )


def trainer_settings(settings: TrainerConfig, run_dir: Path) -> dict[str, Any]:
    """Arguments of `L.Trainer` that training and prediction share. Loaders give each process its share."""
    return {
        "accelerator": settings.accelerator,
        "devices": settings.devices,
        "num_nodes": settings.nodes,
        "strategy": build_strategy(settings.strategy, settings.devices * settings.nodes),
        "precision": settings.precision,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "default_root_dir": run_dir,
    }


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


def compile_layers(backbone: Any, device: torch.device, backend: str = "inductor") -> None:
    """Compile every decoder layer in place, for lengths that vary.

    Raises ``ValueError`` at once where this machine cannot compile for ``device``, as without a compiler.
    """
    try:
        torch.compile(_probe, backend=backend, dynamic=True)(torch.ones(4, device=device))
    except Exception as error:  # which one depends on the backend and on what is missing
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"trainer.compile=true: cannot compile for {device} ({reason}); use false") from None
    for layer in backbone.layers:
        layer.compile(backend=backend, dynamic=True)


def _probe(values: torch.Tensor) -> torch.Tensor:
    return (values.sin() + 1).sum()


def liger_kernels(backbone: Any, device: torch.device) -> None:
    """RMSNorm, SwiGLU and rotary embedding by Liger's Triton kernels, in this model and in later ones of the process.

    Raises ``ValueError`` without a GPU, without the package, or for an architecture not in `LIGER`.
    """
    kind = backbone.config.model_type
    if device.type != "cuda":
        raise ValueError(f"trainer.liger=true: its kernels need a CUDA GPU, not {device.type}; use trainer.liger=false")
    if kind not in LIGER:
        raise ValueError(f"trainer.liger=true: no kernels for {kind}, only for {', '.join(LIGER)}; use false")
    try:
        from liger_kernel import transformers as liger
    except ImportError:
        raise ValueError("trainer.liger=true needs liger-kernel: pip install 'crm-leaderboard[liger]'") from None
    # There is no language-model head here, so no cross entropy; asking for it would replace the backbone's forward.
    settings = {"cross_entropy": False, "fused_linear_cross_entropy": False}
    getattr(liger, f"apply_liger_kernel_to_{kind}")(model=backbone, rope=True, rms_norm=True, swiglu=True, **settings)
