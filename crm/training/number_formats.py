"""Which number formats a device has instructions for. In: a device. Out: whether it computes bfloat16."""

from __future__ import annotations

import torch


def computes_bfloat16(device: torch.device) -> bool:
    """Whether there are instructions for it; on a CPU without them oneDNN, torch's library of kernels, has none."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
