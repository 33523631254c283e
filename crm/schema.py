"""The records every stage reads and writes. In: plain dicts from JSONL. Out: frozen, validated dataclasses.

A record that breaks a rule raises ``RecordError``, which names the field, the value and what is allowed.
"""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

ROLES = ("system", "user", "assistant")
SIDES = ("a", "b", "tie")
TOOL_CALLS = ("tool_calls", "function_call")
"""What a message holds in place of a text where its author calls a tool."""
LABELS = ("human", "llm", "construction")
"""Who says which response wins: people, a language model, or the way the pair was made."""
GENERIC_CRITERION = "Prefers the response that most people would find better."
"""What a judge is told about a user of whom nothing is known: the control that cannot see criteria."""
MAX_CRITERIA = 64
"""Criteria accepted per side; a longer list is a malformed row, not a user."""


class RecordError(ValueError):
    """A field of a record holds something it may not. ``field`` names it, ``why`` says what is wrong."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, str]]:
        """An error raised in a worker process reaches its parent whole."""
        return type(self), (self.field, self.why)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: ``role`` is one of `ROLES`, ``content`` is any text, possibly empty."""

    role: str
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise RecordError("role", f"{self.role!r} is not one of {', '.join(ROLES)}")
        if not isinstance(self.content, str):
            raise RecordError("content", f"expected text, got {type(self.content).__name__}")


def messages(turns: Any, field: str) -> tuple[Message, ...]:
    """Validate a list of ``{"role", "content"}`` mappings. Raises `RecordError` under the name ``field``."""
    if not isinstance(turns, Sequence) or isinstance(turns, str) or not turns:
        raise RecordError(field, f"expected a non-empty list of messages, got {short(turns)}")
    parsed = []
    for index, turn in enumerate(turns):
        if isinstance(turn, Message):
            parsed.append(turn)
            continue
        if isinstance(turn, Mapping) and not turn.get("content"):
            for name in TOOL_CALLS:
                if turn.get(name):
                    raise RecordError(
                        f"{field}[{index}].{name}", "the turn only calls a tool; expected a text as content"
                    )
        if not isinstance(turn, Mapping) or not {"role", "content"} <= turn.keys():
            raise RecordError(f"{field}[{index}]", f"expected role and content, got {short(turn)}")
        try:
            parsed.append(Message(turn["role"], turn["content"]))
        except RecordError as error:
            raise RecordError(f"{field}[{index}].{error.field}", error.why) from None
    return tuple(parsed)


def texts(values: Any, field: str) -> tuple[str, ...]:
    """Validate a list of non-blank strings (possibly empty, at most `MAX_CRITERIA` long), stripped."""
    if values is None:
        return ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise RecordError(field, f"expected a list of strings, got {short(values)}")
    if len(values) > MAX_CRITERIA:
        raise RecordError(field, f"{len(values)} items, at most {MAX_CRITERIA} are allowed")
    for index, value in enumerate(values):
        if not isinstance(value, str) or not value.strip():
            raise RecordError(f"{field}[{index}]", f"expected a non-blank string, got {short(value)}")
    return tuple(value.strip() for value in values)


def short(value: Any) -> str:
    """A value for an error message: as Python writes it, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class _Record:
    """What every record can do: become a plain dict for JSON, and be read back from one."""

    __slots__ = ()
    _message_fields: ClassVar[tuple[str, ...]] = ()
    _text_fields: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """What `dataclasses.asdict` gives, a few times faster: what records hold need not be copied."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        for name in self._message_fields:
            row[name] = tuple({"role": turn.role, "content": turn.content} for turn in row[name])
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Any:
        """Build from a mapping; unknown and missing fields raise `RecordError`."""
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        for name in row:
            if name not in known:
                raise RecordError(name, f"unknown field, expected some of {', '.join(sorted(known))}")
        try:
            return cls(**row)
        except TypeError as error:
            raise RecordError("row", str(error).split("__init__() ")[-1]) from None

    def _validate(self) -> None:
        for name in self._message_fields:
            object.__setattr__(self, name, messages(getattr(self, name), name))
        for name in self._text_fields:
            object.__setattr__(self, name, texts(getattr(self, name), name))


def _check_side(value: str, field: str) -> None:
    if value not in SIDES:
        raise RecordError(field, f"{value!r} is not one of {', '.join(SIDES)}")


@dataclass(frozen=True)
class Preference(_Record):
    """A raw vote: two responses to one prompt, the human ``winner``, and the criteria that speak for each side.

    ``reason`` is why the voter chose, in their own words. ``source`` is ``<dataset>/<who labelled it>``, the latter one
    of `LABELS`, for a public set; any text for one's own.
    """

    id: str
    prompt: tuple[Message, ...]
    response_a: tuple[Message, ...]
    response_b: tuple[Message, ...]
    winner: str
    criteria_a: tuple[str, ...] = ()
    criteria_b: tuple[str, ...] = ()
    topic: str | None = None
    criteria_topics_a: tuple[str, ...] = ()
    criteria_topics_b: tuple[str, ...] = ()
    author_a: str | None = None
    author_b: str | None = None
    source: str = ""
    reason: str | None = None

    _message_fields = ("prompt", "response_a", "response_b")
    _text_fields = ("criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b")

    def __post_init__(self) -> None:
        self._validate()
        _check_side(self.winner, "winner")

    @property
    def query(self) -> str:
        """The first user turn of the prompt (its first turn where no user speaks)."""
        return query_of(self.prompt)


@dataclass(frozen=True)
class Comparison(_Record):
    """What a judge sees: criteria, prompt, two responses; ``label`` says whom a user with these criteria prefers.

    ``cluster`` is the key of the prompt: rows that share it are not independent (see `prompt_key`).
    """

    id: str
    preference_id: str
    criteria: tuple[str, ...]
    prompt: tuple[Message, ...]
    response_a: tuple[Message, ...]
    response_b: tuple[Message, ...]
    label: str
    direction: str = "original"
    noise: str = "none"
    cluster: str = ""

    _message_fields = ("prompt", "response_a", "response_b")
    _text_fields = ("criteria",)

    def __post_init__(self) -> None:
        self._validate()
        _check_side(self.label, "label")
        if not self.cluster:
            object.__setattr__(self, "cluster", prompt_key(self.prompt))


@dataclass(frozen=True)
class Prediction(_Record):
    """One reading of one comparison by one judge.

    ``order`` is ``ab`` when response A stood first, ``ba`` when B did; ``preference_logit`` is always the log-odds
    that response **A of the record** is preferred, whichever stood first; it is ``None`` where the judge gave no
    usable verdict, and ``failure`` says why. ``tokens`` is what the reading took. Label and cluster travel along so
    that tables are made from prediction files alone.
    """

    comparison_id: str
    order: str
    preference_logit: float | None
    label: str
    cluster: str
    suite: str
    fingerprint: str
    score_a: float | None = None
    score_b: float | None = None
    failure: str | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        _check_side(self.label, "label")
        if self.order not in ("ab", "ba"):
            raise RecordError("order", f"{self.order!r} is not ab or ba")
        if (self.preference_logit is None) != (self.failure is not None):
            raise RecordError(
                "preference_logit", f"{self.preference_logit!r} with failure {self.failure!r}: expected one of the two"
            )


@dataclass(frozen=True, slots=True)
class Match(_Record):
    """One candidate LLM against the baseline on one query of a bank, both orders averaged.

    ``preference_logit`` is the log-odds that the candidate's response is preferred, ``None`` where the judge could not
    read the two or gave no verdict: such a match is lost. One that is not ``answered`` (no connection, a spent budget)
    has no logit either: its outcome is not known. Lengths are in words.
    """

    query_id: str
    topic: str
    candidate: str
    baseline: str
    preference_logit: float | None
    length_candidate: int
    length_baseline: int
    score_candidate: float | None = None
    score_baseline: float | None = None
    answered: bool = True

    @property
    def win(self) -> float:
        """Probability, in [0, 1], that the candidate's response is preferred; 0 where the judge could not read it, NaN
        where it did not answer."""
        if not self.answered:
            return math.nan
        return 0.0 if self.preference_logit is None else _sigmoid(self.preference_logit)


@dataclass(frozen=True)
class Result(_Record):
    """One number and everything needed to trust it. ``value``, ``low`` and ``high`` share the metric's unit."""

    suite: str
    metric: str
    value: float
    n: int
    standard_error: float
    low: float
    high: float
    seeds: tuple[int, ...] = ()
    config: str = ""
    commit: str = ""


def check_response(turns: Sequence[Message], field: str) -> None:
    """Raise `RecordError` unless a response begins and ends with a turn of the assistant, which is what is judged."""
    for what, index in (("begins", 0), ("ends", len(turns) - 1)):
        if turns[index].role != "assistant":
            raise RecordError(
                f"{field}[{index}]",
                f"a response {what} with the assistant's turn, got the {turns[index].role}'s; turns before it belong "
                "to prompt, and a conversation that nobody answered has to be left out",
            )


def check_responses(record: Preference) -> None:
    """`check_response` of both sides: whoever reads a vote sees to that."""
    check_response(record.response_a, "response_a")
    check_response(record.response_b, "response_b")


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))


def query_of(prompt: Sequence[Message]) -> str:
    """The first user turn of a prompt (its first turn where no user speaks)."""
    return next((turn.content for turn in prompt if turn.role == "user"), prompt[0].content)


def folded(text: str) -> str:
    """Equal for texts that differ only in case, white space, Unicode form (NFKC) and characters nobody sees."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold().translate(_Unseen()))
    return " ".join(text.casefold().split())


class _Unseen(dict[int, int | None]):
    """For `str.translate`: takes out format characters (zero width, direction, soft hyphen) and variation selectors."""

    def __missing__(self, code: int) -> int | None:
        unseen = unicodedata.category(chr(code)) == "Cf" or code == 0x34F or 0xFE00 <= code <= 0xFE0F
        self[code] = None if unseen else code
        return self[code]


def prompt_key(prompt: Sequence[Message]) -> str:
    """Key of a prompt, 16 hex digits: equal for texts that are equal when `folded`."""
    text = "\n".join(f"{turn.role}:{folded(turn.content)}" for turn in prompt)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_json(record: _Record) -> str:
    """One JSON line (no newline), readable UTF-8, keys in field order. Non-finite numbers raise ``ValueError``."""
    return json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False)
