"""Comparisons as token ids, and the chat template (ChatML) that is stored with a checkpoint and gives the same ids.

Text from data is never tokenised as a control token: controls are inserted by id. The criteria come first, then the
conversation: query and responses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from crm.model.heads import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION, head_named
from crm.schema import GENERIC_CRITERION, Comparison, Message

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"


def chat_template(head: str) -> str:
    """Jinja source of the template stored with a checkpoint; without a system turn it inserts `GENERIC_CRITERION`.

    Roles beyond the usual three: ``response_a`` and ``response_b`` of the joint heads.
    """
    kind = head_named(head)
    generic = f"{kind.instruction}\\n- {GENERIC_CRITERION}"
    turn = f"'{TURN_START}' + message.role + '\\n' + message.content + '{TURN_END}'"
    turns = (
        f"{{%- for message in messages -%}}{{{{- {turn} -}}}}"
        "{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}{%- endfor -%}"
    )
    if kind.apart:  # criteria are rendered alone, conversations without them
        return turns
    system = f"{{{{- '{TURN_START}system\\n{generic}{TURN_END}\\n' -}}}}"
    return f"{{%- if messages[0].role != 'system' -%}}{system}{{%- endif -%}}{turns}"


Order = Literal["ab", "ba"]
Segment = tuple[int, ...]
"""Token ids of one part of a prompt: criteria, query or a response. The line break between two turns belongs to the
later one."""


def token_ids(segments: Iterable[Segment]) -> tuple[int, ...]:
    """The ids of segments, one after the other."""
    return tuple(chain.from_iterable(segments))


@dataclass(frozen=True, slots=True)
class EncodedComparison:
    """One comparison in one order, ready to be batched.

    ``sequences`` holds two sequences for the scalar head (one a response), one for the joint heads, and for a head that
    reads apart one a response and one a criterion; their segments are in the order of the text. ``reads`` are two
    (sequence, position) pairs: where the head reads for the response shown first and for the one shown second.
    ``target`` is the probability, 0, 1/2 or 1, that the response **shown first** is preferred.
    """

    comparison: Comparison
    order: Order
    sequences: tuple[tuple[Segment, ...], ...]
    reads: tuple[tuple[int, int], tuple[int, int]]
    target: float
    spans: tuple[tuple[int, int], ...] = ()
    """Of a head that reads apart: from which token to which (exclusive) each sequence has its response or criterion."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence."""
        return tuple(sum(map(len, sequence)) for sequence in self.sequences)


def system_text(criteria: Sequence[str], instruction: str) -> str:
    """The system turn: an instruction and one bullet a criterion. Line breaks inside a criterion become spaces."""
    bullets = criteria or (GENERIC_CRITERION,)
    return "\n".join([instruction, *(f"- {' '.join(criterion.split())}" for criterion in bullets)])


def pointwise_messages(
    criteria: Sequence[str], prompt: Sequence[Message], response: Sequence[Message]
) -> list[dict[str, str]]:
    """Messages of the scalar head: criteria, prompt, one response. Any chat template user can build the same."""
    system = {"role": "system", "content": system_text(criteria, POINTWISE_INSTRUCTION)}
    return [system, *_spoken(prompt), *_spoken(response)]


def _spoken(turns: Sequence[Message], speaker: str | None = None) -> list[dict[str, str]]:
    """Turns under their own roles, or under those of a joint head's ``speaker``."""
    if speaker is None:
        return [{"role": turn.role, "content": turn.content} for turn in turns]
    roles = {"assistant": speaker}
    return [{"role": roles.get(turn.role, f"{speaker}_{turn.role}"), "content": turn.content} for turn in turns]


class Encoder:
    """Turns comparisons into segments with one tokenizer. Pure: equal inputs give equal ids.

    A sequence is `criteria_segments` and then `conversation_segments`; neither depends on the other's text.
    Raises ``ValueError`` when the tokenizer lacks the two control tokens of the template.
    """

    def __init__(self, tokenizer: Any, head: str, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.head = head
        self.kind = head_named(head)
        self.max_length = max_length
        self._start, self._end = (_control_id(tokenizer, token) for token in (TURN_START, TURN_END))
        self._newline = tuple(tokenizer.encode("\n", add_special_tokens=False))
        self._body = lru_cache(maxsize=100_000)(self._tokenize)
        # Tokens of a criterion's turn before its own words.
        self.instruction = 1 + len(self._tokenize(f"system\n{self.kind.instruction}\n-"))

    def encode(self, comparison: Comparison, order: Order = "ab") -> EncodedComparison | None:
        """Segments of one reading, or None where a sequence is longer than ``max_length`` (the caller counts it)."""
        sides = comparison.response_a, comparison.response_b
        target = {"a": 1.0, "b": 0.0, "tie": 0.5}[comparison.label]
        if order == "ba":
            sides, target = sides[::-1], 1.0 - target
        sequences = self._sequences(comparison, *sides)
        reads, spans = self._reads(sequences), self._spans(sequences)
        encoded = EncodedComparison(comparison, order, sequences, reads, target, spans)
        return encoded if max(encoded.lengths) <= self.max_length else None

    def criteria_segments(self, criteria: Sequence[str]) -> tuple[Segment, ...]:
        """What depends on the user: the turn with the criteria."""
        turn = {"role": "system", "content": system_text(criteria, self.kind.instruction)}
        return (self._ids_of([turn], follows=False),)

    def conversation_segments(
        self, prompt: Sequence[Message], first: Sequence[Message], second: Sequence[Message] = ()
    ) -> tuple[Segment, ...]:
        """What is the same for every user: query and response, or with a joint head both responses."""
        query = self._ids_of(_spoken(prompt), follows=not self.kind.apart)
        if not self.kind.joint:
            return query, self._ids_of(_spoken(first))
        return query, self._ids_of(_spoken(first, "response_a")), self._ids_of(_spoken(second, "response_b"))

    def _sequences(
        self, comparison: Comparison, first: Sequence[Message], second: Sequence[Message]
    ) -> tuple[tuple[Segment, ...], ...]:
        criteria, prompt = comparison.criteria, comparison.prompt
        if self.kind.joint:
            talks = [self.conversation_segments(prompt, first, second)]
        else:
            talks = [self.conversation_segments(prompt, side) for side in (first, second)]
        if self.kind.apart:
            return (*talks, *(self.criteria_segments((text,)) for text in criteria or (GENERIC_CRITERION,)))
        asked = self.criteria_segments(criteria)
        return tuple(asked + talk for talk in talks)

    def _reads(self, sequences: Sequence[tuple[Segment, ...]]) -> tuple[tuple[int, int], tuple[int, int]]:
        """The end of each response's sequence. A joint head reads the last token second, and the span head first
        what ends before the last response.
        """
        ends = [len(token_ids(sequence)) - 1 for sequence in sequences[:2]]
        if not self.kind.joint:
            return (0, ends[0]), (1, ends[1])
        return (0, ends[0] - len(sequences[0][-1]) if self.kind.spans else ends[0]), (0, ends[0])

    def _spans(self, sequences: Sequence[tuple[Segment, ...]]) -> tuple[tuple[int, int], ...]:
        """The response of a conversation, and of a criterion its own words."""
        if not self.kind.apart:
            return ()
        found = []
        for number, sequence in enumerate(sequences):
            end = len(token_ids(sequence))
            found.append((end - len(sequence[-1]) + (self.instruction if number >= 2 else 0), end))
        return tuple(found)

    def _ids_of(self, turns: Sequence[dict[str, str]], follows: bool = True) -> tuple[int, ...]:
        """Ids of turns, a line break between them and, where the turns follow others, one before the first."""
        ids: tuple[int, ...] = ()
        for turn in turns:
            newline = self._newline if follows or ids else ()
            ids += (*newline, self._start, *self._body(f"{turn['role']}\n{turn['content']}"), self._end)
        return ids

    def _tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False))

    @property
    def digest(self) -> str:
        """Digest of template, instructions, head: predictions under different ones never mix."""
        parts = (chat_template(self.head), POINTWISE_INSTRUCTION, PAIRWISE_INSTRUCTION, GENERIC_CRITERION, self.head)
        return hashlib.sha256("\x00".join((*parts, str(self.max_length))).encode()).hexdigest()[:16]


def _control_id(tokenizer: Any, token: str) -> int:
    ids = tokenizer.encode(token, add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(
            f"model: its tokenizer has no single token {token}; use a backbone whose vocabulary holds ChatML's control "
            "tokens (Qwen3, SmolLM2), or add them before training"
        )
    return int(ids[0])
