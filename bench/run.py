"""``python -m bench.run``: training and scoring on CPU against named peers, in process CPU time of one thread.

Parity is checked first. A ratio is peer time over our time for the same pairs or decisions. Take figures to be quoted
on an idle machine.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers
from bench.models import TOY, build_reward_model, stock_twin, twin_of_ours
from bench.pairs import VOTES_SPREAD, bench_tokenizer, synthetic_pairs, synthetic_queries
from bench.parity import check_parity
from bench.rounds import RESULTS, about, contest, origin, ratio, save, within
from bench.trl_peer import BATCH, trl_steps

RESPONSE = 150
"""Median tokens of a response; the spread of lengths is that of people's votes."""
OURS = ("without_pruning", "with_pruning")
LOSS_TOLERANCE, LOGIT_TOLERANCE = 1e-4, 1e-3
JOBS = {
    "pointwise": "training, pointwise",
    "trl": "training, pointwise, both with their own trainer",
    "pairwise": "training, pairwise",
    "m8": "scoring 8 candidates",
    "m20": "scoring 20 candidates",
    "m8_swapped": "scoring 8 candidates shown first",
}
PEERS = {
    "no_packing": "ours without packing: padded, a sequence a row, no prefix shared",
    "authors": "the authors' loop",
    "authors_no_checkpointing": "the authors' loop without checkpointing",
    "flash_pref_layout": "flash-preference's layout: prefix, chosen and rejected in a row",
    "trl_default": "TRL `RewardTrainer`, its defaults (with checkpointing)",
    "trl_batch_1": "the same in batches of 1",
    "arrival_b4": "batches of 4 in arrival order",
    "dynamic_cache": "`DynamicCache` prefix",
}


def main(words: Sequence[str] | None = None) -> int:
    """Check parity, run every contest, write the two files."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=16, help="of one training step")
    parser.add_argument("--queries", type=int, default=6, help="of one scoring pass")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    if given.pairs < 1 or given.pairs % BATCH:
        parser.error(f"--pairs {given.pairs}: expected a multiple of {BATCH}, TRL's batch")
    quieten()
    torch.set_num_threads(1)
    print(f"parity: {check_parity(quick=True)}", flush=True)
    started = time.perf_counter()
    measured = measure(given.rounds, given.pairs, given.queries, given.seed)
    measured["minutes"] = round((time.perf_counter() - started) / 60, 1)
    table = to_markdown(measured)
    save(given.out / "cpu.json", measured, table)
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
    ratios = {
        job: {peer: {name: ratio(seconds, peer=peer, ours=name) for name in OURS} for peer in PEERS if peer in seconds}
        for job, seconds in raw.items()
    }
    sizes = {"rounds": rounds, "pairs": pairs, "pairs_a_step_of_trl": BATCH, "queries": queries}
    return {
        "ratios": ratios,
        "seconds": raw,
        "clock": "process CPU seconds of one thread",
        "sizes": {**sizes, "response_tokens": RESPONSE, "log_sd_of_response_tokens": VOTES_SPREAD},
        "model": asdict(TOY),
        "precision": "float32",
        **origin(seed),
    }


def training(head: str, rounds: int, pairs: int, seed: int) -> dict[str, list[float]]:
    """One optimizer step: ours against the authors' loop, with and without checkpointing."""
    full = build_reward_model(TOY, head, seed, prunes=False)
    data = synthetic_pairs(head, pairs, RESPONSE, seed, VOTES_SPREAD)
    # The learning rate is 0: the arithmetic of a step is the same, and every round starts from the same weights.
    optimizer = AdamW(full.parameters(), lr=0.0)
    contestants = {
        "without_pruning": ours.train_step(full, optimizer, data),
        "with_pruning": ours.train_step(twin_of_ours(full, prunes=True), optimizer, data),
        "no_packing": ours.train_step(full, optimizer, data, layout=ours.PADDED),
        "authors": peers.one_by_one(stock_twin(full, checkpointing=True), optimizer, data),
        "authors_no_checkpointing": peers.one_by_one(stock_twin(full), optimizer, data),
    }
    if head == "scalar":
        contestants["flash_pref_layout"] = peers.one_by_one(stock_twin(full), optimizer, data, peers.in_a_row)
    return _shown(head, contest(contestants, rounds=rounds, check=within(LOSS_TOLERANCE)))


def trl(rounds: int, pairs: int, seed: int) -> dict[str, list[float]]:
    """Steps of 8 pairs: our Lightning loop against TRL's trainer, with its batch of 8 and with batches of 1."""
    full = build_reward_model(TOY, "scalar", seed, prunes=False)
    data, tokenizer = synthetic_pairs("scalar", pairs, RESPONSE, seed, VOTES_SPREAD), bench_tokenizer(seed)
    contestants = {
        "without_pruning": ours.lightning_steps(full, data, pairs_a_step=BATCH),
        "with_pruning": ours.lightning_steps(twin_of_ours(full, prunes=True), data, pairs_a_step=BATCH),
        "no_packing": ours.lightning_steps(full, data, pairs_a_step=BATCH, layout=ours.PADDED),
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
        "no_packing": ours.score_queries(full, data, layout=ours.PADDED),
        "arrival_b4": peers.batches(twin, data),
        "dynamic_cache": peers.cached_prefix(twin, data),
    }
    return _shown(f"score m={candidates}", contest(contestants, rounds=rounds, check=within(LOGIT_TOLERANCE)))


def _shown(name: str, seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    best = {contestant: f"{min(rounds):.2f}" for contestant, rounds in seconds.items()}
    print(f"{name}: seconds, best round: {best}", flush=True)
    return seconds


def to_markdown(measured: dict[str, Any]) -> str:
    """A line for each peer: median ratio and, in brackets, the least and the greatest of the rounds."""
    sizes = measured["sizes"]
    lines = [
        "# Speed on CPU",
        "",
        f"Peer time over our time for the same work: above 1 we are faster. Median of {sizes['rounds']} rounds in "
        "which all contestants alternate, least and greatest in brackets; "
        f"{measured['clock']}, {measured['precision']}.",
        f"{sizes['pairs']} pairs and {sizes['queries']} queries, responses of {sizes['response_tokens']} tokens in the "
        f"median (log-normal, {sizes['log_sd_of_response_tokens']}), a Qwen3 of "
        f"{measured['model']['layers']} layers and hidden size {measured['model']['hidden']}.",
        "",
        "| job | against | without pruning | last layer pruned |",
        "|---|---|---|---|",
    ]
    for job, found in measured["ratios"].items():
        for peer, entry in found.items():
            lines.append(f"| {JOBS[job]} | {PEERS[peer]} | {' | '.join(_cell(entry[name]) for name in OURS)} |")
    return "\n".join([*lines, "", about(measured), ""])


def _cell(entry: dict[str, Any]) -> str:
    return f"{entry['median']:.2f} ({min(entry['rounds']):.2f} to {max(entry['rounds']):.2f})"


if __name__ == "__main__":
    sys.exit(main())
