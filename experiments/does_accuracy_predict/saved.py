"""Read saved results of all judges into arrays.

Letters: J judges, N comparisons of a suite, Q prompts of a use.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crm.report.statistics import Floats, Indices, cluster_interval
from experiments.does_accuracy_predict.judges import FAMILIES, SUITES, Spec
from experiments.does_accuracy_predict.predictions import BEST_FILE, SUITES_FILE
from experiments.does_accuracy_predict.reinforcement import GRPO_FILE


@dataclass(frozen=True)
class Saved:
    """Of J judges, in the order of ``names``.

    ``right`` has for every suite (J, N) 0, 1/2 or 1, NaN where there was no verdict; ``prompts`` has (N,) numbers of
    the prompts, the same in both directions of a suite. ``uses`` has (J, Q) what a judge is good for at each prompt,
    the mean over criteria, NaN where it was not measured; ``regret`` what the best response would have given more.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    right: dict[str, Floats]
    prompts: dict[str, Indices]
    uses: dict[str, Floats]
    regret: dict[str, Floats]

    def above_chance(self) -> Indices:
        """Places of the trained judges whose accuracy over all suites is above one half, its 95 % interval too."""
        keys = [f"{suite[:-1]} {prompt}" for suite in SUITES for prompt in self.prompts[suite]]
        found = []
        for place, row in enumerate(np.concatenate([self.right[suite] for suite in SUITES], axis=1)):
            read = np.flatnonzero(~np.isnan(row))
            if self.families[place] != FAMILIES[-1]:
                interval = cluster_interval(row[read], [keys[at] for at in read.tolist()])
                found += [place] if interval.low > 0.5 else []
        return np.array(found, dtype=np.int64)


def load(found: Sequence[Spec], out: Path) -> Saved:
    """What was saved of these judges. Raises ``ValueError`` where something is missing or does not fit together."""
    suites = [_read(out / spec.name / SUITES_FILE) for spec in found]
    picked = [_read(out / spec.name / BEST_FILE) for spec in found]
    _check([{suite: own["comparisons"] for suite, own in one.items()} for one in suites], found, "comparisons")
    _check([{**one["made"], "judge": "", "blind": ""} for one in picked], found, "criteria, --queries, --n or --seed")
    uses, regret = _best_of_n(picked)
    grpo = _grpo([out / spec.name / GRPO_FILE for spec in found])
    right = {suite: np.array([own[suite]["right"] for own in suites], dtype=np.float64) for suite in SUITES}
    prompts = {}
    for suite in SUITES:
        numbers: dict[str, int] = {key: at for at, key in enumerate(_prompts_of(suites[0], suite[:-1]))}
        prompts[suite] = np.array([numbers[key] for key in suites[0][suite]["prompts"]], dtype=np.int64)
    names, families = (tuple(getattr(spec, field) for spec in found) for field in ("name", "family"))
    return Saved(names, families, right, prompts, uses | grpo, regret)


def _best_of_n(picked: Sequence[Any]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Gain over one random response, and regret, (J, Q) by k."""
    uses, regret = {}, {}
    for at, k in enumerate(picked[0]["k"]):
        gold, best = (np.array([one[name] for one in picked], dtype=np.float64) for name in ("gold", "best"))
        if k > 1:
            uses[f"best_of_{k}"] = (gold[..., at] - gold[..., 0]).mean(axis=1)
            regret[f"best_of_{k}"] = (best[..., at] - gold[..., at]).mean(axis=1)
    return uses, regret


def _grpo(files: Sequence[Path]) -> dict[str, Floats]:
    """Win rates of policies, (J, Q), of the judges that have some; nothing where none has."""
    there = {place: _read(path) for place, path in enumerate(files) if path.is_file()}
    uses = {}
    for name in ("selected", "best") if there else ():
        won = {place: np.mean([point["won"] for point in own[name]], axis=0) for place, own in there.items()}
        width = len(next(iter(won.values())))
        uses[f"grpo_{name}"] = np.array([won.get(place, np.full(width, np.nan)) for place in range(len(files))])
    return uses


def _prompts_of(suites: Any, base: str) -> list[str]:
    return list(dict.fromkeys(key for sign in "+-" for key in suites[f"{base}{sign}"]["prompts"]))


def _check(facts: Sequence[Any], found: Sequence[Spec], what: str) -> None:
    for fact, spec in zip(facts, found, strict=True):
        if fact != facts[0]:
            raise ValueError(f"--out: {spec.name} and {found[0].name} have other {what}; run without --analyse-only")


def _read(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"--out: {path.parent.name} has no {path.name} yet; run without --analyse-only")
    return json.loads(path.read_text(encoding="utf-8"))
