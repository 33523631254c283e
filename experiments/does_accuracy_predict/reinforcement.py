"""GRPO against a few judges that are spread over the range of accuracy.

A policy of `experiments.grpo` for each criterion and judge, all from one start. Gold is the win rate over it, query
by query: of the selected policy (a rule that knows no gold) and of the best one of its course.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from crm.io.files import replace_file
from experiments.grpo.stages import CRITERIA as TAUGHT_CRITERIA
from experiments.grpo.stages import EVERY, TAUGHT, Plan, make_policy, make_start
from experiments.grpo.tune import DONE, Policy
from experiments.processes import side_by_side

GRPO_FILE = "grpo.json"
CRITERIA = ("Prefers humorous", "Prefers concise")
TEACH_STEPS = 500


def spread(accuracies: Mapping[str, float], count: int) -> list[str]:
    """``count`` judges spread over the range of accuracy: each nearest to one of as many evenly spaced marks."""
    left = dict(accuracies)
    count = min(count, len(left))
    found = []
    for mark in np.linspace(min(left.values()), max(left.values()), count) if count else ():
        name = min(left, key=lambda own: (abs(left[own] - float(mark)), own))
        found.append(name)
        del left[name]
    return found


def reinforce(
    names: Sequence[str],
    everybody: Sequence[str],
    out: Path,
    *,
    start: Path | None,
    steps: int,
    seed: int,
    workers: int,
) -> None:
    """Policies of the judges ``names``, and ``grpo.json`` of each; that of an earlier choice is removed.

    Raises ``ValueError`` for a ``start`` that `experiments.grpo` has not taught.
    """
    for name in set(everybody) - set(names):
        (out / name / GRPO_FILE).unlink(missing_ok=True)
    if not names:
        return
    plan = Plan((out / "grpo").resolve(), TAUGHT_CRITERIA, 0, TEACH_STEPS)
    if start is None:
        side_by_side([(make_start, (plan,))], 1, "the start")
    else:
        take_start(start, plan.start)
    policies = {name: [policy(name, criterion, out, steps, seed) for criterion in CRITERIA] for name in names}
    tasks = [(make_policy, (plan, one)) for own in policies.values() for one in own]
    side_by_side(tasks, workers, "policies")
    for name, own in policies.items():
        courses = [json.loads((plan.course(one) / DONE).read_text(encoding="utf-8")) for one in own]
        made = {"criteria": list(CRITERIA), "steps": steps, "seed": seed, "start": courses[0]["policy"]["made_from"][0]}
        found = made | {
            "selected": [outcome(course["selected"]) for course in courses],
            "best": [best(one) for one in courses],
        }
        replace_file(out / name / GRPO_FILE, json.dumps(found) + "\n")


def policy(name: str, criterion: str, out: Path, steps: int, seed: int) -> Policy:
    """The policy of a judge and a criterion."""
    judge = str((out / name / "model").resolve())
    marks = (*range(EVERY, steps, EVERY), steps)
    return Policy(f"{name}_{criterion.removeprefix('Prefers ')}", (criterion,), judge, seed, steps, marks)


def take_start(given: Path, folder: Path) -> None:
    """A copy of a start that is taught; nothing is copied where it is the same already."""
    if not (given / TAUGHT).is_file():
        raise ValueError(f"--grpo-start={given}: no {TAUGHT} there; give the start of experiments.grpo, or nothing")
    weights = "model.safetensors"
    there = folder / weights
    if there.is_file() and there.read_bytes() == (given / weights).read_bytes():
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(given, folder)


def outcome(point: Mapping[str, Any]) -> dict[str, Any]:
    """A point of a course, without its texts."""
    return {name: point[name] for name in ("step", "kl", "degenerate", "proxy", "won")}


def best(course: Mapping[str, Any]) -> dict[str, Any]:
    """The point after the start at which gold's win rate is highest."""
    return outcome(max(course["course"][1:], key=lambda point: fmean(point["won"])))
