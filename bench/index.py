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
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from bench.models import Size, build_reward_model
from bench.pairs import LONGEST, bench_tokenizer
from bench.rounds import about, versions
from bench.run import RESULTS, quieten
from crm.data.simulation.lexicon import AXES, wordings
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.index import IndexedBank, index_bank
from crm.leaderboard.ranking import Leaderboard
from crm.model.batching.plans import Packing
from crm.model.encoding import Encoder
from crm.schema import Message

DEMO = Size(hidden=128, layers=2, heads=4, key_value_heads=4, head_dim=32, intermediate=384)
"""The size of `make demo`."""
PACKING = Packing(4096)
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
    """Take the times, write the two files."""
    parser = argparse.ArgumentParser(prog="python -m bench.index", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--users", type=int, default=1000, help="in a row, on the simulated bank")
    parser.add_argument("--queries", type=int, default=20, help="of each of the simulated bank's twelve topics")
    parser.add_argument("--shrink", type=int, default=1, help="divide all other numbers of queries, for a quick look")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    quieten()
    torch.set_num_threads(1)
    found = real_model(given)
    found |= simulated(given)
    found |= {"n": {"users": given.users, "rounds": given.rounds}, "seeds": [given.seed]}
    found |= {"versions": versions(), "commit": commit()}
    replace_file(given.out / "index.json", json.dumps(found, indent=1) + "\n")
    table = to_markdown(found)
    replace_file(given.out / "index.md", table)
    print(table)
    return 0


def real_model(given: argparse.Namespace) -> dict[str, Any]:
    """The simulated bank read once by a tiny model, then users in a row: seconds and memory."""
    bank = simulate_bank(seed=given.seed, queries_per_topic=given.queries).bank
    users = tastes(given.users + given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        built: list[IndexedBank] = []
        whole = clock(lambda: built.append(open_bank(bank, given.seed, Path(folder))))
        indexed = built[0]
        each = [clock(leaderboard, indexed, user) for user in users[: given.rounds]]
        memory, spent = [resident()], 0.0
        for start in range(0, given.users, max(1, given.users // 10)):
            part = users[given.rounds + start : given.rounds + start + max(1, given.users // 10)]
            spent += sum(clock(leaderboard, indexed, user) for user in part)
            memory.append(resident())
    return {
        "further_share": statistics.median(each) / whole,
        "further_s_real_model": statistics.median(each),
        "index_s": whole,
        "index_shape": [len(bank.authors), len(bank.queries)],
        "users_per_s": given.users / spent,
        "resident_mb": memory,
    }


def simulated(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a further user on banks of other sizes."""
    found: dict[str, Any] = {}
    for name, (models, queries) in NAMED.items():
        found[f"further_s_{name}"], size = of_shape(given, models, queries)
        found[f"index_mb_{name}"] = size / 1e6
    return found


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
        each = [clock(leaderboard, indexed, [f"words {turn}"]) for turn in range(given.rounds + 1)]
        return statistics.median(each[1:]), 2 * len(rows) * models * reader.size


def tastes(count: int) -> list[tuple[str, ...]]:
    """``count`` users with one, two or three criteria each, all different: wordings of the simulation in turn."""
    known = [text for axis in AXES for sign in (1, -1) for text in wordings(axis.name, sign, "train")]
    step = len(known) // 3 + 1
    return [tuple(known[(user + part * step) % len(known)] for part in range(1 + user % 3)) for user in range(count)]


def clock(work: Callable[..., object], *given: object) -> float:
    """Seconds of the process on the CPU, since a machine may have other work."""
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun


def leaderboard(indexed: IndexedBank, criteria: Sequence[str]) -> Leaderboard:
    """A complete one: its tables are made too."""
    board = Leaderboard(indexed.outcomes(criteria))
    board.frame()
    board.records()
    return board


def open_bank(bank: Bank, seed: int, folder: Path) -> IndexedBank:
    """A tiny model with random weights and its index of ``bank``."""
    model = build_reward_model(DEMO, "late", seed)
    nn.init.normal_(model.score.criterion.outer.weight, std=0.5)  # type: ignore[union-attr, arg-type]
    encoder = Encoder(bench_tokenizer(seed), "late", LONGEST)
    judge = CrmJudge(model, encoder, batch_size=64, packing=PACKING, model_digest="bench")
    indexed = index_bank(judge, bank, folder, progress=False)
    assert indexed is not None
    return indexed


def resident() -> float:
    """10^6 bytes of this process that are in memory, shared pages of files left out."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def to_markdown(found: dict[str, Any]) -> str:
    """What was measured, as tables."""
    models, queries = found["index_shape"]
    memory = found["resident_mb"]
    lines = [
        "# Users of an index",
        "",
        "A user's complete leaderboard: scores, win rates, intervals, ties, topics. One CPU thread, medians of "
        f"{found['n']['rounds']} users.",
        "",
        "| models x queries | a further user, CPU ms | vectors, MB |",
        "|:--|--:|--:|",
    ]
    lines += [
        f"| {name.replace('x', ' x ')} | {1000 * found[f'further_s_{name}']:.0f} | {found[f'index_mb_{name}']:.0f} |"
        for name in NAMED
    ]
    lines += [
        "",
        f"A tiny model on the simulated bank ({models} x {queries}): index {found['index_s']:.1f} s, "
        f"a further user {1000 * found['further_s_real_model']:.0f} ms, words included: {found['further_share']:.4f} "
        f"of it. {found['n']['users']} users in a row: {found['users_per_s']:.0f} a second, memory {memory[0]:.0f} MB "
        f"before, {memory[1]:.0f} MB after a tenth, {memory[-1]:.0f} MB after all.",
        "",
    ]
    return "\n".join([*lines, about(found), ""])


if __name__ == "__main__":
    sys.exit(main())
