"""``python -m bench.index``: what a user of an indexed bank costs, with one thread.

A tiny model with a late head reads the simulated bank once and then serves users, each with words of their own. Banks
of other sizes have random vectors of the right shape. A leaderboard is complete: scores, win rates, intervals, ties and
topics.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from torch import Tensor, nn

from bench.models import Size, build_reward_model
from bench.ours import PACKED
from bench.pairs import LONGEST, bench_tokenizer
from bench.rounds import RESULTS, Stopwatch, origin
from bench.run import quieten
from crm.data.simulation.lexicon import AXES, wordings
from crm.io.files import replace_file
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.index import IndexedBank, index_bank
from crm.leaderboard.ranking import Leaderboard
from crm.model.encoding import Encoder
from crm.schema import Message

DEMO = Size(hidden=128, layers=2, heads=4, key_value_heads=4, head_dim=32, intermediate=384)
"""The size of `make demo`."""
SIZE = 1024
"""Numbers of a vector: 16 kept states of 64."""
TOPICS = 12
NAMED = {"13x240": (13, 240), "30x804": (30, 804), "100x2000": (100, 2000)}


class StandIn:
    """What an index needs of a reader, with random vectors: the same for the same seed."""

    size, precision = SIZE, "32-true"
    encoder, shared = SimpleNamespace(digest="simulated", max_length=0), torch.zeros(1)

    def __init__(self, seed: int) -> None:
        self._draws = torch.Generator().manual_seed(seed)

    def responses(self, conversations: Sequence[Any]) -> Tensor:
        """(N, D) float32; models differ by a little more than chance does."""
        drawn: Tensor = torch.randn(len(conversations), SIZE, generator=self._draws)
        return drawn

    def criterion_vectors(self, criteria: Sequence[str]) -> Tensor:
        """(N, D) float32, for products that differ by some units."""
        drawn: Tensor = torch.randn(len(criteria), SIZE, generator=self._draws) * SIZE**-0.5
        return drawn


def main(words: Sequence[str] | None = None) -> int:
    """Take the times, write the file."""
    parser = argparse.ArgumentParser(prog="python -m bench.index", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, default=1000, help="in a row, on the simulated bank")
    parser.add_argument("--queries", type=int, default=20, help="of each of the simulated bank's twelve topics")
    parser.add_argument("--shrink", type=int, default=1, help="divide all other numbers of queries, for a quick look")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "index.json")
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    found = real_model(given)
    for name, (models, queries) in NAMED.items():
        found[f"further_s_{name}"], size = of_shape(given, models, queries)
        found[f"index_mb_{name}"] = size / 1e6
    found |= {"n": {"users": given.users, "rounds": given.rounds}} | origin(given.seed)
    replace_file(given.out, json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


def real_model(given: argparse.Namespace) -> dict[str, Any]:
    """The simulated bank read once by a tiny model, then users in a row: seconds and memory."""
    bank = simulate_bank(seed=given.seed, queries_per_topic=given.queries).bank
    users = tastes(given.users + given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        with Stopwatch("cpu") as reading:
            indexed = open_bank(bank, given.seed, Path(folder))
        each = [leaderboard_s(indexed, user) for user in users[: given.rounds]]
        memory, spent = [psutil.Process().memory_info().rss / 1e6], 0.0
        for start in range(0, given.users, max(1, given.users // 10)):
            part = users[given.rounds + start : given.rounds + start + max(1, given.users // 10)]
            spent += sum(leaderboard_s(indexed, user) for user in part)
            memory.append(psutil.Process().memory_info().rss / 1e6)
    return {
        "further_share": statistics.median(each) / reading.seconds,
        "further_s_real_model": statistics.median(each),
        "index_s": reading.seconds,
        "index_shape": [len(bank.authors), len(bank.queries)],
        "users_per_s": given.users / spent,
        "resident_mb": memory,
    }


def of_shape(given: argparse.Namespace, models: int, queries: int) -> tuple[float, int]:
    """Median seconds of a further user, and bytes of the vectors, of a bank with simulated ones."""
    rows = tuple(
        BankQuery(f"q{place}", (Message("user", f"query {place}"),), f"topic {place % TOPICS}")
        for place in range(max(TOPICS * 2, queries // given.shrink))
    )
    texts = {f"m{place}": {row.id: f"response {place} {row.id}" for row in rows} for place in range(models)}
    bank = Bank("shape", "m0", rows, texts)
    with tempfile.TemporaryDirectory() as folder:
        reader: Any = StandIn(given.seed)
        indexed = IndexedBank(reader, bank, Path(folder), model_digest="simulated", progress=False)
        each = [leaderboard_s(indexed, [f"words {turn}"]) for turn in range(given.rounds + 1)]
        return statistics.median(each[1:]), 2 * len(rows) * models * reader.size


def tastes(count: int) -> list[tuple[str, ...]]:
    """``count`` users with one, two or three criteria each, all different: wordings of the simulation in turn."""
    known = [text for axis in AXES for sign in (1, -1) for text in wordings(axis.name, sign, "train")]
    step = len(known) // 3 + 1
    return [tuple(known[(user + part * step) % len(known)] for part in range(1 + user % 3)) for user in range(count)]


def leaderboard_s(indexed: IndexedBank, criteria: Sequence[str]) -> float:
    """CPU seconds of a complete leaderboard: its tables are made too."""
    with Stopwatch("cpu") as stopwatch:
        board = Leaderboard(indexed.outcomes(criteria))
        board.frame()
    return stopwatch.seconds


def open_bank(bank: Bank, seed: int, folder: Path) -> IndexedBank:
    """A tiny model with random weights and its index of ``bank``."""
    model = build_reward_model(DEMO, "late", seed)
    nn.init.normal_(model.score.criterion.outer.weight, std=0.5)  # type: ignore[union-attr, arg-type]
    encoder = Encoder(bench_tokenizer(seed), "late", LONGEST)
    judge = CrmJudge(model, encoder, batch_size=64, packing=PACKED, model_digest="bench")
    indexed = index_bank(judge, bank, folder, progress=False)
    assert indexed is not None
    return indexed


if __name__ == "__main__":
    sys.exit(main())
