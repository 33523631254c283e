"""Exported folders for older tools. In: a folder that transformers 5 wrote. Out: one that 4 reads too.

Others pin transformers (RewardBench 0.1.4 has 4.51.0). What 4.x does not know it refuses, or it falls back to a
default in silence: without a ``rope_theta`` of its own it takes 10,000, which gives a Qwen3 wrong scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def make_readable(folder: Path) -> None:
    """Say in ``config.json`` and ``tokenizer_config.json`` what 5.x says there in words that 4.x knows as well."""
    _rewrite(folder / "config.json", _with_rope_theta)
    _rewrite(folder / "tokenizer_config.json", _with_older_names)


def _rewrite(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    known = json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(change(known), indent=2, sort_keys=True, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _with_rope_theta(config: dict[str, Any]) -> dict[str, Any]:
    """``rope_parameters`` of 5.x is ``rope_theta`` and, where positions are scaled, ``rope_scaling`` of 4.x."""
    rope = dict(config.get("rope_parameters") or {})
    if "rope_theta" not in rope:
        return config
    theta = rope.pop("rope_theta")
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    return {**config, "rope_theta": theta, "rope_scaling": scaling}


def _with_older_names(tokenizer: dict[str, Any]) -> dict[str, Any]:
    """4.x reads special tokens under another name, has no class ``TokenizersBackend``, and adds token types unasked."""
    known = {name: value for name, value in tokenizer.items() if name not in ("backend", "extra_special_tokens")}
    if known.get("tokenizer_class") == "TokenizersBackend":
        known["tokenizer_class"] = "PreTrainedTokenizerFast"
    tokens = tokenizer.get("extra_special_tokens") or []
    known["additional_special_tokens"] = tokens if isinstance(tokens, list) else list(tokens.values())
    return {**known, "model_input_names": ["input_ids", "attention_mask"]}
