"""``python -m bench.documents``: many responses to a prompt, many criteria a response. Out: ``results/documents.json``.

A document with 16 responses of which every pair is compared under 4 criteria, as in SummEval; criteria last, scalar
head. All its comparisons as one tree, against the same comparisons one after the other: a tree of 8, a padded batch of
8, and one pair at a time in the style of the paper's authors. The separate ones read a sample; time is a comparison's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers
from bench.machine import versions
from bench.models import TOY, build_reward_model, stock_twin
from bench.rounds import Answer, Contestant, Stopwatch, contest
from bench.run import RESULTS, quieten
from crm.io.draws import generator
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.model.encoding import EncodedComparison, Segment
from crm.model.reward_model import RewardModel, preference_loss
from crm.schema import Comparison, Message

RESPONSES, CRITERIA = 16, 4
DOCUMENT_TOKENS, RESPONSE_TOKENS, CRITERIA_TOKENS = 400, 70, 22
TEXT = (Message("user", "?"),)


def main(words: Sequence[str] | None = None) -> int:
    """Time every way and write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.documents", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sample", type=int, default=16, help="comparisons that the separate ways read")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    found = measure(given.rounds, given.sample, given.seed)
    replace_file(given.out / "documents.json", json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: round(rate, 2) for name, rate in found["comparisons_a_second"].items()}))
    return 0


def measure(rounds: int, sample: int, seed: int) -> dict[str, Any]:
    """Comparisons a CPU second by way, and the seconds of every round that they are from."""
    model = build_reward_model(TOY, "scalar", seed)
    optimizer = AdamW(model.parameters(), lr=0.0)
    rows = document(seed)
    some = generator(seed, 0, "documents", "sample").sample(rows, sample)
    contestants: dict[str, Contestant] = {
        "one_tree": ours.train_step(model, optimizer, rows),
        "trees_of_8": _in_eights(model, optimizer, some, "tree"),
        "padded_8": _in_eights(model, optimizer, some, "padded"),
        "authors": peers.authors_step(stock_twin(model), optimizer, some),
    }
    seconds = contest(contestants, rounds=rounds, check=lambda *_: None)
    counts = {name: len(rows) if name == "one_tree" else sample for name in contestants}
    return {
        "comparisons_a_second": {name: counts[name] / statistics.median(taken) for name, taken in seconds.items()},
        "comparisons": counts,
        "seconds": seconds,
        "clock": "process CPU seconds of one thread",
        "sizes": {"responses": RESPONSES, "criteria": CRITERIA, "document_tokens": DOCUMENT_TOKENS,
                  "response_tokens": RESPONSE_TOKENS, "criteria_tokens": CRITERIA_TOKENS},
        "seeds": [seed],
        "versions": versions(),
        "commit": commit(),
    }  # fmt: skip


def document(seed: int) -> list[EncodedComparison]:
    """Every pair of responses under every criterion, document first and criterion last."""
    draw = generator(seed, 0, "documents", "tokens")

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(4, TOY.vocabulary - 1) for _ in range(count))

    query = Segment("query", ids(DOCUMENT_TOKENS))
    responses = [Segment("response_a", ids(RESPONSE_TOKENS)) for _ in range(RESPONSES)]
    criteria = [Segment("criteria", ids(CRITERIA_TOKENS)) for _ in range(CRITERIA)]
    last = DOCUMENT_TOKENS + RESPONSE_TOKENS + CRITERIA_TOKENS - 1
    return [
        EncodedComparison(
            Comparison(f"{index}", f"{index}", (), TEXT, TEXT, TEXT, "tie"), "ab",
            ((query, first, criterion), (query, second, criterion)), ((0, last), (1, last)), 1.0,
        )
        for index, ((first, second), criterion) in enumerate(product(combinations(responses, 2), criteria))
    ]  # fmt: skip


def _in_eights(model: RewardModel, optimizer: Any, rows: Sequence[EncodedComparison], mode: ours.Mode) -> Contestant:
    def run(stopwatch: Stopwatch) -> Answer:
        with stopwatch:
            for start in range(0, len(rows), 8):
                batch = ours.batch_of(rows[start : start + 8], mode)
                loss = preference_loss(model(batch).preference_logit, batch.target).mean()
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        return []

    return run


if __name__ == "__main__":
    sys.exit(main())
