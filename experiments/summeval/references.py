"""How well can SummEval's flips be guessed without reading?

Accuracy of two references on held-out documents: which system wrote the summary, and ten shallow features of its text.

``python -m experiments.summeval.references`` (needs the data under ``data.root``; two seconds)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crm.io.draws import hold_out
from crm.io.rows import Intake
from experiments.command import answered
from experiments.sources.summeval import SHARES, WORDINGS, Rating, read_ratings

ROOT = Path(os.environ.get("CRM_DATA_ROOT", "data"))
GAP = 0.5
"""Points by which the ratings of both aspects have to differ, in opposite directions."""


def main(seed: int = 1) -> None:
    """Print both accuracies; ``seed`` is that of the split (``data.seed``)."""
    rows = read_ratings(ROOT / "summeval", Intake(strict=True))
    held_out, _ = hold_out((row.document for row in rows), SHARES, seed)
    train, test = ([row for row in rows if (row.document in held_out) == held] for held in (False, True))
    for name, score in (("system", by_system(train)), ("ten features, ridge", by_features(train))):
        right = verdicts(test, score)
        print(f"{name}: {np.mean(right):.3f} of {len(right)} verdicts, {len(held_out)} documents held out")


def by_system(train: list[Rating]) -> Callable[[Rating, str], float]:
    """The mean rating of the system that wrote it."""
    known = {
        (row.system, aspect): np.mean([other.scores[aspect] for other in train if other.system == row.system])
        for row in {row.system: row for row in train}.values()
        for aspect in WORDINGS
    }
    return lambda row, aspect: float(known[row.system, aspect])


def by_features(train: list[Rating]) -> Callable[[Rating, str], float]:
    """Ridge regression of each aspect on `features`."""
    matrix = np.array([features(row) for row in train])
    fitted = {
        aspect: make_pipeline(StandardScaler(), Ridge(10.0)).fit(matrix, [row.scores[aspect] for row in train])
        for aspect in WORDINGS
    }
    return lambda row, aspect: float(fitted[aspect].predict([features(row)])[0])


def features(row: Rating) -> list[float]:
    """Length, length squared, sentences, shared words and word pairs with the article, repetition, and its form."""
    words, article = row.summary.lower().split(), row.article.lower().split()
    pairs = set(pairwise(article))
    return [
        len(words),
        len(words) ** 2,
        row.summary.count("."),
        float(np.mean([word in set(article) for word in words] or [False])),
        float(np.mean([pair in pairs for pair in pairwise(words)] or [False])),
        len(set(words)) / max(1, len(words)),
        float(row.summary[:1].isupper()),
        row.summary.strip().endswith("."),
        "-lrb-" in row.summary,
        "unk" in words,
    ]


def verdicts(test: list[Rating], score: Callable[[Rating, str], float]) -> list[bool]:
    """For every pair of a document that two aspects decide differently: is each decided as the experts did?"""
    documents: dict[str, list[Rating]] = {}
    for row in test:
        documents.setdefault(row.document, []).append(row)
    found = []
    for rows in documents.values():
        for one, two in combinations(rows, 2):
            for first, second in combinations(WORDINGS, 2):
                gaps = [one.scores[aspect] - two.scores[aspect] for aspect in (first, second)]
                if min(map(abs, gaps)) > GAP and gaps[0] * gaps[1] < 0:
                    for aspect, gap in zip((first, second), gaps, strict=True):
                        found.append((score(one, aspect) - score(two, aspect)) * gap > 0)
    return found


if __name__ == "__main__":
    sys.exit(answered("summeval.references", main))
