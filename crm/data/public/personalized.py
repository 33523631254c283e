"""Personalized RewardBench (arXiv 2604.07343), without criteria by default.

``rubric_aspects`` and ``narrative`` say what the asker wanted: the chosen response was written to follow the rubric and
the rejected one to break it. A judge must not see them, so they are withheld, as the authors ask. ``profile`` holds
what the asker posted before, which a judge may see: see `PROFILES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from crm.data.fields import At, Row, any_text, asked, identity, items, optional_text, require, rows_of
from crm.data.public.pairs import chosen_pair
from crm.io.intake import Intake
from crm.io.words import first_words
from crm.schema import GENERIC_CRITERION, Preference, RecordError, query_of, short, texts

SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
PROFILES = ("none", "first", "bm25", "rubric")
"""What becomes the criteria of the chosen side: nothing, the first posts in the file, the most relevant to the
question, or the rubric, which is the upper bound of a judge."""
WORDING = "Has asked before: {}"


def read(
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
        known = [post for post in _listed(row, "profile", "text") if post.strip()]
        shown: list[str] = []
        if profile == "rubric":
            criteria = texts(_listed(row, "rubric_aspects", "aspect"), "rubric_aspects")
            if not criteria:
                raise RecordError("rubric_aspects", "an empty list; the oracle needs at least one aspect")
        elif profile == "none":
            criteria = ()
        else:
            shown = (by_bm25(query_of(prompt), known) if profile == "bm25" else known)[:posts]
            stated = (WORDING.format(first_words(" ".join(post.split()), max_words)) for post in shown)
            criteria = tuple(stated) or (GENERIC_CRITERION,)
        at.counts["profile_texts_shown"] += len(shown)
        at.counts["profile_texts_left_out"] += len(known) - len(shown)
        at.counts["rows_with_rubric_shown"] += profile == "rubric"
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


def _listed(row: Row, field: str, key: str) -> list[str]:
    """What a list of objects has under ``key``."""
    found = []
    for number, entry in enumerate([] if row.get(field) is None else items(row[field], field)):
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
            raise RecordError(f"{field}[{number}]", f"expected an object with the key {key}, got {short(entry)}")
        found.append(entry[key])
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
