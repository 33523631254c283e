"""What the contests read: encoded comparisons of random tokens, of given lengths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from crm.data.simulation.arena import lexicon_texts
from crm.model.backbone import train_tokenizer
from crm.model.encoding import EncodedComparison, Order
from crm.schema import Comparison, Message

VOCABULARY = 2048
LONGEST = 1024
"""Tokens of a sequence at most: `trl.RewardTrainer` leaves out longer ones without a word."""
CRITERIA_LENGTH, QUERY_LENGTH = 40, 60
"""Tokens of the synthetic criteria and queries."""
LONGEST_RESPONSE = LONGEST - CRITERIA_LENGTH - QUERY_LENGTH
VOTES_SPREAD = 0.9
"""Standard deviation of the logarithm of a response's tokens; 1.0 in people's votes between chat models (VibeCheck's
500 LMArena votes in SmolLM2's tokens, median 364), which the longest response cut here brings down a little."""
FIRST_ID = 4
"""Lowest id of synthetic text: those below are the control tokens, the pad token first."""
TEXT = (Message("user", "?"),)


@lru_cache(maxsize=2)
def bench_tokenizer(seed: int) -> Any:
    """A byte-level tokenizer of `VOCABULARY` tokens, trained on the arena's lexicon."""
    return train_tokenizer(lexicon_texts(seed), VOCABULARY)


def synthetic_pairs(head: str, count: int, length: int, seed: int, spread: float = 0.1) -> list[EncodedComparison]:
    """``count`` pairs of random ids; lengths of responses are log-normal about ``length`` tokens."""
    draw = Draw(seed)
    return [
        from_ids(head, draw.ids(CRITERIA_LENGTH), draw.ids(QUERY_LENGTH), draw.around(length, spread),
                 draw.around(length, spread), name=str(index))
        for index in range(count)
    ]  # fmt: skip


def synthetic_queries(
    head: str, count: int, candidates: int, length: int, seed: int, *, spread: float = 0.1, swapped: bool = False
) -> list[list[EncodedComparison]]:
    """``count`` queries of one user, ``candidates`` responses each; the baseline stands first unless ``swapped``."""
    draw = Draw(seed)
    criteria = draw.ids(CRITERIA_LENGTH)
    found = []
    for index in range(count):
        query, baseline = draw.ids(QUERY_LENGTH), draw.around(length, spread)
        rows = []
        for candidate in range(candidates):
            shown = (baseline, draw.around(length, spread))
            first, second = shown[::-1] if swapped else shown
            rows.append(from_ids(head, criteria, query, first, second, name=f"{index}-{candidate}"))
        found.append(rows)
    return found


class Draw:
    """Random token ids: neither control tokens nor the last of the vocabulary, which stands in no text."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def ids(self, length: int) -> tuple[int, ...]:
        """As many as ``length``."""
        drawn = torch.randint(FIRST_ID, VOCABULARY - 1, (length,), generator=self._generator)
        return tuple(drawn.tolist())

    def around(self, length: int, spread: float) -> tuple[int, ...]:
        """A log-normal number of them about ``length``, at least one."""
        factor = torch.randn(1, generator=self._generator).mul(spread).exp().item()
        return self.ids(min(max(round(length * factor), 1), LONGEST_RESPONSE))


def from_ids(
    head: str,
    criteria: Sequence[int],
    query: Sequence[int],
    first: Sequence[int],
    second: Sequence[int],
    *,
    order: Order = "ab",
    target: float = 1.0,
    name: str = "",
) -> EncodedComparison:
    """What `Encoder.encode` would give if these ids were the parts of a prompt; ``first`` is shown first."""
    row = Comparison(name, name, (), TEXT, TEXT, TEXT, "tie")
    start, one, other = (tuple(criteria), tuple(query)), tuple(first), tuple(second)
    if head == "scalar":
        before = len(criteria) + len(query) - 1
        reads = ((0, before + len(first)), (1, before + len(second)))
        return EncodedComparison(row, order, ((*start, one), (*start, other)), reads, target)
    last = len(criteria) + len(query) + len(first) + len(second) - 1
    end_of_first = last - len(second) if head == "pairwise_span" else last
    return EncodedComparison(row, order, ((*start, one, other),), ((0, end_of_first), (0, last)), target)
