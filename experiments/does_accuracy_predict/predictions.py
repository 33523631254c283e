"""Predictions of each judge: ``suites.json`` and ``best_of_n.json``.

``suites.json`` has for every suite the comparisons, their prompts, and whether the judge was right (null: no verdict).
``best_of_n.json`` has the gold of the judge's pick and of the best response, in nats of the true user: a number for
every criterion, prompt and k. All judges pick from the same responses.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from crm.config import compose
from crm.data.simulation.lexicon import AXIS, TRAIN_AXES, wordings
from crm.evaluation.predictions import read_predictions, to_samples
from crm.evaluation.results import read_results
from crm.io.files import replace_file, with_nulls
from crm.io.installed import commit
from crm.judges.open import open_judge
from crm.model.backbone import show_loading
from crm.model.manifest import read_manifest
from crm.report.statistics import Floats, correctness
from crm.rewards.best_of_n import Candidates, best_of_k, expected, table
from crm.rewards.scoring import Rewards, open_rewards
from experiments.best_of_n.knockout import knockout
from experiments.best_of_n.users import simulated, truth_of, with_criterion
from experiments.does_accuracy_predict.judges import Spec, model_of

SUITES_FILE, BEST_FILE = "suites.json", "best_of_n.json"
KS = (1, 4, 16, 64)
POLES = {AXIS[axis].pole(sign).name: (axis, sign) for axis in TRAIN_AXES for sign in (1, -1)}
"""What a criterion may be called, and its side of the axis."""


@dataclass(frozen=True)
class Picking:
    """What judges pick from: ``n`` responses to each of ``queries`` prompts, for users with ``criteria``.

    Raises ``ValueError`` for a criterion that is no pole of the simulation's, and where there is nothing to pick from.
    """

    criteria: tuple[str, ...]
    queries: int
    n: int
    seed: int

    def __post_init__(self) -> None:
        for criterion in self.criteria:
            if criterion not in POLES:
                raise ValueError(f"--criteria: {criterion!r}: expected some of {', '.join(POLES)}")
        if self.queries < 2:
            raise ValueError(f"--queries={self.queries}: expected 2 or more")
        if self.n < KS[1]:
            raise ValueError(f"--n={self.n}: expected {KS[1]} or more")

    @property
    def ks(self) -> tuple[int, ...]:
        """The k of the study that are not above ``n``."""
        return tuple(k for k in KS if k <= self.n)

    def users(self) -> list[Candidates]:
        """The prompts under every criterion, criterion by criterion, in words that no judge was trained on."""
        pool = simulated(seed=self.seed, count=self.queries, n=self.n)
        found = []
        for axis, sign in (POLES[criterion] for criterion in self.criteria):
            found += with_criterion(pool, wordings(axis, sign, "held_out")[0])
        return found


def save_suites(folder: Path) -> None:
    """``suites.json``, from the predictions of the judge's evaluation."""
    run, _ = read_results(folder / "suites" / "results.json")
    samples = to_samples(chain.from_iterable(read_predictions(path) for path in run["files"].values()))
    found = {}
    for suite, rows in samples.items():
        known = [row for row in rows if row.label is not None]
        right = correctness([row.logit for row in known], [row.label or 0 for row in known])
        found[suite] = {
            "comparisons": [row.comparison_id for row in known],
            "prompts": [row.cluster for row in known],
            "right": [with_nulls(value) for value in right.tolist()],
        }
    replace_file(folder / SUITES_FILE, json.dumps(found, allow_nan=False) + "\n")


def picked_already(spec: Spec, out: Path, picking: Picking) -> bool:
    """Whether ``best_of_n.json`` is there, made by this very judge under these settings."""
    path = out / spec.name / BEST_FILE
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["made"] == _made(spec, out, picking)


def save_best_of_n(spec: Spec, out: Path, picking: Picking) -> None:
    """``best_of_n.json`` of one judge, in a process of one thread."""
    import torch

    torch.set_num_threads(1)
    show_loading(False)
    users = picking.users()
    gold = truth_of(users)
    picked, unread = picks(_rewards(spec, out), users, gold, picking, blind=spec.blind)
    shape = (len(picking.criteria), picking.queries, len(picking.ks))
    best = expected(best_of_k(gold, picking.ks), gold)
    document = {
        "made": _made(spec, out, picking),
        "commit": commit(),
        "k": list(picking.ks),
        "unread": unread,
        "gold": _rounded(expected(picked, gold).reshape(shape)),
        "best": _rounded(best.reshape(shape)),
    }
    replace_file(out / spec.name / BEST_FILE, json.dumps(document, allow_nan=False) + "\n")


def picks(
    rewards: Rewards, users: Sequence[Candidates], gold: Floats, picking: Picking, *, blind: bool
) -> tuple[Floats, int]:
    """How likely each response is the pick, (Q, K, n), and how many responses or pairs were not read.

    A judge that only compares holds a knockout.
    """
    groups = [own.group(() if blind else own.criteria) for own in users]
    if rewards.pointwise:
        scores = table(rewards.of_groups(groups))
        return best_of_k(scores, picking.ks), int(np.isnan(scores).sum())
    names = [own.cluster for own in users]
    return knockout(rewards, groups, gold, picking.ks, names=names, seed=picking.seed)


def _rewards(spec: Spec, out: Path) -> Rewards:
    model = model_of(spec, out)
    return open_rewards(model) if model is not None else _control(spec.asked)


def _control(asked: Sequence[str]) -> Rewards:
    """The judge that these overrides name."""
    with tempfile.TemporaryDirectory() as folder:
        return Rewards(open_judge(compose("serve", [*asked, "progress=false"], Path(folder))).judge)


def _made(spec: Spec, out: Path, picking: Picking) -> dict[str, Any]:
    model = model_of(spec, out)
    digest = read_manifest(model)["digest"] if model else spec.name
    settings = {name: list(value) if name == "criteria" else value for name, value in asdict(picking).items()}
    return {"judge": digest, "blind": spec.blind, **settings}


def _rounded(values: Floats) -> Any:
    """Nested lists; null for what is not a number."""
    return [_rounded(row) for row in values] if values.ndim else with_nulls(round(float(values), 5))
