"""The conversations of a bank, each once. In: comparisons and an encoder. Out: token ids in passes, who needs which.

With the criteria last a prompt is a conversation (query and response, or responses) and then the criteria, so that
the conversation's part is the same for every user. So is the beginning of the criteria's part, the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from crm.model.batching.forest import common_prefix
from crm.model.encoding import Encoder, Order, token_ids
from crm.schema import GENERIC_CRITERION, Comparison, Message

PASS_TOKENS = 8192
"""Tokens of one pass, padding included: larger ones are no faster (measured on CPU) and take more memory at once."""
_PROBES = (GENERIC_CRITERION, "a", "Z", "7", "(", "«", "東京")
"""Criteria that begin so differently that what their prompts begin with is the same for nearly all."""


class KeepingError(ValueError):
    """A model whose reading of a bank is another for every user, or that cannot go on from a kept one."""


Turns = tuple[Message, ...]
Conversation = tuple[Turns, ...]
"""A prompt and the responses shown after it, in their order."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What follows every conversation for one user. ``length`` is that of the whole part, criteria and marks."""

    length: int
    shared: int
    """How many tokens of the lead it begins with"""
    ids: tuple[int, ...]
    """The tokens after those, one or more"""
    reads: tuple[int, ...]
    """Positions in ``ids`` at which the head reads: one for the scalar head, two for the joint heads"""


class Conversations:
    """N distinct conversations, numbered by length, each followed by the ``lead`` that all users' criteria share.

    ``texts[n]`` are token ids. ``starts`` cut the numbers into passes of `PASS_TOKENS`: pass p reads the texts from
    ``starts[p]`` to ``starts[p + 1]``. With ``by_query`` they are numbered query by query, and no pass holds two: more
    passes, but whoever asks for some queries only waits for theirs alone. Conversations too long for any criteria are
    left out.
    Raises `KeepingError` for an encoder with the criteria first, whose texts depend on the user, or a late head.
    """

    def __init__(self, encoder: Encoder, comparisons: Sequence[Comparison], *, by_query: bool = False) -> None:
        if encoder.kind.apart:
            raise KeepingError(
                f"head={encoder.head}: reads responses apart from criteria, so there is nothing to go on from; its "
                "responses are kept as vectors, in an index"
            )
        if encoder.prompt_order != "criteria_last":
            raise KeepingError(
                f"prompt_order={encoder.prompt_order}: what a model with the criteria first makes of a response is "
                "another for every user; train with prompt=criteria_last to keep it"
            )
        self.encoder = encoder
        self.lead = lead_of(encoder)
        room = encoder.max_length - len(self.lead)
        ids: dict[Conversation, tuple[int, ...]] = {}
        query: dict[tuple[int, ...], int] = {}
        prompts: dict[Turns, int] = {}
        for row in comparisons:
            for order in ("ab", "ba"):
                for shown in self._shown(row, order):
                    if shown not in ids:
                        ids[shown] = token_ids(encoder.conversation_segments(*shown))
                        place = prompts.setdefault(row.prompt, len(prompts))
                        query.setdefault(ids[shown], place if by_query else 0)
        fitting = sorted((text for text in query if len(text) < room), key=lambda text: (query[text], len(text), text))
        number = {text: index for index, text in enumerate(fitting)}
        self._numbers = {shown: number[text] for shown, text in ids.items() if text in number}
        self.texts = [text + self.lead for text in fitting]
        self.starts = _cut([len(text) for text in self.texts], [query[text] for text in fitting])

    def of(self, comparison: Comparison, order: Order) -> tuple[int, ...] | None:
        """Numbers of the conversations that a comparison in one order asks for; None where one is not known."""
        numbers = [self._numbers.get(shown) for shown in self._shown(comparison, order)]
        known = tuple(number for number in numbers if number is not None)
        return known if len(known) == len(numbers) else None

    def continuation(self, criteria: Sequence[str]) -> Continuation:
        """What a user's criteria add."""
        segments = self.encoder.criteria_segments(criteria)
        ids = token_ids(segments)
        last = len(ids) - 1
        first = last - len(segments[-1].ids) if self.encoder.kind.spans else last
        shared = min(common_prefix(self.lead, ids), first)
        reads = (first, last) if self.encoder.kind.joint else (last,)
        return Continuation(len(ids), shared, ids[shared:], tuple(read - shared for read in reads))

    def fits(self, number: int, continuation: Continuation) -> bool:
        """Whether the model takes a conversation with these criteria."""
        return len(self.texts[number]) - len(self.lead) + continuation.length <= self.encoder.max_length

    def _shown(self, comparison: Comparison, order: Order) -> list[Conversation]:
        first, second = comparison.response_a, comparison.response_b
        if order == "ba":
            first, second = second, first
        if not self.encoder.kind.joint:
            return [(comparison.prompt, first), (comparison.prompt, second)]
        return [(comparison.prompt, first, second)]


def lead_of(encoder: Encoder) -> tuple[int, ...]:
    """Token ids that the criteria's part begins with for all `_PROBES`: the instruction, or most of it."""
    parts = [encoder.criteria_segments((probe,))[0].ids for probe in _PROBES]
    return reduce(lambda known, other: known[: common_prefix(known, other)], parts)


def _cut(lengths: Sequence[int], queries: Sequence[int]) -> list[int]:
    """Where passes begin, and the end. ``lengths`` ascend within a query, so that the last of a pass is its width."""
    starts = [0]
    for index, length in enumerate(lengths):
        first = starts[-1]
        if index > first and (queries[index] != queries[first] or (index + 1 - first) * length > PASS_TOKENS):
            starts.append(index)
    return [*starts, len(lengths)] if lengths else [0]
