"""Texts in the grammar of Hydra's command line, whatever is in them."""

from __future__ import annotations

import re

_BEFORE_DOLLAR = re.compile(r"(\\*)\$\{")


def hydra_text(text: str) -> str:
    """A text in the quotes of Hydra's grammar, whatever is in it but ``${``."""
    escaped = re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + ("\\" if found[2] else "") + found[2], text)
    return f'"{escaped}"'


def escaped(text: str) -> str:
    """A text in which OmegaConf reads no interpolation: ``${`` as ``\\${``."""
    return _BEFORE_DOLLAR.sub(r"\1\1\\${", text)
