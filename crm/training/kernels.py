"""Gradient checkpointing, compiled layers and Liger's kernels; none of them changes a weight or its name."""

from __future__ import annotations

from typing import Any

import torch

LIGER = ("qwen3", "llama")
"""Architectures that Liger has kernels for and that `liger_kernels` supports."""


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
