"""Where and how a model reads. In: a model and a precision. Out: the model in its place, and a context to read in."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

AnyModel = TypeVar("AnyModel", bound=nn.Module)


def placed(model: AnyModel, precision: str) -> tuple[AnyModel, torch.autocast]:
    """The model on a GPU where there is one, out of training mode; autocast to bfloat16 for ``bf16-mixed``."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return model.to(device).eval(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")
