"""``python -m crm.picking --checkpoint <late model> data=votes.jsonl`` prints what the voter likes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
from rich.progress import track

from crm.cli.mistakes import MISTAKES, explain
from crm.cli.words import rewrite
from crm.config import compose
from crm.data.load import load_data
from crm.judges.crm_judge import open_checkpoint
from crm.picking.criteria import read_pool
from crm.picking.from_votes import Taste, taste_of
from crm.report.tables import print_table
from crm.schema import Preference


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m crm.picking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="a checkpoint with head=late")
    parser.add_argument("--pool", type=Path, help="YAML file of criteria; 12 are built in")
    parser.add_argument("data", nargs="+", help="settings of the group data, such as data=votes.jsonl")
    given = parser.parse_args(words)
    try:
        judge = open_checkpoint(given.checkpoint, batch_size=64, precision="32-true")[0]
        if judge.late_reader is None:
            raise ValueError(f"--checkpoint: {given.checkpoint} has head={judge.encoder.head}; use one with head=late")
        steps = partial(track, description="reading votes", transient=True)
        show(taste_of(votes(given.data), judge.late_reader, read_pool(given.pool), steps))
    except MISTAKES as error:
        print(f"crm.picking: {explain(error, 'train')}", file=sys.stderr)
        return 2
    return 0


def votes(words: Sequence[str]) -> list[Preference]:
    """All votes that the settings of ``data`` name, each once and none set aside; they need no criteria."""
    config = compose("train", rewrite(words), Path())
    splits = load_data(replace(config.data, validation_fraction=0.0, test_fraction=0.0), criteria="none")
    rows = [*splits.train, *splits.validation, *(row for suite in splits.suites.values() for row in suite)]
    return list({row.id: row for row in rows}.values())


def show(found: Taste) -> None:
    """A table of criteria, and how far they explain the votes."""
    rows = [(one.text, round(one.weight, 2), round(one.low, 2), round(one.high, 2)) for one in found.criteria]
    if rows:
        print_table(pd.DataFrame(rows, columns=["seems to like", "weight", "low", "high"]), f"{found.votes} votes")
        print(f"Of {found.asked} picks between left and right these criteria predict {found.agreed}.")
    else:
        print(f"{found.votes} votes say nothing clear about any criterion of the pool.")
    if found.unread:
        print(f"{found.unread} votes were too long to be read.")


if __name__ == "__main__":
    sys.exit(main())
