"""``python -m experiments.best_of_n --checkpoint <late model of the arena>``: curves of each user, and of all together.

Each response is read once for all users. It writes ``results.json``, a table and pictures of two opposite users.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.crm_judge import open_checkpoint
from crm.report.tables import caption, number, write_table
from crm.rewards.best_of_n import best_of_k, curves, expected, plot, reached, sizes, table, words_of
from crm.rewards.scoring import Rewards
from experiments.best_of_n.users import Users, of_arena
from experiments.command import answered

PICTURED = ("polite and formal", "relaxed and informal")
"""Parts of the names of two opposite users."""
UNIT = "nats of the true user"


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m experiments.best_of_n", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True, help="a model of the arena")
    parser.add_argument("--report", type=Path, default=Path("results/best_of_n"), help="where results go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--n", type=int, default=128, help="responses to a query of the arena")
    given = parser.parse_args(words)
    return answered("best_of_n", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """``results.json``, the table and the pictures."""
    users = of_arena(seed=given.seed, queries=given.queries, n=given.n)
    judge, manifest = open_checkpoint(given.checkpoint, batch_size=64, precision="32-true")
    studies = studies_of(users, Rewards(judge))
    line = caption(given.queries, (given.seed,), f"{manifest['head']} seed {manifest['seed']}", commit())
    write_table(given.report, "arena", summary(studies), f"{UNIT}; {line}")
    for user, study in studies.items():
        if any(words in user for words in PICTURED):
            slug = "_".join("".join(letter if letter.isalnum() else " " for letter in user.lower()).split())
            plot(given.report / f"arena_{slug}.png", study["curves"], f"{user}: {UNIT}")
    ks = sorted({int(k) for k in studies["all"]["curves"]["k"]})
    found = {
        "users": {user: compact(study, ks) for user, study in studies.items()},
        "k": ks,
        "unit": UNIT,
        "unread": int(studies["all"]["unread"]),
        "head": manifest["head"],
        "training_seed": manifest["seed"],
        "model_digest": manifest["digest"],
        "seed": given.seed,
        "commit": commit(),
    }
    path = given.report / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    text = json.dumps(known | {"arena": found}, indent=1, ensure_ascii=False, allow_nan=False)
    replace_file(path, text + "\n")


def studies_of(users: Sequence[Users], rewards: Rewards) -> dict[str, dict[str, Any]]:
    """Curves of each user, and of ``all`` together, clustered by prompt; each response is read once."""
    candidates = [own for user in users for own in user.candidates]
    asked: dict[str, list[tuple[str, ...]]] = {
        "judge": [own.criteria for own in candidates],
        "blind": [()] * len(candidates),
        "opposite": [(user.opposite,) for user in users for _ in user.candidates],
    }
    groups = [own.group(each) for texts in asked.values() for own, each in zip(candidates, texts, strict=True)]
    read = np.split(table(rewards.of_groups(groups)), len(asked))
    pickers = dict(zip(asked, read, strict=True)) | {"length": words_of(candidates)}
    gold = np.vstack([user.gold for user in users])
    gold[np.isnan(read[0])] = np.nan  # all choose among what the judge could read
    ks, clusters = sizes(reached(gold)), [own.cluster for own in candidates]
    places, start = {}, 0
    for user in users:
        places[user.name] = slice(start, start := start + len(user.candidates))
    places["all"] = slice(0, start)
    found = {}
    for name, at in places.items():
        own = {picker: scores[at] for picker, scores in pickers.items()}
        rewarded = expected(best_of_k(own["judge"], ks), own["judge"])
        found[name] = {
            "curves": curves(own, gold[at], clusters[at], ks),
            "reward": np.nanmean(rewarded, axis=0).tolist(),
            "unread": np.isnan(own["judge"]).sum(),
        }
    return found


def summary(studies: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A user a row: gold at k = 1 and at the largest k, by whom, and the k at which the judge's gold is highest."""
    rows = []
    for user, study in studies.items():
        gold = study["curves"].set_index(["picked_by", "k"])
        largest, judge = max(study["curves"]["k"]), gold.loc["judge", "mean"]
        row = {"user": user, "k = 1": cell(gold, "judge", 1)}
        for name in ("judge", "oracle", "blind", "opposite", "length"):
            row[f"{name}, k = {largest}"] = cell(gold, name, largest)
        rows.append(row | {"judge's peak": int(judge.index[judge >= judge.max() - 1e-9][0])})
    return pd.DataFrame(rows)


def cell(gold: pd.DataFrame, name: str, k: int) -> str:
    """``mean [low, high]``."""
    if (name, k) not in gold.index:
        return "–"
    mean, low, high = (float(gold.at[(name, k), column]) for column in ("mean", "low", "high"))
    return number(mean, low, high)


def compact(study: Mapping[str, Any], ks: Sequence[int]) -> dict[str, Any]:
    """By picker: gold with limits and n at every k, and the judge's reward; null where nothing is known."""
    found: dict[str, Any] = {}
    for name, rows in study["curves"].groupby("picked_by", sort=False):
        at = rows.set_index("k").reindex(ks)
        found[str(name)] = {"gold": {column: rounded(at[column]) for column in ("mean", "low", "high", "n")}}
    found["judge"]["reward"] = {"mean": rounded(pd.Series(study["reward"]))}
    return found


def rounded(values: pd.Series) -> list[float | None]:
    """Rounded; null for what is not a number."""
    return [None if pd.isna(value) else round(float(value), 4) for value in values]


if __name__ == "__main__":
    sys.exit(main())
