"""Customizable reward models: read a user's criteria, a query and two responses; say which one that user prefers.

    from crm import load_bank, load_judge, train

- `load_judge`: a trained model, from a folder or a hub
- `load_bank`: responses of many LLMs, to be ranked
- `train`: train a model
- `Judge`: scores, compares and ranks; what `load_judge` returns
- `Run`: a training that has ended; what `train` returns
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crm.api import Judge, Run, load_bank, load_judge, train

__version__ = "0.1.0"
__all__ = ["Judge", "Run", "load_bank", "load_judge", "train"]


def __getattr__(name: str) -> Any:
    """Import `crm.api`, and torch with it, when one of its names is used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("crm.api"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
