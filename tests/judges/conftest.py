"""Tiny models of a hub as folders; a judge that reads everything."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
)
"""A template that trims, as many do, and ends in a line break."""


@pytest.fixture(scope="session")
def make_hub_model(tokenizer: Any) -> Callable[..., Path]:
    """``make_hub_model(folder, labels=1, template=CHATML, **of the configuration)``: a random Qwen3 classifier."""
    import torch
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    def make(folder: Path, labels: int = 1, template: str | None = CHATML, **changes: Any) -> Path:
        ends = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
        config = Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            intermediate_size=32,
            max_position_embeddings=4096,
            **{"initializer_range": 0.3, **ends, **changes},
        )
        config.num_labels = labels
        torch.manual_seed(1)
        Qwen3ForSequenceClassification(config).save_pretrained(folder)
        save_tokenizer(tokenizer, folder, template)
        return folder

    return make


def save_tokenizer(tokenizer: Any, folder: Path, template: str | None) -> None:
    kept, tokenizer.chat_template = tokenizer.chat_template, template
    tokenizer.save_pretrained(folder)
    tokenizer.chat_template = kept


@pytest.fixture(scope="session")
def read_all() -> Callable[..., dict[tuple[str, str], Any]]:
    """Readings of a judge by (comparison id, order), both orders asked."""

    def read(judge: Any, rows: Any) -> dict[tuple[str, str], Any]:
        asked = [(row, order) for row in rows for order in ("ab", "ba")]
        readings = [reading for portion in judge.read(asked) for reading in portion]
        found = {(reading.comparison.id, reading.order): reading for reading in readings}
        assert len(found) == len(readings)
        return found

    return read
