"""Public sets of a chosen response and another: LLMBar, RewardBench, Personalized RewardBench."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from crm.data.fields import At, PublicRow, Row, Text, any_text, asked, identity, items, optional_text, require, rows_of
from crm.data.public.pairs import chosen_pair, wordings_of
from crm.io.draws import turn, wordings
from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import GENERIC_CRITERION, Preference, RecordError, query_of, short

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


@rows_of(drop_identical=True)
def rewardbench(row: Row, at: At) -> Preference:
    """RewardBench (arXiv 2403.13787). The topic is the subset. Which side is A is drawn."""
    sides = ("chosen", "rejected")
    require(row, ("prompt", *sides))
    if "num_correct" in row or isinstance(row["chosen"], list):
        raise RecordError("chosen", "a list, as in RewardBench 2, which evaluate.py suite=reward_bench_2 reads")
    prompt = asked(row["prompt"], "prompt")
    chosen, rejected = (turn("assistant", any_text(row[side], side)) for side in sides)
    name = f"rewardbench-{identity(row.get('id'), 'id', at.repeats, prompt, chosen, rejected)}"
    author, other = (optional_text(row.get(f"{side}_model"), f"{side}_model") for side in sides)
    topic = optional_text(row.get("subset"), "subset")
    return chosen_pair(name, prompt, chosen, rejected, source="rewardbench", topic=topic, authors=(author, other))


SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
PROFILES = ("none", "first", "bm25")
"""What becomes the criteria of the chosen side: nothing, the first posts in the file, or the most relevant to the
question."""
WORDING = "Has asked before: {}"


def personalized_rewardbench(
    path: Path, reading: Intake, *, profile: str = "none", posts: int = 10, max_words: int = 0
) -> Iterator[Preference]:
    """Records ``personalized-<id>`` of one file, or of every data file of a folder.

    At most ``posts`` posts are shown, and ``max_words`` words of each (0: all). The topic is the subset where the
    files of a folder are named after the three of them, else ``category``, which is finer.
    """

    @rows_of(drop_identical=True)
    def records(row: Row, at: At) -> Preference:
        require(row, ("id", "question", "chosen", "rejected"))
        prompt = asked(any_text(row["question"], "question"), "question")
        chosen, rejected = (any_text(row[name], name) for name in ("chosen", "rejected"))
        known = [post for post in _posts(row) if post.strip()]
        shown: list[str] = []
        criteria: tuple[str, ...] = ()
        if profile != "none":
            shown = (by_bm25(query_of(prompt), known) if profile == "bm25" else known)[:posts]
            stated = (WORDING.format(first_words(" ".join(post.split()), max_words)) for post in shown)
            criteria = tuple(stated) or (GENERIC_CRITERION,)
        at.counts["profile_texts_shown"] += len(shown)
        at.counts["profile_texts_left_out"] += len(known) - len(shown)
        subset = next((name for name in SUBSETS if name in str(at.file.relative_to(at.source))), None)
        return chosen_pair(
            f"personalized-{identity(row['id'], 'id', at.repeats)}",
            prompt,
            chosen,
            rejected,
            source="personalized_rewardbench/construction",
            topic=subset or optional_text(row.get("category"), "category"),
            criteria=criteria,
        )

    return records(path, reading)


def _posts(row: Row) -> list[str]:
    """The texts of a user's profile."""
    found = []
    for number, entry in enumerate(items(row["profile"], "profile") if row.get("profile") is not None else []):
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            raise RecordError(f"profile[{number}]", f"expected an object with the key text, got {short(entry)}")
        found.append(entry["text"])
    return found


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
