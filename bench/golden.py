"""Record what commands and formulas give, or compare with an earlier record of another commit.

    python -m bench.golden record golden.json       # a few minutes on one thread
    python -m bench.golden compare golden.json      # a table; exit code 1 where something differs

Digests must be equal; numbers may differ by the tolerance of their row, relative to the largest of them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SMALL = ("data.train=2000", "data.validation=100", "data.suite=60", "trainer=cpu", "trainer.threads=1")
RUN = ("schedule.max_steps=200", "schedule.validate_every=100", "trainer.progress=false")
TOLERANCE = {"training": 1e-5, "predictions": 1e-5, "plain transformers": 1e-5, "leaderboard": 1e-9, "index": 1e-5}
"""Of the sections that hold numbers; `statistics` is held to 1e-12."""
TIMES = ("time", "second", "tokens", "mfu", "memory")
"""Columns of ``metrics.csv`` that depend on the machine hold one of these words."""


def digest(rows: Iterable[Any]) -> str:
    """SHA-256 of rows as JSON lines."""
    found = hashlib.sha256()
    for row in rows:
        found.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return found.hexdigest()


def plain(row: Any) -> list[Any]:
    """A vote as lists of strings."""
    turns = [[[turn.role, turn.content] for turn in part] for part in (row.prompt, row.response_a, row.response_b)]
    return [row.id, *turns, list(row.criteria_a), list(row.criteria_b), row.winner, row.topic]


def splits(name: str, **settings: Any) -> dict[str, list[Any]]:
    """The parts of a source."""
    from crm.config import compose
    from crm.data.load import load_data

    words = [f"data={name}", *(f"data.{key}={value}" for key, value in settings.items())]
    config = compose("train", words, Path("run")).data
    found = load_data(config)
    return {"train": found.train, "validation": found.validation, **found.suites}


def comparisons() -> list[Any]:
    """The first 200 training comparisons of the demo."""
    from crm.data.comparisons import make_comparisons

    rows = splits("simulation", train=400, validation=50, suite=20)["train"]
    made, _ = make_comparisons(rows, direction="random", noise="none", pool=None, seed=42, epoch=0)
    return made[:200]


def sources() -> dict[str, Any]:
    """Texts, votes and parts of the simulation, and which prompt is in which part of every public set at hand."""
    parts = splits("simulation", train=400, validation=50, suite=20)
    found = {f"simulation {part}": digest(map(plain, rows)) for part, rows in parts.items()}
    root = os.environ.get("CRM_DATA_ROOT", "")
    for name in ("dsp", "concise_verbose", "summeval", "llmbar", "rmb", "pandalm") if root else ():
        try:
            parts = splits(name, root=root)
        except ValueError:
            continue
        found |= {f"{name} {part}": digest(row.id for row in rows) for part, rows in parts.items()}
    return found


def draws() -> dict[str, Any]:
    """Comparisons of seed 42 in two epochs, for every direction and noise."""
    from crm.data.comparisons import make_comparisons
    from crm.data.noise import CriteriaPool

    rows = splits("simulation", train=400, validation=50, suite=20)["train"]
    pool, found = CriteriaPool.from_preferences(rows), {}
    for direction, noise, epoch in product(
        ("original", "reverse", "random", "both"), ("none", "add", "remove", "replace", "random"), (0, 1)
    ):
        made, counts = make_comparisons(rows, direction=direction, noise=noise, pool=pool, seed=42, epoch=epoch)
        found[f"{direction} {noise} epoch {epoch}"] = digest([(row.id, row.criteria, row.label) for row in made]) + str(
            sorted(counts.items())
        )
    return found


def encoding() -> dict[str, Any]:
    """Token ids and read positions of every head, in both orders by turns."""
    from crm.model.backbone import train_tokenizer
    from crm.model.encoding import Encoder, token_ids

    rows = comparisons()
    tokenizer = train_tokenizer([row.response_a[-1].content for row in rows], vocab_size=700)
    found = {}
    for head in ("scalar", "pairwise", "pairwise_span", "late"):
        encoder = Encoder(tokenizer, head, 2048)
        read = [encoder.encode(row, "ba" if place % 2 else "ab") for place, row in enumerate(rows)]
        found[head] = digest(
            (
                [token_ids(part) for part in each.sequences],
                each.reads,
                [(at, *span) for at, span in enumerate(each.spans)],
                each.target,
            )
            for each in read
            if each
        )
    return found


def statistics() -> dict[str, Any]:
    """Formulas on fixed numbers."""
    from crm.report.statistics import cluster_interval, expected_calibration_error, holm, rank_correlation

    rng = np.random.default_rng(0)
    logits, groups = rng.normal(size=300), [str(value) for value in rng.integers(0, 80, 300)]
    labels = (rng.random(300) < 0.6).astype(int)
    interval = cluster_interval((logits > 0).astype(float), groups)
    first, second = (rng.normal(size=12) for _ in range(2))
    return {
        "interval": [interval.mean, interval.standard_error, interval.low, interval.high],
        "calibration": [float(expected_calibration_error(logits, labels))],
        "holm": list(map(float, holm(rng.random(9)))),
        "tau": [rank_correlation(first, second)],
    }


def command(folder: Path, *words: str) -> None:
    """Run one of our commands in ``folder``."""
    threads = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(ROOT / words[0]), *words[1:]], cwd=folder, env=threads, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr[-2000:]}")


def numbers(path: Path, leave_out: tuple[str, ...] = (), skip: int = 0) -> dict[str, list[float]]:
    """The numeric columns of a CSV file behind ``skip`` lines; empty cells are left out."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()[skip:]))
    found: dict[str, list[float]] = {}
    for name in rows[0]:
        try:
            values = [float(row[name]) for row in rows if row[name]]
        except ValueError:
            continue
        if not any(word in name for word in leave_out):
            found[name] = values
    return found


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    """Train, evaluate, load with plain transformers and rank, with the demo's two heads."""
    found: dict[str, dict[str, Any]] = {name: {} for name in TOLERANCE}
    for head in ("scalar", "late"):
        command(folder, "train.py", f"experiment=demo_{head}", *SMALL, *RUN, f"hydra.run.dir={head}")
        command(folder, "evaluate.py", f"checkpoint={head}", "suite=D+,D-", f"predictions={head}_predictions")
        for column, values in numbers(folder / head / "metrics.csv", TIMES).items():
            found["training"][f"{head} {column}"] = values
        files = (folder / f"{head}_predictions").rglob("*.jsonl")
        read = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        read.sort(key=lambda row: (row["suite"], row["comparison_id"], row["order"]))
        found["predictions"][head] = [row["preference_logit"] for row in read]
        ranked = ("bank=simulated", "bank.queries=24", 'criteria=["Prefers concise answers"]')
        command(
            folder,
            "leaderboard.py",
            f"checkpoint={head}",
            *ranked,
            f"hydra.run.dir={head}_board",
            f"predictions={head}_index",
        )
        for column, values in numbers(folder / f"{head}_board" / "leaderboard.csv", skip=1).items():
            found["leaderboard"][f"{head} {column}"] = values
    found["plain transformers"]["scalar"] = plain_scores(folder / "scalar/model")
    for path in sorted((folder / "late_index").rglob("*.npy")):
        found["index"][str(len(found["index"]))] = np.load(path).astype(float).ravel()[:4096].tolist()
    return found


def plain_scores(model: Path) -> list[float]:
    """Scores of the exported model, by transformers alone."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    plain = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval()
    scores = []
    for row in comparisons()[:20]:
        system = "This user cares about:\n" + "\n".join(f"- {criterion}" for criterion in row.criteria)
        turns = [{"role": "system", "content": system}]
        turns += [{"role": turn.role, "content": turn.content} for turn in (*row.prompt, *row.response_a)]
        with torch.inference_mode():
            encoded: Any = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
            scores.append(plain(**encoded).logits.item())
    return scores


def collect() -> dict[str, dict[str, Any]]:
    """All sections."""
    exact: tuple[Callable[[], dict[str, Any]], ...] = (sources, draws, encoding, statistics)
    found = {section.__name__: section() for section in exact}
    with tempfile.TemporaryDirectory() as folder:
        return found | runs(Path(folder))


def differs(ours: Any, theirs: Any) -> float:
    """0 where equal, else how far apart, relative to the largest; infinite for digests and other lengths."""
    if isinstance(ours, str) or ours is None or theirs is None or len(ours) != len(theirs):
        return 0.0 if ours == theirs else float("inf")
    apart, largest = np.abs(np.subtract(ours, theirs)), np.abs([*theirs, 1e-9])
    return float(apart.max(initial=0) / largest.max())


def main(action: str, path: str) -> int:
    """The exit code."""
    found = collect()
    if action == "record":
        Path(path).write_text(json.dumps(found), encoding="utf-8")
        return 0
    before, failed = json.loads(Path(path).read_text(encoding="utf-8")), 0
    for section in before:
        names = before[section].keys() | found[section].keys()
        worst = max((differs(found[section].get(n), before[section].get(n)) for n in names), default=0.0)
        limit = TOLERANCE.get(section, 1e-12)
        failed += worst > limit
        print(f"| {section} | {len(names)} | {worst:.1e} | {limit:.0e} | {'differs' if worst > limit else 'equal'} |")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
