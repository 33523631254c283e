"""``python -m experiments.best_of_n --checkpoint <late model of the arena>``: curves of each wish, and of all together.

With ``--root`` and ``--real`` also on the responses of AlpacaEval's 30 LLMs. Each response is read once for all wishes.
Out: ``results.json``, a table and pictures of two opposite wishes for each of the two.
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

from crm.io.files import replace_file, with_nulls
from crm.io.installed import commit
from crm.judges import open_checkpoint
from crm.report.tables import caption, number, write_table
from crm.rewards.best_of_n.estimator import kl_bound, reached, sizes
from crm.rewards.best_of_n.picking import controls, judges
from crm.rewards.best_of_n.plots import best_of_n_picture
from crm.rewards.best_of_n.study import Study, study_of
from crm.rewards.scoring import Rewards
from experiments.best_of_n.users import Users, of_alpacaeval, of_arena

PICTURED = {"arena": ("polite and formal", "relaxed and informal"), "alpacaeval": ("more: Length", "less: Length")}
"""Parts of the names of two opposite wishes."""
UNITS = {"arena": "nats of the true user", "alpacaeval": "thresholds of the trait, counted"}


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m experiments.best_of_n", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, help="a model of the arena; without it only the real part is run")
    parser.add_argument("--root", help="folder of the public sets")
    parser.add_argument("--real", type=Path, help="a judge of real text")
    parser.add_argument("--report", type=Path, default=Path("experiments/best_of_n"), help="where results go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--n", type=int, default=128, help="responses to a query of the arena")
    given = parser.parse_args(words)
    try:
        run(given)
    except ValueError as error:
        print(f"experiments.best_of_n: {error}", file=sys.stderr)
        return 2
    return 0


def run(given: argparse.Namespace) -> None:
    """Both parts, as far as they are asked for; a part that was run before stays in ``results.json``."""
    parts: dict[str, tuple[list[Users], Path]] = {}
    if given.checkpoint:
        users = of_arena(seed=given.seed, queries=given.queries, n=given.n, folder=given.report)
        parts["arena"] = (users, given.checkpoint)
    if given.real:
        if not given.root:
            raise ValueError(
                "--root: not given; --real needs the folder of the public sets, with AlpacaEval's responses"
            )
        parts["alpacaeval"] = (of_alpacaeval(given.root, queries=given.queries), given.real)
    if not parts:
        raise ValueError("--checkpoint: not given, and neither is --real; name a model to measure")
    path = given.report / "results.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, (users, folder) in parts.items():
        found[name] = part(name, users, folder, given)
    replace_file(path, json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def part(name: str, users: Sequence[Users], folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """One of the two, whole: what goes into ``results.json``; writes its table and its pictures."""
    judge, manifest = open_checkpoint(folder, batch_size=64, precision="32-true")
    studies = studies_of(users, Rewards(judge), seed=given.seed)
    line = caption(len(users[0].candidates), (given.seed,), f"{manifest['head']} seed {manifest['seed']}", commit())
    write_table(given.report, name, table(studies), f"{UNITS[name]}; {line}")
    for wish, study in studies.items():
        if any(words in wish for words in PICTURED[name]):
            slug = "_".join("".join(letter if letter.isalnum() else " " for letter in wish.lower()).split())
            best_of_n_picture(given.report / f"{name}_{slug}.png", study.curves, wish, UNITS[name])
    return {
        "wishes": {wish: compact(study) for wish, study in studies.items()},
        "k": list(studies["all"].ks),
        "kl_at_most": [round(kl_bound(k), 4) for k in studies["all"].ks],
        "unit": UNITS[name],
        "counts": studies["all"].counts,
        "head": manifest["head"],
        "training_seed": manifest["seed"],
        "model_digest": manifest["digest"],
        "seed": given.seed,
        "commit": commit(),
    }


def studies_of(users: Sequence[Users], rewards: Rewards, *, seed: int) -> dict[str, Study]:
    """A study of each wish, and of ``all`` together, clustered by prompt; everything is read once."""
    candidates = [own for wish in users for own in wish.candidates]
    gold = np.vstack([wish.gold for wish in users])
    ks = sizes(reached(gold))
    picks = judges(rewards, candidates, gold, ks, seed=seed, progress=True) | controls(candidates, gold, ks)
    found, start = {}, 0
    for wish in users:
        places = slice(start, start + len(wish.candidates))
        own = {name: pick.of_queries(places) for name, pick in picks.items()}
        found[wish.name] = study_of(own, wish.candidates, wish.gold, ks)
        start = places.stop
    return found | {"all": study_of(picks, candidates, gold, ks)}


def table(studies: Mapping[str, Study]) -> pd.DataFrame:
    """A wish a row: gold at k = 1 and at the largest k, by whom, and where the judge's gold is highest."""
    rows = []
    for wish, study in studies.items():
        largest = study.ks[-1]
        gold = study.curves[study.curves["measure"] == "gold"].set_index(["picked_by", "k"])
        peak = next(peak for peak in study.peaks if peak.picked_by == "judge")
        row: dict[str, Any] = {"wish": wish, "k = 1": cell(gold, "judge", 1)}
        row |= {
            f"{name}, k = {largest}": cell(gold, name, largest) for name in ("judge", "oracle", "blind", "opposite")
        }
        row |= {f"length, k = {largest}": cell(gold, "length", largest), "judge's peak": peak.k}
        row["lost after it"] = number(peak.loss.mean, peak.loss.low, peak.loss.high) if peak.loss else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def cell(gold: pd.DataFrame, name: str, k: int) -> str:
    """``mean [low, high]``."""
    if (name, k) not in gold.index:
        return "–"
    mean, low, high = (float(gold.at[(name, k), column]) for column in ("mean", "low", "high"))
    return number(mean, low, high)


def compact(study: Study) -> dict[str, Any]:
    """By picker: gold with limits and n at every k, the judge's reward, and its peak; null where nothing is known."""
    found: dict[str, Any] = {}
    for (name, measure), rows in study.curves.groupby(["picked_by", "measure"], sort=False):
        if measure in ("gold", "words") or (measure == "reward" and name == "judge"):
            at = rows.set_index("k").reindex(study.ks)
            columns = ("mean", "low", "high", "n") if measure == "gold" else ("mean",)
            found.setdefault(str(name), {})[str(measure)] = {column: rounded(at[column]) for column in columns}
    peak = next(peak for peak in study.peaks if peak.picked_by == "judge")
    loss = with_nulls(peak.loss and {"mean": peak.loss.mean, "low": peak.loss.low, "high": peak.loss.high})
    return found | {"peak": {"k": peak.k, "largest": peak.largest, "loss": loss, "n": peak.n}}


def rounded(values: pd.Series) -> list[float | None]:
    """Rounded; null for what is not a number."""
    return [None if pd.isna(value) else round(float(value), 4) for value in values]


if __name__ == "__main__":
    sys.exit(main())
