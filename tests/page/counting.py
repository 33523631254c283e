"""A reader of the kind that an index needs, without a model: it counts what responses have and knows a dozen words."""

import hashlib
import math
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from crm.criteria.pool import Criterion
from crm.judges.sentence_reader import bundled_reader
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.index import IndexedBank
from crm.leaderboard.own_words import CriteriaReader
from crm.page.ranker import Ranker
from crm.page.scorers import IndexScorer

TRAITS = {
    "short": r"\w+",
    "lists": r"^ *[-*\d]",
    "headings": r"[#:]",
    "simple": r"\w{9,}",
    "examples": r"example|instance",
    "figures": r"\d",
    "lively": "!",
    "questions": r"\?",
}
"""Names, and what is counted; a response has more of "short" and "simple" the fewer there are."""
KNOWN = {
    r"concise|short|brief|direct": (0, 1),
    r"detailed|long": (0, -1),
    r"bullet|list": (1, 1),
    r"prose": (1, -1),
    r"heading|bold": (2, 1),
    r"plain": (2, -1),
    r"simple": (3, 1),
    r"sophisticated": (3, -1),
    r"no examples": (4, -1),
    r"example": (4, 1),
    r"few numbers": (5, -1),
    r"number|figure|evidence|data": (5, 1),
    r"sober": (6, -1),
    r"lively|humor": (6, 1),
    r"no questions": (7, -1),
    r"questions": (7, 1),
}


class CountingReader:
    """As a `LateReader` to an index: ``size`` numbers a response and a user, whose product is the score."""

    size = len(TRAITS)
    precision = "32-true"
    shared = torch.zeros(len(TRAITS))
    encoder = SimpleNamespace(digest="counting", max_length=2048)

    def responses(self, conversations: Sequence[Any]) -> torch.Tensor:
        """(N, D) logs of counts."""
        return torch.tensor([_counts(answer[-1].content) for _, answer in conversations])

    def criterion_vectors(self, criteria: Sequence[str]) -> torch.Tensor:
        """(N, D): the first trait that a criterion names, on top of next to nothing."""
        return torch.stack([_user_vector(text) for text in criteria])


def counting_ranker(bank: Bank, folder: Any, *own: Criterion) -> Ranker:
    """Rankings of ``bank`` at once, by what the package's reader understands and by ``own`` criteria."""
    reader: Any = CountingReader()
    indexed = IndexedBank(reader, bank, folder, model_digest="counting", progress=False)
    return Ranker(IndexScorer(indexed, reading(*own)))


def reading(*own: Criterion) -> CriteriaReader:
    """As `crm.page.run` has it."""
    return CriteriaReader(bundled_reader(), lambda *_: ("counting", "", ""), {each.name: each for each in own})


def _counts(text: str) -> list[float]:
    found = [math.log1p(len(re.findall(pattern, text, re.MULTILINE))) for pattern in TRAITS.values()]
    return [-count if name in ("short", "simple") else count for name, count in zip(TRAITS, found, strict=True)]


def _user_vector(text: str) -> torch.Tensor:
    seed = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    vector = 0.02 * torch.randn(len(TRAITS), generator=torch.Generator().manual_seed(seed))
    for words, (trait, side) in KNOWN.items():
        if re.search(words, text, re.IGNORECASE):
            vector[trait] += 8.0 * side
            break
    return vector
