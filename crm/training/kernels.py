"""Faster layers by settings. In: a backbone. Out: the same backbone, its layers compiled or on Liger's kernels.

Neither changes a weight, its name, or what is exported; after the ``with`` the layers are plain again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

PIECES = {
    "qwen3": (modeling_qwen3, ("Qwen3RMSNorm", "Qwen3MLP", "apply_rotary_pos_emb")),
    "llama": (modeling_llama, ("LlamaRMSNorm", "LlamaMLP", "apply_rotary_pos_emb")),
}
"""Of every architecture with kernels here: the module of transformers, and the names that Liger replaces in it."""

BOUND = ("forward", "extra_repr", "_get_name")
"""The methods that Liger binds to single modules."""


def enable_checkpointing(backbone: Any) -> None:
    """Recompute each layer's activations in the backward pass instead of keeping them."""
    # 2026-11: the first name is new in transformers 5.2x, where the second one warns.
    enable = getattr(backbone, "activation_checkpointing_enable", None) or backbone.gradient_checkpointing_enable
    enable({"use_reentrant": False})
    # transformers also makes the embedding's output need a gradient, which only reentrant checkpointing needs: it
    # would be carried down through all frozen layers for nothing.
    backbone.disable_input_require_grads()


@contextmanager
def compiled_layers(backbone: Any, device: torch.device, backend: str = "inductor") -> Iterator[None]:
    """Every decoder layer compiled in place inside the ``with``, for lengths that vary; weights keep their names.

    Raises ``ValueError`` at once where this machine cannot compile for ``device`` (a compiler is missing, say).
    """
    try:
        torch.compile(_probe, backend=backend, dynamic=True)(torch.ones(4, device=device))
    except Exception as error:  # what it is depends on the backend and on what is missing
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"trainer.compile=true: cannot compile for {device} ({reason}); use false") from None
    try:
        for layer in backbone.layers:
            layer.compile(backend=backend, dynamic=True)
        yield
    finally:
        for layer in backbone.layers:
            layer._compiled_call_impl = None


def _probe(values: torch.Tensor) -> torch.Tensor:
    return (values.sin() + 1).sum()


@contextmanager
def liger_kernels(backbone: Any, device: torch.device) -> Iterator[None]:
    """RMSNorm, SwiGLU and rotary embedding by Liger's Triton kernels inside the ``with``; all as before afterwards.

    Liger also replaces names in transformers' modules, where later models would find them; those are put back too.
    Raises ``ValueError`` without a GPU, without the package, or for an architecture not in `PIECES`.
    """
    kind = backbone.config.model_type
    if device.type != "cuda":
        raise ValueError(f"trainer.liger=true: its kernels need a CUDA GPU, not {device.type}; use trainer.liger=false")
    if kind not in PIECES:
        raise ValueError(f"trainer.liger=true: no kernels for {kind}, only for {', '.join(PIECES)}; use false")
    try:
        from liger_kernel import transformers as liger
    except ImportError:
        raise ValueError("trainer.liger=true needs liger-kernel: pip install 'crm-leaderboard[liger]'") from None
    module, names = PIECES[kind]
    before = {name: getattr(module, name) for name in names}
    own = {(part, name) for part in backbone.modules() for name in BOUND if name in vars(part)}
    apply = getattr(liger, f"apply_liger_kernel_to_{kind}")
    # There is no language-model head here, so no cross entropy; asking for it would replace the backbone's forward.
    settings = {"cross_entropy": False, "fused_linear_cross_entropy": False}
    try:
        apply(model=backbone, rope=True, rms_norm=True, swiglu=True, **settings)
        yield
    finally:
        for name, piece in before.items():
            setattr(module, name, piece)
        for part, name in ((part, name) for part in backbone.modules() for name in BOUND if name in vars(part)):
            if (part, name) not in own:
                delattr(part, name)
