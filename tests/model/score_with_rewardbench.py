"""Run by RewardBench 0.1.4 in the transformers that it pins: a folder and dialogues in, its scores out as JSON.

The steps are those of its command line for a model that it does not know by name, on a CPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

NOT_NEEDED = ("fastchat", "fastchat.conversation", "datasets", "trl")
"""Chat templates of models without one, data of hubs, and models that are known by name."""


def scores(folder: Path, dialogues: list[dict[str, Any]], batch_size: int) -> list[list[float]]:
    """Of the chosen and the rejected response of every dialogue."""
    import torch
    import transformers

    sys.modules.update({name: MagicMock() for name in NOT_NEEDED})
    transformers.LlamaTokenizer = MagicMock()  # named for one of those models, and wants sentencepiece
    import rewardbench

    transformers.BatchEncoding.to = lambda inputs, _: inputs  # its pipeline asks for a GPU by name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.padding_side = "left"
    config = rewardbench.REWARD_MODEL_CONFIG["default"]
    model = config["model_builder"](folder, torch_dtype=torch.float32)
    pipeline = config["pipeline_builder"]("text-classification", model=model, tokenizer=tokenizer)
    assert rewardbench.check_tokenizer_chat_template(tokenizer)
    texts = [rewardbench.prepare_dialogue_from_tokenizer(dict(row), tokenizer) for row in dialogues]
    found: list[list[float]] = []
    for start in range(0, len(texts), batch_size):
        batch = texts[start : start + batch_size]
        pair = [
            pipeline([row[f"text_{side}"] for row in batch], batch_size=batch_size, truncation=False, padding=True)
            for side in ("chosen", "rejected")
        ]
        found += torch.cat(pair, dim=1).tolist()
    return found


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    found = scores(Path(given["folder"]), given["dialogues"], batch_size=4)
    versions = [sys.modules[name].__version__ for name in ("rewardbench", "transformers")]
    print(json.dumps({"versions": versions, "scores": found}))
