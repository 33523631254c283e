"""Rendering and tokenisation. In: a `Comparison` and an order. Out: token segments that end in a read position.

There is one template, ChatML, stored with every exported checkpoint; training, evaluation, the leaderboard and any
server render through it. Text from data is never tokenised as a control token: controls are inserted by id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from crm.data.comparisons import GENERIC_CRITERION
from crm.schema import Comparison, Message

HeadName = Literal["scalar", "pairwise", "pairwise_span"]
HEADS: tuple[HeadName, ...] = ("scalar", "pairwise", "pairwise_span")
Order = Literal["ab", "ba"]
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"

POINTWISE_INSTRUCTION = "This user cares about:"
PAIRWISE_INSTRUCTION = "Two responses, in no particular order. This user cares about:"


def chat_template(head: HeadName) -> str:
    """Jinja source of the template stored with a checkpoint; without a system turn it inserts `GENERIC_CRITERION`.

    Roles beyond the usual three: ``response_a`` and ``response_b`` of the joint heads.
    """
    instruction = POINTWISE_INSTRUCTION if head == "scalar" else PAIRWISE_INSTRUCTION
    return (
        "{%- if messages[0].role != 'system' -%}"
        f"{{{{- '{TURN_START}system\\n{instruction}\\n- {GENERIC_CRITERION}{TURN_END}\\n' -}}}}"
        "{%- endif -%}"
        "{%- for message in messages -%}"
        f"{{{{- '{TURN_START}' + message.role + '\\n' + message.content + '{TURN_END}' -}}}}"
        "{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}"
        "{%- endfor -%}"
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of token ids that is one part of a prompt; ``kind`` names the part."""

    kind: Literal["criteria", "query", "response_a", "response_b"]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EncodedComparison:
    """One comparison in one order, ready to be batched.

    ``sequences`` holds two sequences for the scalar head (one a response), one for the joint heads. ``reads`` are two
    (sequence, position) pairs: where the head reads for the response shown first and for the one shown second.
    ``target`` is the probability, 0, 1/2 or 1, that the response **shown first** is preferred.
    """

    comparison: Comparison
    order: Order
    sequences: tuple[tuple[Segment, ...], ...]
    reads: tuple[tuple[int, int], tuple[int, int]]
    target: float

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence."""
        return tuple(sum(len(segment.ids) for segment in sequence) for sequence in self.sequences)


def system_text(criteria: Sequence[str], instruction: str) -> str:
    """The system turn: an instruction and one bullet a criterion. Line breaks inside a criterion become spaces."""
    bullets = criteria or (GENERIC_CRITERION,)
    return "\n".join([instruction, *(f"- {' '.join(criterion.split())}" for criterion in bullets)])


def pointwise_messages(
    criteria: Sequence[str], prompt: Sequence[Message], response: Sequence[Message]
) -> list[dict[str, str]]:
    """Messages of the scalar head: criteria, prompt, one response. Any chat template user can build the same."""
    turns = [{"role": "system", "content": system_text(criteria, POINTWISE_INSTRUCTION)}]
    return turns + [{"role": turn.role, "content": turn.content} for turn in (*prompt, *response)]


def pairwise_messages(
    criteria: Sequence[str], prompt: Sequence[Message], first: Sequence[Message], second: Sequence[Message]
) -> list[dict[str, str]]:
    """Messages of the joint heads: criteria, prompt, the response shown first, the one shown second."""
    turns = [{"role": "system", "content": system_text(criteria, PAIRWISE_INSTRUCTION)}]
    turns += [{"role": turn.role, "content": turn.content} for turn in prompt]
    return turns + _spoken(first, "response_a") + _spoken(second, "response_b")


def _spoken(response: Sequence[Message], speaker: str) -> list[dict[str, str]]:
    roles = {"assistant": speaker}
    return [{"role": roles.get(turn.role, f"{speaker}_{turn.role}"), "content": turn.content} for turn in response]


def per_character(comparison: Comparison) -> Comparison:
    """The same comparison with its criteria rendered one bullet per character of ``str(list)``, blanks included.

    Evaluation only: it reproduces what a pointwise evaluator does that iterates over a string of criteria.
    """
    clone = replace(comparison, criteria=())
    # Set past the record's own checks: no user may write blank criteria, nor this many.
    object.__setattr__(clone, "criteria", tuple(str(list(comparison.criteria))))
    return clone


class Encoder:
    """Turns comparisons into segments with one tokenizer. Pure: equal inputs give equal ids.

    Raises ``ValueError`` when the tokenizer lacks the two control tokens of the template.
    """

    def __init__(self, tokenizer: Any, head: HeadName, max_length: int) -> None:
        self.tokenizer = tokenizer
        self.head = head
        self.max_length = max_length
        self._start, self._end = (_control_id(tokenizer, token) for token in (TURN_START, TURN_END))
        self._newline = tuple(tokenizer.encode("\n", add_special_tokens=False))
        self._body = lru_cache(maxsize=100_000)(self._tokenize)
        self._known: Mapping[str, Sequence[int]] = {}
        # One object a token id: texts kept for a run take 14 bytes a token instead of 46.
        self._ids: dict[int, int] = {}

    def use(self, known: Mapping[str, Sequence[int]]) -> None:
        """Take the ids of texts in ``known`` (as `response_texts` gives them) from there instead of tokenising them."""
        self._known = known

    def response_texts(self, response: str) -> tuple[str, ...]:
        """The texts that are tokenised for a response of one turn, in whichever order it is shown."""
        roles = ("assistant",) if self.head == "scalar" else ("response_a", "response_b")
        return tuple(_body(role, response) for role in roles)

    def encode(self, comparison: Comparison, order: Order = "ab") -> EncodedComparison | None:
        """Segments of one reading, or None where a sequence is longer than ``max_length`` (the caller counts it)."""
        first, second = comparison.response_a, comparison.response_b
        if order == "ba":
            first, second = second, first
        target = {"a": 1.0, "b": 0.0, "tie": 0.5}[comparison.label]
        sequences, reads = self._sequences(comparison, first, second)
        encoded = EncodedComparison(comparison, order, sequences, reads, target if order == "ab" else 1.0 - target)
        return encoded if max(encoded.lengths) <= self.max_length else None

    def _sequences(
        self, comparison: Comparison, first: Sequence[Message], second: Sequence[Message]
    ) -> tuple[tuple[tuple[Segment, ...], ...], tuple[tuple[int, int], tuple[int, int]]]:
        if self.head == "scalar":
            pair = tuple(
                self._segments(pointwise_messages(comparison.criteria, comparison.prompt, response), len(response), 0)
                for response in (first, second)
            )
            ends = [sum(len(segment.ids) for segment in sequence) - 1 for sequence in pair]
            return pair, ((0, ends[0]), (1, ends[1]))
        turns = pairwise_messages(comparison.criteria, comparison.prompt, first, second)
        joint = self._segments(turns, len(first), len(second))
        last = sum(len(segment.ids) for segment in joint) - 1
        end_of_first = last - len(joint[-1].ids) if self.head == "pairwise_span" else last
        return (joint,), ((0, end_of_first), (0, last))

    def _segments(self, turns: list[dict[str, str]], first: int, second: int) -> tuple[Segment, ...]:
        """Cut a conversation at the turns' control tokens: criteria | query | first response | second response."""
        pieces = [self._turn(turn["role"], turn["content"], leading=index > 0) for index, turn in enumerate(turns)]
        prompt_end = len(pieces) - first - second
        segments = [
            Segment("criteria", pieces[0]),
            Segment("query", sum(pieces[1:prompt_end], ())),
            Segment("response_a", sum(pieces[prompt_end : prompt_end + first], ())),
        ]
        if second:
            segments.append(Segment("response_b", sum(pieces[prompt_end + first :], ())))
        return tuple(segments)

    def _turn(self, role: str, content: str, leading: bool) -> tuple[int, ...]:
        newline = self._newline if leading else ()
        return (*newline, self._start, *self._body(_body(role, content)), self._end)

    def _tokenize(self, text: str) -> tuple[int, ...]:
        ids = self._known.get(text)
        if ids is None:
            ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        return tuple(self._ids.setdefault(token, token) for token in ids)

    @property
    def digest(self) -> str:
        """Digest of template, instructions and head: predictions made under different ones never mix."""
        parts = (chat_template(self.head), POINTWISE_INSTRUCTION, PAIRWISE_INSTRUCTION, GENERIC_CRITERION, self.head)
        return hashlib.sha256("\x00".join((*parts, str(self.max_length))).encode()).hexdigest()[:16]


def _body(role: str, content: str) -> str:
    """What stands between the two control tokens of a turn."""
    return f"{role}\n{content}"


def _control_id(tokenizer: Any, token: str) -> int:
    ids = tokenizer.encode(token, add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(
            f"model: its tokenizer has no single token {token}; use a backbone whose vocabulary holds ChatML's control "
            "tokens (Qwen3, SmolLM2), or add them before training"
        )
    return int(ids[0])
