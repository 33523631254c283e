"""Run by an older transformers: folders of exported models in, their logits out as one line of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer


def logits(folder: Path) -> list[list[float]]:
    """Of the texts in ``texts.json`` beside the folder's files, as one padded batch; rows are flattened."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    auto = AutoModelForTokenClassification if "Token" in kind else AutoModelForSequenceClassification
    model = auto.from_pretrained(folder).eval()
    texts = [
        tokenizer.apply_chat_template(turns, tokenize=False)
        for turns in json.loads((folder / "turns.json").read_text())
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        return [row.flatten().tolist() for row in model(**inputs).logits]


if __name__ == "__main__":
    found = {name: logits(Path(name)) for name in sys.argv[1:]}
    print(json.dumps({"version": transformers.__version__, "logits": found}))
