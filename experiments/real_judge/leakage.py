"""Queries, LLMs and sentences that training and suites of ``data=tastes`` share.

Equal after folding case and white space, or nearly equal (Jaccard of character 5-grams, `crm.data.splits`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pandas as pd

from crm.data.sampling import turn
from crm.data.splits import NearDuplicates, Splits, plain_text
from crm.schema import Preference, folded, query_of
from experiments.real_judge.source import UNSEEN_TRAITS
from experiments.real_judge.traits import TRAITS, wording

HELD_OUT = {"D": ("queries",), "M": ("queries", "llms"), "C": ("queries", "llms", "sentences")}
"""By suite what training must not have; the others hold out what ``M`` or ``C`` do, and traits."""
HELD_OUT |= {"X": HELD_OUT["M"], "A": HELD_OUT["C"], "L": ("queries", "sentences")}
KINDS = ("queries", "llms", "sentences")


def training_sentences() -> set[str]:
    """All sentences that a judge may be trained on."""
    known = [trait.name for trait in TRAITS if trait.name not in UNSEEN_TRAITS]
    sides = [wording(name, sign) for name in known for sign in (1, -1)]
    return {text for side in sides for text in (*side.training, *side.framed)}


def leakage(splits: Splits, trained_sentences: Collection[str]) -> pd.DataFrame:
    """Columns ``suite``, ``what``, ``n``, ``equal``, ``near``; ``held_out``: whether training must have none of it."""
    known = parts_of(splits.train) | {"sentences": set(trained_sentences)}
    rows = []
    for suite, preferences in splits.suites.items():
        for what, texts in parts_of(preferences).items():
            equal, near = shared(texts, known[what], nearly=what != "llms")
            rows.append((suite, what, len(texts), equal, near, what in HELD_OUT[suite]))
    return pd.DataFrame(rows, columns=["suite", "what", "n", "equal", "near", "held_out"])


def parts_of(rows: Sequence[Preference]) -> dict[str, set[str]]:
    """Different queries, LLMs and sentences of preferences."""
    return {
        "queries": {query_of(row.prompt) for row in rows},
        "llms": {llm for row in rows for llm in (row.author_a, row.author_b) if llm},
        "sentences": {text for row in rows for text in (*row.criteria_a, *row.criteria_b)},
    }


def shared(texts: Iterable[str], known: Iterable[str], *, nearly: bool) -> tuple[int, int]:
    """How many of ``texts`` are among ``known``, and how many more nearly are."""
    exact, index = {folded(text) for text in known}, NearDuplicates()
    for text in sorted(known) if nearly else ():
        index.add(_plain(text))
    others = [text for text in texts if folded(text) not in exact]
    near = sum(any(True for _ in index.like(_plain(text))) for text in others) if nearly else 0
    return len(set(texts)) - len(others), near


def _plain(text: str) -> str:
    return plain_text(turn("user", text))
