"""``python -m experiments.picking.personas --checkpoint <late model> --root <public sets>``: criteria from real votes.

The eight personas of personas8 (an LLM in a role chose between two responses) as eight people whose votes are all
that is known. ``personas.md`` has what each seems to like, and how many votes that predicts, each from others.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd
from rich.progress import track

from crm.config import compose
from crm.data.load import load_data
from crm.io.installed import commit
from crm.judges.crm_judge import open_checkpoint
from crm.picking.criteria import read_pool
from crm.picking.from_votes import Taste, taste_of
from crm.report.tables import write_table
from crm.schema import Preference
from experiments.command import answered


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m experiments.picking.personas")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--report", type=Path, default=Path("results/picking"), help="where the table goes")
    parser.add_argument("--votes", type=int, default=150, help="votes of a persona")
    parser.add_argument("--max-words", type=int, default=150, help="words of a response that are read")
    given = parser.parse_args(words)
    return answered("picking.personas", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """``personas.md``."""
    judge = open_checkpoint(given.checkpoint, batch_size=64, precision="32-true")[0]
    if judge.late_reader is None:
        raise ValueError(f"--checkpoint: {given.checkpoint} has head={judge.encoder.head}; use one with head=late")
    found = {
        name: (votes, taste_of(votes, judge.late_reader, read_pool(), partial(track, description=name)))
        for name, votes in personas(given.root, given.votes, given.max_words).items()
    }
    rows = [row(name, votes, proposal) for name, (votes, proposal) in found.items()]
    write_table(given.report, "personas", pd.DataFrame(rows), f"{given.votes} votes each, commit {commit()}")


def personas(root: str, votes: int, max_words: int) -> dict[str, list[Preference]]:
    """The first votes of each, as the set shuffles them."""
    words = ("data=file", "data.name=personas8", f"data.root={root}", "data.train=0", f"data.max_words={max_words}")
    splits = load_data(compose("train", list(words), Path()).data)
    found: dict[str, list[Preference]] = defaultdict(list)
    for vote in splits.train:
        (name,) = {*vote.criteria_topics_a, *vote.criteria_topics_b}
        if len(found[name]) < votes:
            found[name].append(vote)
    return dict(sorted(found.items()))


def row(name: str, votes: Sequence[Preference], found: Taste) -> dict[str, object]:
    """A persona in words of the pool, beside how often the longer response is what they chose."""
    longer = [len(vote.response_a[-1].content) > len(vote.response_b[-1].content) for vote in votes]
    won = [is_longer == (vote.winner == "a") for is_longer, vote in zip(longer, votes, strict=True)]
    return {
        "persona": name,
        "their own words": votes[0].criteria_a[0] if votes[0].criteria_a else votes[0].criteria_b[0],
        "seems to like": "; ".join(f"{one.text} ({one.weight:.1f})" for one in found.criteria[:4]) or "nothing clear",
        "foreseen": f"{found.agreed} of {found.asked}",
        "longer is chosen": f"{sum(won)} of {len(won)}",
    }


if __name__ == "__main__":
    sys.exit(main())
