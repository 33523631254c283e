"""Values in the grammar of Hydra's command line, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_BEFORE_DOLLAR = re.compile(r"(\\*)\$\{")


def hydra_text(text: str) -> str:
    """A text in the quotes of Hydra's grammar, whatever is in it but ``${``."""
    escaped = re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + ("\\" if found[2] else "") + found[2], text)
    return f'"{escaped}"'


def escaped(text: str) -> str:
    """A text in which OmegaConf reads no interpolation: ``${`` as ``\\${``."""
    return _BEFORE_DOLLAR.sub(r"\1\1\\${", text)


def hydra_value(value: Any) -> str:
    """A setting's value: texts in quotes, a mapping as a list of ``key=value`` (see `crm.config.Settings`)."""
    if isinstance(value, Mapping):
        return hydra_value([f"{key}={item}" for key, item in value.items()])
    if isinstance(value, str | Path):
        return hydra_text(escaped(str(value)))
    if isinstance(value, Sequence):
        return f"[{','.join(map(hydra_value, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
