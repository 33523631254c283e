"""An exported scalar model in RewardBench's own pipeline: the scores that our judge gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crm.judges import open_checkpoint
from crm.model.export import export_model
from crm.model.heads import PROMPT_ORDERS
from crm.schema import Comparison, Message

SCRIPT = Path(__file__).with_name("score_with_rewardbench.py")
VENV = Path(__file__).parents[2] / ".venv"
INSTALLED = [VENV / "rewardbench", VENV / "transformers4"]
"""RewardBench 0.1.4 and the transformers that it pins, put there by `make test`."""

QUESTIONS = ["Why rain?", "Où est le café ?", "Count to three, please, and say why you stopped there."]
DIALOGUES: list[dict[str, Any]] = [
    *({"prompt": text, "chosen": "Clouds cool. " * (n + 1), "rejected": "No."} for n, text in enumerate(QUESTIONS)),
    *({"prompt": text, "chosen": "", "rejected": "🙂 " * (n + 2)} for n, text in enumerate(QUESTIONS)),
    {
        "prompt": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": "Explain heat"},
        ],
        "chosen": "Fast atoms.",
        "rejected": "Entropy, \n\nroughly speaking. ",
    },
]


def compared(row: dict[str, Any], number: int) -> Comparison:
    """The dialogue as our judge reads it, for no user in particular."""
    given = row["prompt"]
    prompt = (Message("user", given),) if isinstance(given, str) else tuple(Message(**turn) for turn in given)
    chosen, rejected = ((Message("assistant", row[side]),) for side in ("chosen", "rejected"))
    return Comparison(f"c{number}", f"p{number}", (), prompt, chosen, rejected, "a")


@pytest.mark.slow
@pytest.mark.skipif(not all(map(Path.is_dir, INSTALLED)), reason="RewardBench is not installed (make test installs it)")
@pytest.mark.parametrize("order", PROMPT_ORDERS)
def test_rewardbench_gives_our_scores(order: Any, make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    """Its padding is on the left, its batches hold several lengths, and the template adds the general criterion."""
    export_model(make_model("scalar", seed=4), tokenizer, tmp_path, {"max_length": 2048}, order)
    told = subprocess.run(
        [sys.executable, SCRIPT],
        input=json.dumps({"folder": str(tmp_path), "dialogues": DIALOGUES}),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, INSTALLED))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["versions"] == ["0.1.4", "4.51.0"]
    judge, _ = open_checkpoint(tmp_path, batch_size=4, precision="32-true")
    asked = [(compared(row, number), "ab") for number, row in enumerate(DIALOGUES)]
    ours = {one.comparison.id: (one.score_a, one.score_b) for part in judge.read(asked) for one in part}
    assert len({score for pair in ours.values() for score in pair}) > len(DIALOGUES)
    for number, pair in enumerate(found["scores"]):
        assert pair == pytest.approx(ours[f"c{number}"], abs=1e-4)
