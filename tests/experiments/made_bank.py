"""Banks of made-up responses, as ``data=tastes`` reads them."""

from __future__ import annotations

import json
import random
from pathlib import Path

SENTENCES = ("Is it late?", "How lovely!", "- a thing", "I saw it.", "You may sleep.", "There are 12.", "We do, so.")


def write_bank(root: Path) -> str:
    """Ten LLMs that say some of a few sentences; always the same."""
    rng = random.Random(1)
    queries = ["".join(rng.choices("abcdefgh ", k=60)).strip() + "?" for _ in range(60)]
    for llm in range(10):
        rows = [
            {"instruction": text, "output": "\n".join(rng.choices(SENTENCES, k=rng.randint(1, 9)))} for text in queries
        ]
        for name in ("bank_alpacaeval", "bank_justeval/outputs"):
            (root / name).mkdir(parents=True, exist_ok=True)
            (root / name / f"llm{llm}.to_eval.json").write_text(json.dumps(rows), encoding="utf-8")
    return str(root)
