"""``python -m bench.growth``: what longer responses, more models and more comparisons cost. Out: JSON and a picture.

Tokens are those that a pass computes; seconds are process CPU seconds of one thread, the median of a few rounds in
which all contestants alternate. Start-up (from raw records to the first optimizer step) is run in a process of its own
for every number of comparisons, so that its peak memory is its own; its seconds are those of a clock on the wall.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers, scoring_peers
from bench.growth_plots import draw_growth
from bench.machine import versions
from bench.models import TOY, build_reward_model, stock_twin
from bench.pairs import synthetic_pairs, synthetic_queries
from bench.rounds import contest, within
from bench.run import LOGIT_TOLERANCE, LOSS_TOLERANCE, RESULTS, quieten
from bench.startup import measure_startup
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.schema import Preference, to_json
from crm.votes.simulation.arena import simulate

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LENGTHS = (150, 400, 1000)
MODELS = (2, 8, 20, 50)
COMPARISONS = (1_000, 10_000, 100_000)
PAIRS = 4
"""Of one training step in the sweep over lengths."""
AT_ONCE = 34_000
LENGTH_OF_MODELS = 150
"""Tokens of a response in the sweep over models."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the three sweeps; write ``growth.json`` and draw it."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--models", type=int, nargs="+", default=MODELS)
    parser.add_argument("--comparisons", type=int, nargs="+", default=COMPARISONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--images", type=Path, default=IMAGES)
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    found = {
        "lengths": [by_length(length, given.rounds, given.seed) for length in given.lengths],
        "models": [by_models(count, given.rounds, given.seed) for count in given.models],
        "comparisons": by_comparisons(given.comparisons),
        "sizes": {"rounds": given.rounds, "pairs": PAIRS, "response_tokens_of_models": LENGTH_OF_MODELS},
        "seeds": [given.seed],
        "versions": versions(),
        "commit": commit(),
    }
    replace_file(given.out / "growth.json", json.dumps(found, indent=1) + "\n")
    draw_growth(given.images / "growth.png", found)
    return 0


def by_length(length: int, rounds: int, seed: int) -> dict[str, Any]:
    """A pointwise training step on responses of about ``length`` tokens: tokens and seconds a pair."""
    model = build_reward_model(TOY, "scalar", seed)
    pairs = synthetic_pairs("scalar", PAIRS, length, seed)
    optimizer = AdamW(model.parameters(), lr=0.0)
    contestants = {
        "ours": ours.train_step(model, optimizer, pairs),
        "authors": peers.authors_step(stock_twin(model), optimizer, pairs),
        "authors_no_checkpointing": peers.authors_step(stock_twin(model), optimizer, pairs, checkpointing=False),
    }
    seconds = contest(contestants, rounds=rounds, check=within(LOSS_TOLERANCE))
    separate = sum(sum(pair.lengths) for pair in pairs)
    tokens = {"ours": ours.tokens_computed(pairs)}
    tokens |= {"authors": separate, "authors_no_checkpointing": separate}
    return {"length": length, **_each(seconds, tokens, len(pairs))}


def by_models(models: int, rounds: int, seed: int) -> dict[str, Any]:
    """Scoring one query's candidates, ``models`` with the baseline: tokens and seconds a query."""
    model = build_reward_model(TOY, "pairwise", seed)
    queries = synthetic_queries("pairwise", 2, models - 1, LENGTH_OF_MODELS, seed)
    twin = stock_twin(model)
    contestants = {
        "ours": ours.score_queries(model, queries),
        "dynamic_cache": scoring_peers.cached_prefix(twin, queries),
        "arrival_b4": scoring_peers.arrival_order(twin, queries),
    }
    seconds = contest(contestants, rounds=rounds, check=within(LOGIT_TOLERANCE))
    tokens = {
        "ours": ours.tokens_computed([row for query in queries for row in query]),
        "dynamic_cache": scoring_peers.cached_tokens(queries),
        "arrival_b4": scoring_peers.arrival_tokens(queries),
    }
    return {"models": models, **_each(seconds, tokens, len(queries))}


def _each(seconds: dict[str, list[float]], tokens: dict[str, int], parts: int) -> dict[str, Any]:
    return {
        "tokens": {name: count / parts for name, count in tokens.items()},
        "seconds": {name: statistics.median(rounds) / parts for name, rounds in seconds.items()},
        "rounds": seconds,
    }


def by_comparisons(counts: Sequence[int]) -> list[dict[str, Any]]:
    """From raw records to the first optimizer step: seconds and peak megabytes, a process a count."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            path = Path(name) / f"{count}.jsonl"
            with path.open("w", encoding="utf-8") as file:
                file.writelines(to_json(vote) + "\n" for vote in _votes(count))
            found.append({"comparisons": count, **measure_startup(path)})
            path.unlink()
    return found


def _votes(count: int) -> Iterator[Preference]:
    """Simulated votes; one simulation has different prompts for `AT_ONCE` of them."""
    for seed, start in enumerate(range(0, count, AT_ONCE)):
        yield from simulate(seed=seed, train=min(AT_ONCE, count - start), validation=0, suite=0).train


if __name__ == "__main__":
    sys.exit(main())
