"""``python -m bench.users``: what a further user's leaderboard costs. Out: ``results/users.json`` and ``users.md``.

A model with the criteria last ranks the simulated bank for several users: read whole for each, and with what precedes
the criteria kept. A user's time is that of `score_bank`, prediction files included; for the first user also that of
reading and keeping. Before anything is timed, both ways have to give the same numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.machine import versions
from bench.models import Size, build_reward_model
from bench.pairs import LONGEST, bench_tokenizer
from bench.run import RESULTS, quieten
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges import CrmJudge, open_checkpoint
from crm.leaderboard import CachedJudge, Leaderboard, compare
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank.simulated import simulate_bank
from crm.leaderboard.scoring import bank_comparisons, score_bank
from crm.model.batching.packs import Packing
from crm.model.encoding import Encoder
from crm.model.heads import LINEAR_HEADS
from crm.schema import Match
from crm.votes.simulation.axes import AXES
from crm.votes.simulation.taste import wordings

DEMO = Size(hidden=128, layers=2, heads=4, key_value_heads=4, head_dim=32, intermediate=384)
"""The size of `make demo`."""
TOLERANCE = 1e-4
"""Of float32 logits."""
PACKING = Packing("tree", 4096)
IN_ONE_GO = 10
"""Users of the pass that keeps nothing."""
LARGE_BANK = {"models": 30, "queries": 804, "tokens": 360}
"""Tokens of a query and a response together."""
Seconds = dict[str, float]
"""``wall`` and ``cpu``."""
SHAPES = {"SmolLM2-135M": (30, 3, 64), "Qwen3-4B": (36, 8, 128)}
"""Layers, key heads, size of a head."""


@dataclass(frozen=True)
class Contest:
    """One model on one bank."""

    judge: CrmJudge
    bank: Bank

    def keep(self, **settings: Any) -> CachedJudge:
        """A judge of the same model that keeps the bank's conversations."""
        rows = bank_comparisons(self.bank, (), self.bank.baseline)
        return CachedJudge(self.judge.model, self.judge.encoder, rows, batch_size=self.judge.batch_size, **settings)

    def rank(self, judge: CrmJudge, criteria: Sequence[str]) -> list[Match]:
        """One user's matches; their predictions are written and forgotten."""
        with tempfile.TemporaryDirectory() as folder:
            return score_bank(
                judge,
                self.bank,
                criteria,
                baseline=self.bank.baseline,
                folder=Path(folder),
                progress=False,
            )[0]


def main(words: Sequence[str] | None = None) -> int:
    """Check agreement, take the times, write the two files."""
    parser = argparse.ArgumentParser(prog="python -m bench.users", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, nargs="+", default=(1, 10, 100))
    parser.add_argument("--queries", type=int, default=20, help="of each of the bank's twelve topics")
    parser.add_argument("--head", choices=LINEAR_HEADS, default="scalar")
    parser.add_argument("--checkpoint", type=Path, help="trained with prompt=criteria_last; default: random weights")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    contest = Contest(_judge(given), simulate_bank(seed=given.seed, queries_per_topic=given.queries).bank)
    found = measure(contest, sorted(given.users), given.rounds, given.seed)
    found |= {"head": contest.judge.model.head, "trained": given.checkpoint is not None, "seeds": [given.seed]}
    found |= {"versions": versions(), "commit": commit()}
    replace_file(given.out / "users.json", json.dumps(found, indent=1) + "\n")
    table = to_markdown(found)
    replace_file(given.out / "users.md", table)
    print(table)
    return 0


def _judge(given: argparse.Namespace) -> CrmJudge:
    if given.checkpoint:
        return open_checkpoint(given.checkpoint, batch_size=64, precision="32-true", packing=PACKING)[0]
    encoder = Encoder(bench_tokenizer(given.seed), given.head, LONGEST, "criteria_last")
    model = build_reward_model(DEMO, given.head, given.seed)
    return CrmJudge(model, encoder, batch_size=64, packing=PACKING)


def measure(contest: Contest, counts: Sequence[int], rounds: int, seed: int) -> dict[str, Any]:
    """Agreement, seconds a user, and seconds of ``counts`` users."""
    users = tastes(max(*counts, 2 * rounds + IN_ONE_GO))
    agreement = {name: agree(contest, dtype, users[0], seed) for name, dtype in _dtypes().items()}
    if not agreement["float32"]["largest_difference"] <= TOLERANCE:
        raise ValueError(f"kept states change the logits by {agreement['float32']['largest_difference']:.2g}")
    pairs = [(users[2 * turn], users[2 * turn + 1]) for turn in range(rounds)]
    taken = [one_round(contest, *pair) for pair in pairs]
    seconds = {name: [row[name] for row in taken] for name in taken[0]}
    one_go = clock(lambda: contest.keep().score_many(users[:IN_ONE_GO]))
    whole = {unit: statistics.median(row[unit] for row in seconds["whole"]) for unit in ("wall", "cpu")}
    return {
        "ratio": {name: _ratios(seconds, name) for name in ("first", "further", "from_files")},
        "users": [
            {"users": count, "whole": {unit: count * value for unit, value in whole.items()}, "kept": spent}
            for count, spent in zip(counts, in_turn(contest, users, counts), strict=True)
        ],
        "in_one_go": {"users": IN_ONE_GO, **one_go},
        "seconds": seconds,
        "agreement": agreement,
        "gigabytes_by_arithmetic": arithmetic(),
        "sizes": {"models": len(contest.bank.authors), "queries": len(contest.bank.queries), "rounds": rounds},
    }


def one_round(contest: Contest, one: Sequence[str], other: Sequence[str]) -> dict[str, Seconds]:
    """A bank read whole for a user; read and kept for that user; the same for the other, from memory and from files."""
    kept: list[CachedJudge] = []

    def keep() -> CachedJudge:
        kept.append(contest.keep(memory_gb=1e3))
        return kept[0]

    found = {
        "whole": clock(contest.rank, contest.judge, one),
        "first": clock(lambda: contest.rank(keep(), one)),
        "further": clock(lambda: contest.rank(kept[0], other)),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = {"disk_gb": 1e3, "folder": Path(folder), "model_digest": "bench"}
        contest.rank(contest.keep(**files), one)
        return found | {"from_files": clock(lambda: contest.rank(contest.keep(**files), other))}


def tastes(count: int) -> list[tuple[str, ...]]:
    """``count`` users with one, two or three criteria each, all different: wordings of the simulation in turn."""
    known = [text for axis in AXES for sign in (1, -1) for text in wordings(axis.name, sign, "train")]
    step = len(known) // 3 + 1
    return [tuple(known[(user + part * step) % len(known)] for part in range(1 + user % 3)) for user in range(count)]


def agree(contest: Contest, dtype: torch.dtype, criteria: Sequence[str], seed: int) -> dict[str, float]:
    """Kept states of a dtype against a whole reading: logits, decisions, and the two leaderboards."""
    kept = contest.keep(memory_gb=1e3, dtype=dtype)
    pair = [contest.rank(contest.judge, criteria), contest.rank(kept, criteria)]
    whole, ours = (
        {(row.query_id, row.candidate): row.preference_logit for row in matches if row.preference_logit is not None}
        for matches in pair
    )
    assert whole.keys() == ours.keys()
    same = sum((whole[key] > 0) == (ours[key] > 0) for key in whole) / len(whole)
    return {
        "largest_difference": max(abs(whole[key] - ours[key]) for key in whole),
        "spread_of_logits": statistics.pstdev(whole.values()),
        "same_decisions": same,
        "tau": compare(Leaderboard(pair[0]), Leaderboard(pair[1]), seed, resamples=100).mean,
        "megabytes": kept.states.bytes("memory") / 1e6,
    }


def in_turn(contest: Contest, users: Sequence[Sequence[str]], counts: Sequence[int]) -> list[Seconds]:
    """Seconds until the first ``counts`` users have their leaderboards, one after the other, states kept."""
    kept: list[CachedJudge] = []
    each = [clock(lambda: kept.append(contest.keep(memory_gb=1e3)))]
    each += [clock(contest.rank, kept[0], user) for user in users[: max(counts)]]
    return [{unit: sum(row[unit] for row in each[: count + 1]) for unit in each[0]} for count in counts]


def arithmetic() -> dict[str, dict[str, float]]:
    """10^9 bytes that the states of a large bank take with the scalar head, which reads every response once."""
    tokens = LARGE_BANK["models"] * LARGE_BANK["queries"] * LARGE_BANK["tokens"]
    return {
        model: {name: tokens * 2 * layers * heads * size * dtype.itemsize / 1e9 for name, dtype in _dtypes().items()}
        for model, (layers, heads, size) in SHAPES.items()
    }


def clock(work: Callable[..., object], *given: object) -> Seconds:
    """Seconds on the wall and of the process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(*given)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def to_markdown(found: dict[str, Any]) -> str:
    """What was measured, as tables."""
    sizes, agreement = found["sizes"], found["agreement"]
    lines = [
        "# Further users",
        "",
        f"The simulated bank, {sizes['models']} models x {sizes['queries']} queries, both orders, `{found['head']}` "
        f"head, criteria last, one CPU thread. Time of a user's leaderboard over that of a bank read whole, median of "
        f"{sizes['rounds']} rounds.",
        "",
        "| user | wall | CPU |",
        "|:--|--:|--:|",
    ]
    titles = {"first": "first, reading and keeping", "further": "further", "from_files": "first of a later process"}
    lines += [f"| {titles[name]} | {row['wall']:.2f} | {row['cpu']:.2f} |" for name, row in found["ratio"].items()]
    lines += ["", "| users | read whole for each, s (one user's time by their number) | kept, s |", "|--:|--:|--:|"]
    lines += [f"| {row['users']} | {row['whole']['wall']:.1f} | {row['kept']['wall']:.1f} |" for row in found["users"]]
    one_go = found["in_one_go"]
    lines += ["", f"{one_go['users']} users in one go, nothing kept, no files: {one_go['wall']:.1f} s.", ""]
    lines += ["| states | MB | largest logit difference | same decisions | tau |", "|:--|--:|--:|--:|--:|"]
    lines += [
        f"| {name} | {row['megabytes']:.0f} | {row['largest_difference']:.2g} (logits spread by "
        f"{row['spread_of_logits']:.2g}) | {row['same_decisions']:.2%} | {row['tau']:.3f} |"
        for name, row in agreement.items()
    ]
    large = ", ".join(
        f"{model} {size['float32']:.0f} GB ({size['bfloat16']:.0f} GB in bfloat16)"
        for model, size in found["gigabytes_by_arithmetic"].items()
    )
    shape = f"{LARGE_BANK['models']} x {LARGE_BANK['queries']} responses of {LARGE_BANK['tokens']} tokens"
    about = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return "\n".join([*lines, "", f"By arithmetic, {shape}: {large}.", "", f"{about}; commit {found['commit']}.", ""])


def _ratios(seconds: dict[str, list[dict[str, float]]], name: str) -> dict[str, float]:
    rounds = list(zip(seconds[name], seconds["whole"], strict=True))
    return {unit: statistics.median(ours[unit] / whole[unit] for ours, whole in rounds) for unit in ("wall", "cpu")}


def _dtypes() -> dict[str, torch.dtype]:
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}


if __name__ == "__main__":
    sys.exit(main())
