"""`best_of_n.py`. In: a checked `BestOfNConfig`. Out: curves of the best of k, as tables, a picture and a JSON file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crm.io.installed import commit
from crm.judges import OpenedJudge, check_judge, open_judge
from crm.model.backbone import show_loading
from crm.report.tables import caption
from crm.report.terminal import print_table
from crm.rewards.best_of_n import personalized_rewardbench as prb
from crm.rewards.best_of_n.candidates import Candidates, table
from crm.rewards.best_of_n.config import BestOfNConfig
from crm.rewards.best_of_n.curves import gold_table
from crm.rewards.best_of_n.estimator import reached, sizes
from crm.rewards.best_of_n.gold import width
from crm.rewards.best_of_n.opening import gold_of, open_candidates, told, usable
from crm.rewards.best_of_n.picking import Picks, controls, judges
from crm.rewards.best_of_n.study import Study, peak_table, study_of, write_study
from crm.rewards.scoring import Rewards

log = logging.getLogger(__name__)


def run_best_of_n(config: BestOfNConfig, show: bool = True) -> Study:
    """Read the candidates by the judge and its controls, and write what their picks are worth.

    Raises ``ValueError`` where there is nothing to choose from, or the judge read none of it.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    show_loading(config.progress)
    check_judge(config)
    candidates = told(config, usable(open_candidates(config)))
    gold, unit = gold_of(config, candidates)
    there = table([[0.0] * len(own.responses) for own in candidates], width(candidates))
    known = there if gold is None else gold
    ks = sizes(min(config.max_k, reached(known)))
    opened = open_judge(config)
    picks = judges(
        Rewards(opened.judge),
        candidates,
        known,
        ks,
        seed=config.seed,
        temperature=config.temperature,
        in_order=config.first_k or config.candidates.name == "personalized_rewardbench",
        progress=config.progress,
    )
    if np.isnan(picks["judge"].picked).all():
        raise ValueError(f"candidates={config.candidates.name}: {opened.name} read no response; take shorter ones")
    study = study_of(picks | controls(candidates, known, ks), candidates, known, ks, known=gold is not None)
    _write(config, study, candidates, opened, unit, show)
    if config.candidates.name == "personalized_rewardbench":
        _write_scored(config, picks["judge"], ks)
    return study


def _write(
    config: BestOfNConfig, study: Study, candidates: Sequence[Candidates], opened: OpenedJudge, unit: str, show: bool
) -> None:
    line = caption(len(candidates), opened.seeds, opened.name, commit())
    different = {own.criteria for own in candidates}
    criteria = " · ".join(candidates[0].criteria) or "no criteria"
    title = criteria if len(different) == 1 else f"{len(different)} users' own criteria"
    folder = Path(config.run_dir)
    run = opened.facts() | _facts(config, title, unit)
    write_study(folder, study, run, title=title, unit=unit, caption=line)
    if show:
        _show(study, f"{title}: {unit}; {line} ({folder})")


def _facts(config: BestOfNConfig, criteria: str, unit: str) -> dict[str, Any]:
    """For ``results.json``."""
    settings = {name: getattr(config, name) for name in ("max_k", "temperature", "seed", "checkpoint")}
    pool = {"candidates": config.candidates.name, "gold": config.gold.name, "gold_unit": unit}
    return settings | pool | {"criteria": criteria, "commit": commit()}


def _write_scored(config: BestOfNConfig, judge: Picks, ks: Sequence[int]) -> None:
    """Personalized RewardBench's files; of a judge that only compares there are no scores to write."""
    if judge.scores is None:
        log.warning(
            "candidates=personalized_rewardbench: the judge gives no scores, so that no file of them is written"
        )
        return
    path = Path(str(config.candidates.path))
    name = path.name.split(".")[0].removesuffix("_samples")
    samples = [sample for own in prb.by_id(prb.read_samples(path)).values() if len(own) > 1 for sample in own]
    prb.write_scored(Path(config.run_dir), name, samples, judge.scores, ks)


def _show(study: Study, title: str) -> None:
    measure = "gold" if "gold" in set(study.curves["measure"]) else "reward"
    print_table(gold_table(study.curves, measure), title)
    if study.peaks:
        print_table(peak_table(study.peaks), "where gold is highest, and what the largest k loses")
    log.info("best of n: %s", ", ".join(f"{name} {count}" for name, count in study.counts.items() if count))
