"""Best-of-N of one judge, whole. In: rewards, candidates, gold. Out: a `Study`: curves, peaks, counts; its files.

``results.json`` holds them all, ``best_of_n.md``, ``peaks.md`` are for people, ``best_of_n.png`` is the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.io.files import replace_file, with_nulls
from crm.report.statistics import Interval
from crm.report.tables import number, write_table
from crm.rewards.best_of_n.candidates import Candidates
from crm.rewards.best_of_n.curves import Peak, curves, gold_table, interval_of, peaks
from crm.rewards.best_of_n.estimator import Floats, kl_bound
from crm.rewards.best_of_n.picking import Picks, words_of
from crm.rewards.best_of_n.plots import best_of_n_picture
from crm.sealed import sealed_text

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Study:
    """``curves`` has the columns `crm.rewards.best_of_n.curves.COLUMNS`; ``cycles`` is of a judge that compared all
    pairs; ``counts`` say what was left out."""

    ks: tuple[int, ...]
    curves: pd.DataFrame
    peaks: list[Peak]
    cycles: Interval | None
    counts: dict[str, int]


def study_of(
    picks: Mapping[str, Picks], candidates: Sequence[Candidates], gold: Floats, ks: Sequence[int], *, known: bool = True
) -> Study:
    """Of ``gold`` (Q, n), NaN where there is no response or its gold is not known.

    Where nobody knows gold at all (``known=False``, and then any number stands for a response) no row is about it.
    """
    clusters = [own.cluster for own in candidates]
    frame = curves(picks, gold, words_of(candidates), clusters, ks)
    judge = picks["judge"]
    cycles = None if judge.cycles is None else interval_of(judge.cycles, clusters)
    if not known:
        frame = frame[frame["measure"].isin(["reward", "words"]) & ~frame["picked_by"].isin(["oracle"])]
    return Study(
        tuple(ks),
        frame.reset_index(drop=True),
        peaks(picks, gold, clusters, ks) if known else [],
        cycles,
        _counts(judge, candidates, gold),
    )


def write_study(folder: Path, study: Study, run: Mapping[str, Any], *, title: str, unit: str, caption: str) -> Path:
    """All files of a study; returns ``results.json``. ``run`` are facts about judge, candidates, gold and commit."""
    measure = "gold" if "gold" in set(study.curves["measure"]) else "reward"
    write_table(folder, "best_of_n", gold_table(study.curves, measure), f"{title}: {measure} of the pick; {caption}")
    if study.peaks:
        write_table(folder, "peaks", peak_table(study.peaks), f"{title}: where gold is highest; {caption}")
    best_of_n_picture(folder / "best_of_n.png", study.curves, title, unit)
    return replace_file(folder / "results.json", sealed_text(document(study) | {"run": dict(run)}, indent=1))


def document(study: Study) -> dict[str, Any]:
    """A study as JSON; an unknown number is null. ``gold_unknown`` and others count responses over all queries."""
    return {
        "schema_version": SCHEMA_VERSION,
        "k": list(study.ks),
        "kl_at_most": {str(k): round(kl_bound(k), 4) for k in study.ks},
        "counts": study.counts,
        "cycles": with_nulls(study.cycles and asdict(study.cycles)),
        "peaks": with_nulls([asdict(peak) for peak in study.peaks]),
        "curves": with_nulls(study.curves.to_dict("records")),
    }


def peak_table(found: Sequence[Peak]) -> pd.DataFrame:
    """A picker a row; a loss is shown with its interval."""
    rows = [(peak.picked_by, peak.k, peak.largest, _shown(peak.loss) if peak.loss else "–", peak.n) for peak in found]
    return pd.DataFrame(rows, columns=["picked_by", "peak_k", "largest_k", "loss_at_largest_k", "n"])


def _shown(found: Interval) -> str:
    return number(found.mean, found.low, found.high)


def _counts(judge: Picks, candidates: Sequence[Candidates], gold: Floats) -> dict[str, int]:
    responses = sum(len(own.responses) for own in candidates)
    there = ~np.isnan(gold)
    unread = 0 if judge.scores is None else int((there & np.isnan(judge.scores)).sum())
    found = Counter(queries=len(candidates), prompts=len({own.cluster for own in candidates}), responses=responses)
    found.update(gold_unknown=responses - int(there.sum()), unread=unread, **judge.counts)
    return dict(found)
