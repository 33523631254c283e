"""Public sets of a chosen response and another: LLMBar, Personalized RewardBench."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from crm.data.fields import At, PublicRow, Text, identity, rows_of
from crm.data.public.pairs import chosen_pair, wordings_of
from crm.io.draws import wordings
from crm.io.rows import Intake
from crm.io.words import first_words
from crm.schema import GENERIC_CRITERION, Preference

LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)


class _LLMBar(PublicRow):
    input: Text
    output_1: str
    output_2: str
    label: Literal[1, 2]


@rows_of(*(f"{subset}/dataset.json" for subset in LLMBAR_SUBSETS), model=_LLMBar)
def llmbar(row: _LLMBar, at: At) -> Preference:
    """LLMBar: of two outputs one follows the instruction, which is the criterion. Sides are as published.

    The 59 pairs of ``Normal`` come back in ``Negation``, where the prompt first asks for an unhelpful answer and the
    other output wins. The topic is the subset. The folder ``Processed`` has other authors' sets and is not read.
    """
    subset = at.file.parent.name
    name = f"llmbar-{subset}-{at.number}"
    outputs = (row.output_1, row.output_2) if row.label == 1 else (row.output_2, row.output_1)
    return chosen_pair(
        name,
        row.input,
        *outputs,
        first=row.label == 1,
        source=f"llmbar/{'construction' if at.file.parent.parent.name == 'CaseStudy' else 'human'}",
        topic=subset,
        criteria=wordings(wordings_of("llmbar")["instruction following"], 0, name),
        criteria_topic="instruction following",
    )


PROFILES = ("none", "first", "bm25")
"""What becomes the criteria of the chosen side: nothing, the first posts in the file, or the most relevant to the
question."""


class _Post(PublicRow):
    text: str


class _Asked(PublicRow):
    id: str | int
    question: Text
    chosen: str
    rejected: str
    category: str | None = None
    profile: list[_Post] | None = None


def personalized_rewardbench(
    path: Path, reading: Intake, *, profile: str = "none", posts: int = 10, max_words: int = 0
) -> Iterator[Preference]:
    """Records ``personalized-<id>`` of one file, or of every data file of a folder.

    At most ``posts`` posts are shown, and ``max_words`` words of each (0: all). The topic is the ``category``.
    """

    @rows_of(model=_Asked, drop_identical=True)
    def records(row: _Asked, at: At) -> Preference:
        known = [post.text for post in row.profile or () if post.text.strip()]
        shown: list[str] = []
        criteria: tuple[str, ...] = ()
        if profile != "none":
            shown = (by_bm25(row.question, known) if profile == "bm25" else known)[:posts]
            stated = (f"Has asked before: {first_words(' '.join(post.split()), max_words)}" for post in shown)
            criteria = tuple(stated) or (GENERIC_CRITERION,)
        at.counts["profile_texts_shown"] += len(shown)
        at.counts["profile_texts_left_out"] += len(known) - len(shown)
        name, source = f"personalized-{identity(row.id, 'id', at.repeats)}", "personalized_rewardbench/construction"
        given = (name, row.question, row.chosen, row.rejected)
        return chosen_pair(*given, source=source, topic=row.category or None, criteria=criteria)

    return records(path, reading)


def by_bm25(question: str, posts: Sequence[str]) -> list[str]:
    """Posts by falling BM25 for the question (Lucene's form, k1 = 1.5, b = 0.75), equal ones in their own order."""
    try:
        import bm25s  # an extra
    except ImportError as error:
        raise ValueError(
            f"bm25s: cannot be imported ({error}); run `pip install 'crm-leaderboard[profiles]'`"
        ) from None
    wanted, documents = _words(question), [_words(post) for post in posts]
    if not wanted or not any(documents):
        return list(posts)
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
    index.index(documents, show_progress=False)
    scores = index.get_scores(wanted)
    return [posts[at] for at in sorted(range(len(posts)), key=lambda at: -scores[at])]


def _words(text: str) -> list[str]:
    return re.findall(r"\w{2,}", text.casefold())
