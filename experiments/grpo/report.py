"""Results of trained policies: results.json, tables, curves.png and texts.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import track

from crm.io.files import replace_file
from crm.report.tables import write_table
from crm.rewards.scoring import open_rewards
from experiments.grpo.boards import boards, standing
from experiments.grpo.pictures import curves
from experiments.grpo.stages import CLEAN, NOISED, TAUGHT, Plan
from experiments.grpo.summary import curve, selected_rates, turns
from experiments.grpo.tune import BUDGET, DONE, Policy
from experiments.jobs import commits

SHOWN = 3
"""Texts of a policy that the page of texts shows."""


def report(plan: Plan, policies: Sequence[Policy], folder: Path, minutes: float) -> None:
    """Everything is made anew from the courses; ``minutes`` is what this run of the command took."""
    courses = {policy: json.loads((plan.course(policy) / DONE).read_text(encoding="utf-8")) for policy in policies}
    seeds = sorted({policy.seed for policy in policies})
    made = commits(plan.judge(noise, seed) for noise in (CLEAN, NOISED) for seed in seeds)
    named = f"{len(seeds)} seeds ({', '.join(map(str, seeds))}), commit {made}"
    rows = {noise: _win_rates(plan, courses, noise) for noise in (CLEAN, NOISED)}
    found: dict[str, Any] = {
        "criteria": len(plan.criteria),
        "seeds": seeds,
        "commit": made,
        "minutes": minutes,
        "start": json.loads((plan.start / TAUGHT).read_text(encoding="utf-8")),
        "kl_budget": BUDGET,
        "selected": {"clean": rows[CLEAN], "noised": rows[NOISED], "conditioned": _conditioned(plan, courses)},
        "turns": {name: _turns(plan, courses, noise) for name, noise in (("clean", CLEAN), ("noised", NOISED))},
        "curves": {policy.name: curve(course) for policy, course in courses.items()},
    }
    standings = _standings(plan, courses, seeds, folder, made)
    found["leaderboards"] = standings.to_dict("records")
    replace_file(folder / "results.json", json.dumps(found, indent=1) + "\n")
    _tables(folder, found, named)
    curves(folder / "curves.png", plan.criteria, courses)
    _texts(folder / "texts.md", courses)


def _of(courses: dict[Policy, Any], criterion: str, noise: str) -> list[Any]:
    return [
        course
        for policy, course in courses.items()
        if policy.criteria == (criterion,) and not policy.conditioned and f"_{noise}_" in policy.name
    ]


def _win_rates(plan: Plan, courses: dict[Policy, Any], noise: str) -> dict[str, Any]:
    return {criterion: selected_rates(_of(courses, criterion, noise)) for criterion in plan.criteria}


def _turns(plan: Plan, courses: dict[Policy, Any], noise: str) -> dict[str, Any]:
    return {criterion: turns(_of(courses, criterion, noise)) for criterion in plan.criteria}


def _conditioned(plan: Plan, courses: dict[Policy, Any]) -> dict[str, Any]:
    conditioned = [course for policy, course in courses.items() if policy.conditioned]
    if not conditioned:
        return {}
    return {
        criterion: selected_rates(conditioned, place, len(plan.criteria))
        for place, criterion in enumerate(plan.criteria)
    }


def _standings(plan: Plan, courses: dict[Policy, Any], seeds: Sequence[int], folder: Path, made: str) -> pd.DataFrame:
    """A leaderboard a user and seed, by the reward models without noise."""
    tables = []
    for seed in track(seeds, "leaderboards"):
        own = {
            policy.criteria[0]: course
            for policy, course in courses.items()
            if policy.seed == seed and not policy.conditioned and f"_{CLEAN}_" in policy.name
        }
        conditioned = [course for policy, course in courses.items() if policy.seed == seed and policy.conditioned]
        board = boards(
            open_rewards(plan.judge(CLEAN, seed) / "model"), own, conditioned[0] if conditioned else None, plan.criteria
        )
        if seed == seeds[0]:
            write_table(folder, "leaderboards", board.round(3), f"seed {seed}; commit {made}")
        tables.append(standing(board, plan.criteria).assign(seed=seed))
    return pd.concat(tables, ignore_index=True)


def _tables(folder: Path, found: dict[str, Any], named: str) -> None:
    selected = [
        {"policy": name, "criterion": criterion} | row
        for name, rows in found["selected"].items()
        for criterion, row in rows.items()
    ]
    write_table(folder, "selected", pd.DataFrame(selected), f"at most {BUDGET:g} nats from the start; {named}")
    turned = [
        {"judge": name, "criterion": criterion} | row
        for name, rows in found["turns"].items()
        for criterion, row in rows.items()
    ]
    write_table(folder, "turns", pd.DataFrame(turned), named)
    write_table(folder, "standings", pd.DataFrame(found["leaderboards"]), named)


def _texts(path: Path, courses: dict[Policy, Any]) -> None:
    """What the policies write, to be looked at: at the start, where they are selected, at the end of their course."""
    lines = [
        "# What the policies write",
        "",
        "The same queries each time; the numbers of whole courses are in `results.json`.",
    ]
    for policy, course in courses.items():
        if policy.seed != min(other.seed for other in courses):
            continue
        lines += ["", f"## {policy.name.replace('_', ' ')}"]
        points = {"start": course["course"][0], "selected": course["selected"], "end": course["course"][-1]}
        for name, point in points.items():
            lines += ["", f"{name.capitalize()}, step {point['step']}, KL {point['kl']:.1f}:", ""]
            lines += [f"- {json.dumps(text, ensure_ascii=False)}" for text in point["texts"][:SHOWN]]
    replace_file(path, "\n".join(lines) + "\n")
