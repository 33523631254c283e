"""The model card (``README.md``) of a model folder; it is for people, counts in no digest and may be edited."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from huggingface_hub import ModelCardData
from jinja2 import ChainableUndefined, Environment

from crm.io.files import replace_file
from crm.model.folders import is_hub_id
from crm.model.heads import HEADS, head_named

CARD = "README.md"
ROBUSTNESS_SECTION = "Robustness to adversarial text"
"""Heading of what attacks do to the model, which is measured after the export."""
CLASSES = {"late": "AutoModel", "pairwise_span": "AutoModelForTokenClassification"}
"""Of transformers, by head; the others are sequence classification."""
PIPELINES = {"late": "feature-extraction", "pairwise_span": "token-classification"}


def write_card(folder: Path, head: str, facts: Mapping[str, Any], digest: str = "") -> None:
    """Write ``README.md``; ``facts`` are those of the manifest, and what they lack is left out."""
    base = ((facts.get("config") or {}).get("model") or {}).get("path")
    hub_id = base if base and is_hub_id(base) else None
    kind = head_named(head)
    data = ModelCardData(
        base_model=hub_id,
        library_name="transformers",
        pipeline_tag=PIPELINES.get(head, "text-classification"),
        tags=["reward-model", "preference", "criteria"],
    )
    template = files("crm.model").joinpath("model_card.md.j2").read_text(encoding="utf-8")
    # Markdown and Python, no HTML: nothing is to be escaped.
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, undefined=ChainableUndefined)  # noqa: S701
    card = environment.from_string(template).render(
        card_data=data.to_yaml(),
        auto=CLASSES.get(head, "AutoModelForSequenceClassification") if head in HEADS else None,
        head=head,
        joint=kind.joint,
        instruction=kind.instruction,
        base_model=hub_id or (base and PurePath(base).name),  # a path of this machine is not published
        facts=facts,
        digest=digest,
    )
    replace_file(folder / CARD, card)


def write_section(folder: Path, title: str, text: str) -> None:
    """Put a section before the licence, in place of an earlier one. Raises ``ValueError`` for a foreign card."""
    path = folder / CARD
    card = path.read_text(encoding="utf-8") if path.is_file() else ""
    others = re.sub(rf"\n## {re.escape(title)}\n(.*?)(?=\n## |\Z)", "", card, flags=re.DOTALL)
    before, licence, after = others.rpartition("\n## Licence\n")
    if not licence:
        raise ValueError(f"{path}: missing, or not a card that was exported here; export the model again")
    replace_file(path, f"{before.rstrip()}\n\n## {title}\n\n{text.strip()}\n{licence}{after}")
