"""``python -m experiments.picking --checkpoint <late judge of the arena>``: simulated people pick.

It writes ``results.json``, a table and curves. Every condition sees the same people. Somebody's ranking
is right from the pick on after which its Kendall's tau with their true ranking stays at .8 or more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rich.progress import track

from crm.io.files import drafted, replace_file
from crm.io.installed import commit
from crm.picking.session import ENOUGH, LEAST_PICKS, MOST_PICKS
from crm.report.statistics import mean_interval
from crm.report.tables import write_table
from experiments.command import answered
from experiments.picking.courses import EARLY, Condition, Course, course, stays
from experiments.picking.world import world

RIGHT = 0.8
CONDITIONS = {
    "picks": Condition(),
    "random pairs": Condition(adaptive=False),
    "picks without reasons": Condition(reasons=False),
    "random pairs without reasons": Condition(adaptive=False, reasons=False),
    "one criterion typed, then picks": Condition(typed=1),
    "two criteria typed, then picks": Condition(typed=2),
    "own votes alone": Condition(adaptive=False, reasons=False, votes=True),
    "fits nothing": Condition(kind="fits nothing"),
    "noise": Condition(kind="noise"),
}
MARKS = (0, 4, 8, 15, 25)


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m experiments.picking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/picking"), help="where the index goes")
    parser.add_argument("--report", type=Path, help="where tables go; by default --out")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--picks", type=int, default=40)
    parser.add_argument("--bank-seed", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1, help="the first person's; others follow")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(words)
    given.report = given.report or given.out
    return answered("picking", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Every condition, the same people."""
    seen = world(given.checkpoint, given.out, given.bank_seed)
    seeds = range(given.seed, given.seed + given.people)
    courses: dict[str, list[Course]] = {}
    with ProcessPoolExecutor(given.workers) as pool:
        for name, condition in CONDITIONS.items():
            one = partial(course, seen, condition, picks=given.picks)
            courses[name] = list(track(pool.map(one, seeds, chunksize=10), name, total=given.people))
    report({name: summary(found, given.picks, CONDITIONS[name]) for name, found in courses.items()}, given)
    curves(given.report / "curves.png", courses)


def summary(courses: Sequence[Course], picks: int, condition: Condition) -> dict[str, Any]:
    """What a condition comes to; null where there is no answer: own votes have no criteria, and noise no taste."""
    tells = picks >= EARLY and condition.kind != "noise" and not condition.votes
    taus = np.array([found.taus for found in courses])
    settled = np.array([found.settled for found in courses])
    needed = np.sort([stays(row, RIGHT) for row in taus])
    least = range(LEAST_PICKS, picks + 1)
    ended = [next((n for n in least if row[n] >= ENOUGH or n >= MOST_PICKS), picks) for row in settled]
    decided = np.array([row[stop] >= ENOUGH for row, stop in zip(settled, ended, strict=True)])
    at_end = np.array([row[stop] for row, stop in zip(taus, ended, strict=True)])
    middle = float(needed[(len(needed) - 1) // 2])
    early = mean_interval([float(found.found_early) for found in courses])
    asked = sum(found.asked for found in courses)
    return {
        "median_comparisons": middle if np.isfinite(middle) else None,
        "right_after_all_picks": float(np.isfinite(needed).mean()),
        "tau_after": {str(mark): round(float(taus[:, mark].mean()), 3) for mark in MARKS if mark <= picks},
        "top3_after_8": {"mean": early.mean, "low": early.low, "high": early.high} if tells else None,
        "stops_after": None if condition.votes else float(np.median(ended)),
        "decided": None if condition.votes else float(decided.mean()),
        "tau_of_decided": round(float(at_end[decided].mean()), 3) if decided.any() and not condition.votes else None,
        "agreement_on_random_pairs": round(sum(found.agreed for found in courses) / asked, 3) if asked else None,
    }


def report(found: dict[str, dict[str, Any]], given: argparse.Namespace) -> None:
    """``results.json`` and a table."""
    head = {
        "users": given.people,
        "picks": given.picks,
        "seeds": [given.seed, given.seed + given.people - 1],
        "bank_seed": given.bank_seed,
        "commit": commit(),
    }
    replace_file(given.report / "results.json", json.dumps({**head, "conditions": found}, indent=1) + "\n")
    rows = [
        {
            "condition": name,
            f"picks until tau stays >= {RIGHT} (median)": median(row, given.picks),
            **{f"tau after {mark}": value for mark, value in row["tau_after"].items()},
            "right criterion in first 3 after 8": share(row["top3_after_8"] and row["top3_after_8"]["mean"]),
            "decided": share(row["decided"]),
            "stops after": "–" if row["stops_after"] is None else row["stops_after"],
        }
        for name, row in found.items()
    ]
    write_table(given.report, "conditions", pd.DataFrame(rows), f"{given.people} simulated people, commit {commit()}")


def share(value: float | None) -> str:
    """In percent, or a dash."""
    return "–" if value is None else f"{value:.0%}"


def median(row: dict[str, Any], picks: int) -> str:
    """Comparisons of the person in the middle, in words."""
    found = row["median_comparisons"]
    return f"> {picks}" if found is None else f"{found:.0f}"


def curves(path: Path, courses: dict[str, list[Course]]) -> None:
    """Mean tau with the true ranking after each pick, a line a condition."""
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, found in courses.items():
        if CONDITIONS[name].kind == "fits":
            axes.plot(np.mean([one.taus for one in found], axis=0), label=name)
    axes.axhline(RIGHT, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="picks", ylabel="Kendall's tau with the true ranking", ylim=(0, 1))
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    with drafted(path) as draft:
        figure.savefig(draft, format="png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
