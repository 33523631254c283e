"""Optional packages. In: the name of a module and of the extra that brings it. Out: the module, or what to install."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import ``module``; raises ``ValueError`` with the command to run where its package is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{module}: cannot be imported ({error}); run `pip install 'crm-leaderboard[{extra}]'`"
        ) from None
