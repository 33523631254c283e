"""What counts as a word, and which texts are the same. In: texts. Out: settings of a vectorizer; distinct texts.

Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give one word a character, so that two
neighbours make a 2-gram; elsewhere a word has at least two letters or digits, combining marks included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff"
WORD_PATTERN = rf"[{_UNSPACED}]|(?:[^\W{_UNSPACED}]|[{_MARKS}]){{2,}}"
# What is left of "don't", "I've" and the like once the apostrophe has cut them.
_CUT_OFF = (
    "aren",
    "couldn",
    "didn",
    "doesn",
    "don",
    "hasn",
    "haven",
    "isn",
    "ll",
    "re",
    "shouldn",
    "ve",
    "wasn",
    "wouldn",
)
STOP_WORDS: list[str] = sorted(ENGLISH_STOP_WORDS.union(_CUT_OFF))


@dataclass(frozen=True)
class Distinct:
    """Distinct texts in sorted order; text i of the input is ``texts[place[i]]``, and ``place`` has shape (n,)."""

    texts: list[str]
    place: npt.NDArray[np.int64]


def distinct(texts: Sequence[str]) -> Distinct:
    """Sort and deduplicate, so that nothing computed from ``Distinct.texts`` depends on the order of rows.

    Raises ``ValueError`` for no texts and for an item that is not text.
    """
    if isinstance(texts, str) or not len(texts):
        raise ValueError("texts: expected a list with at least one text; check that the file or split has rows")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts[{index}]: expected text, got {type(text).__name__}; leave the row out or use ''")
    ordered = sorted(set(texts))
    at = {text: index for index, text in enumerate(ordered)}
    return Distinct(ordered, np.array([at[text] for text in texts], dtype=np.int64))
