"""``python -m bench.run``: training and scoring on CPU against named peers, in process CPU time of one thread.

Parity is checked first. A ratio is peer time over our time for the same pairs or decisions. Take figures to be quoted
on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers
from bench.models import TOY, build_reward_model, stock_twin, twin_of_ours
from bench.pairs import VOTES_SPREAD, bench_tokenizer, synthetic_pairs, synthetic_queries
from bench.parity import check_parity
from bench.rounds import about, contest, ratio, versions, within
from bench.trl_peer import BATCH, trl_steps
from crm.io.files import replace_file
from crm.io.installed import commit

RESULTS = Path(__file__).parent / "results"
RESPONSE = 150
"""Median tokens of a response; the spread of lengths is that of people's votes."""
OURS = ("without_pruning", "with_pruning")
LOSS_TOLERANCE, LOGIT_TOLERANCE = 1e-4, 1e-3
ROWS = (
    ("train", "vs_authors", "pointwise, the authors' loop", "pointwise", "authors"),
    ("train", "vs_authors_no_checkpointing", "pointwise, the authors' loop without checkpointing", "pointwise",
     "authors_no_checkpointing"),
    ("train", "vs_trl_default", "pointwise, TRL `RewardTrainer`, its defaults", "trl", "trl_default"),
    ("train", "pairwise_vs_authors", "pairwise, the authors' loop", "pairwise", "authors"),
    ("score", "m8_vs_arrival_b4", "8 candidates, batches of 4 in arrival order", "m8", "arrival_b4"),
    ("score", "m8_vs_dynamic_cache", "8 candidates, `DynamicCache` prefix", "m8", "dynamic_cache"),
    ("score", "m20_vs_arrival_b4", "20 candidates, batches of 4 in arrival order", "m20", "arrival_b4"),
    ("score", "m8_swapped_vs_arrival_b4", "8 candidates shown first, batches of 4 in arrival order", "m8_swapped",
     "arrival_b4"),
    ("further", "train_vs_trl_batch_1", "pointwise, TRL `RewardTrainer`, batches of 1", "trl", "trl_batch_1"),
    ("further", "pairwise_vs_authors_no_checkpointing", "pairwise, the authors' loop without checkpointing", "pairwise",
     "authors_no_checkpointing"),
    ("further", "score_m8_vs_sorted_b4", "8 candidates, batches of 4 sorted by length", "m8", "sorted_b4"),
    ("further", "score_m20_vs_dynamic_cache", "20 candidates, `DynamicCache` prefix", "m20", "dynamic_cache"),
    ("further", "score_m8_swapped_vs_dynamic_cache", "8 candidates shown first, `DynamicCache` prefix", "m8_swapped",
     "dynamic_cache"),
)  # fmt: skip
"""Part of the results, name, title, contest and peer."""
TITLES = {name: title for _, name, title, _, _ in ROWS}
PARTS = {"train": "Training", "score": "Scoring", "further": "Further peers"}


def main(words: Sequence[str] | None = None) -> int:
    """Check parity, run every contest, write the two files."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=16, help="of one training step")
    parser.add_argument("--queries", type=int, default=6, help="of one scoring pass")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    print(f"parity: {check_parity(quick=True)}", flush=True)
    started = time.perf_counter()
    measured = measure(given.rounds, given.pairs, given.queries, given.seed)
    measured["minutes"] = round((time.perf_counter() - started) / 60, 1)
    replace_file(given.out / "cpu.json", json.dumps(measured, indent=1) + "\n")
    table = to_markdown(measured)
    replace_file(given.out / "cpu.md", table)
    print(table)
    return 0


def quieten() -> None:
    """Keep what trainers say about devices and workers out of the output."""
    for name in ("lightning", "lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(lightning|torch|trl|transformers).*")


def measure(rounds: int, pairs: int, queries: int, seed: int) -> dict[str, Any]:
    """All contests: ratios by name, beside everything needed to take them again."""
    raw = {
        "pointwise": training("scalar", rounds, pairs, seed),
        "trl": trl(rounds, pairs, seed),
        "pairwise": training("pairwise", rounds, pairs, seed),
        "m8": scoring(rounds, queries, 8, seed),
        "m20": scoring(rounds, max(1, queries // 2), 20, seed),
        "m8_swapped": scoring(rounds, queries, 8, seed, swapped=True),
    }
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for part, name, _, contested, peer in ROWS:
        parts[part][name] = both(raw[contested], peer)
    return {
        **parts,
        "seconds": raw,
        "clock": "process CPU seconds of one thread",
        "sizes": {"rounds": rounds, "response_tokens": RESPONSE, "log_sd_of_response_tokens": VOTES_SPREAD,
                  "pairs": pairs, "queries": queries, "pairs_a_step_of_trl": BATCH,
                  "model": {name: getattr(TOY, name) for name in TOY.__dataclass_fields__}},
        "seeds": [seed],
        "precision": "float32",
        "versions": versions(),
        "commit": commit(),
    }  # fmt: skip


def both(seconds: dict[str, list[float]], peer: str) -> dict[str, Any]:
    """The ratio to one peer without and with the last layer pruned."""
    return {name: ratio(seconds, peer=peer, ours=name) for name in OURS}


def training(head: str, rounds: int, pairs: int, seed: int) -> dict[str, list[float]]:
    """One optimizer step: ours against the authors' loop, with and without checkpointing."""
    full = build_reward_model(TOY, head, seed, prunes=False)
    data = synthetic_pairs(head, pairs, RESPONSE, seed, VOTES_SPREAD)
    # The learning rate is 0: the arithmetic of a step is the same, and every round starts from the same weights.
    optimizer = AdamW(full.parameters(), lr=0.0)
    contestants = {
        "without_pruning": ours.train_step(full, optimizer, data),
        "with_pruning": ours.train_step(twin_of_ours(full, prunes=True), optimizer, data),
        "authors": peers.authors_step(stock_twin(full), optimizer, data),
        "authors_no_checkpointing": peers.authors_step(stock_twin(full), optimizer, data, checkpointing=False),
    }
    return _shown(head, contest(contestants, rounds=rounds, check=within(LOSS_TOLERANCE)))


def trl(rounds: int, pairs: int, seed: int) -> dict[str, list[float]]:
    """Steps of 8 pairs: our Lightning loop against TRL's trainer, with its batch of 8 and with batches of 1."""
    full = build_reward_model(TOY, "scalar", seed, prunes=False)
    data, tokenizer = synthetic_pairs("scalar", pairs, RESPONSE, seed, VOTES_SPREAD), bench_tokenizer(seed)
    contestants = {
        "without_pruning": ours.lightning_steps(full, data, pairs_a_step=BATCH),
        "with_pruning": ours.lightning_steps(twin_of_ours(full, prunes=True), data, pairs_a_step=BATCH),
        "trl_default": trl_steps(stock_twin(full), tokenizer, data),
        "trl_batch_1": trl_steps(stock_twin(full), tokenizer, data, batch=1),
    }
    return _shown("trl", contest(contestants, rounds=rounds, check=within(LOSS_TOLERANCE)))


def scoring(rounds: int, queries: int, candidates: int, seed: int, *, swapped: bool = False) -> dict[str, list[float]]:
    """One pass over leaderboard queries with the pairwise head; all peers have to give our logits."""
    full = build_reward_model(TOY, "pairwise", seed, prunes=False)
    data = synthetic_queries("pairwise", queries, candidates, RESPONSE, seed, spread=VOTES_SPREAD, swapped=swapped)
    twin = stock_twin(full)
    contestants = {
        "without_pruning": ours.score_queries(full, data),
        "with_pruning": ours.score_queries(twin_of_ours(full, prunes=True), data),
        "arrival_b4": peers.batches(twin, data, "arrival"),
        "sorted_b4": peers.batches(twin, data, "length"),
        "dynamic_cache": peers.cached_prefix(twin, data),
    }
    return _shown(f"score m={candidates}", contest(contestants, rounds=rounds, check=within(LOGIT_TOLERANCE)))


def _shown(name: str, seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    best = {contestant: f"{min(rounds):.2f}" for contestant, rounds in seconds.items()}
    print(f"{name}: seconds, best round: {best}", flush=True)
    return seconds


def to_markdown(measured: dict[str, Any]) -> str:
    """One table a part: median ratio and, in brackets, the least and the greatest of the rounds."""
    sizes = measured["sizes"]
    lines = [
        "# Speed on CPU",
        "",
        f"Peer time over our time for the same work: above 1 we are faster. Median of {sizes['rounds']} rounds in "
        "which all contestants alternate, least and greatest in brackets; "
        f"{measured['clock']}, {measured['precision']}.",
        f"{sizes['pairs']} pairs and {sizes['queries']} queries, responses of {sizes['response_tokens']} tokens in the "
        f"median (log-normal, {sizes['log_sd_of_response_tokens']}), a Qwen3 of "
        f"{sizes['model']['layers']} layers and hidden size {sizes['model']['hidden']}.",
    ]
    for part, title in PARTS.items():
        lines += ["", f"| {title} against | without pruning | last layer pruned |", "|---|---|---|"]
        for name, entry in measured[part].items():
            lines.append(f"| {TITLES[name]} | {_cell(entry['without_pruning'])} | {_cell(entry['with_pruning'])} |")
    return "\n".join([*lines, "", about(measured), ""])


def _cell(entry: dict[str, Any]) -> str:
    return f"{entry['median']:.2f} ({min(entry['rounds']):.2f} to {max(entry['rounds']):.2f})"


if __name__ == "__main__":
    sys.exit(main())
