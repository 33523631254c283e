"""The records that every stage reads and writes: frozen, validated dataclasses.

A row that breaks a rule raises `RecordError`, which names the field, the value and what is allowed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

ROLES = ("system", "user", "assistant")
SIDES = ("a", "b", "tie")
GENERIC_CRITERION = "Prefers the response that most people would find better."
"""The criterion of a user of whom nothing is known: the control that cannot see criteria."""
MAX_CRITERIA = 64
"""Criteria accepted per side; a longer list is a malformed row, not a user."""


class RecordError(ValueError):
    """A field of a record, or a file, holds something it may not. ``field`` names it, ``why`` says what is wrong.

    The message ends with ``how``: what a command line can do about it.
    """

    def __init__(self, field: str, why: str, how: str = "") -> None:
        super().__init__(f"{field}: {why}{how}")
        self.field, self.why, self.how = field, why, how

    @classmethod
    def of(cls, errors: Sequence[Any], field: str = "") -> RecordError:
        """The first of pydantic's errors; ``field`` is the name of what was validated."""
        first = errors[0]
        for part in first["loc"]:
            field += f"[{part}]" if isinstance(part, int) else f".{part}" if field else part
        if first["type"] == "value_error":
            return cls(field, str(first["ctx"]["error"]))
        if first["type"] in ("missing", "unexpected_keyword_argument", "extra_forbidden"):
            return cls(field, "missing" if first["type"] == "missing" else "unknown field")
        if first["type"] == "one_of":
            return cls(field, f"{short(first['input'])} {first['msg']}")
        if first["type"] == "too_long":
            return cls(field, "expected at most {max_length} items, got {actual_length}".format(**first["ctx"]))
        why = first["msg"][0].lower() + first["msg"][1:].replace(" or an instance of Message", " with role and content")
        why = why.replace("input should be", "expected").replace("string should have at least 1 character", "blank")
        why = why.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
        why = why.replace("tuple", "list").replace("a dictionary", "an object").replace("dictionary", "object")
        return cls(field or "row", f"{why}, got {short(first['input'])}")


def short(value: Any) -> str:
    """A value for an error message: as Python writes it, at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def one_of(*allowed: str) -> AfterValidator:
    """For ``Annotated[str, one_of(...)]``: a text out of a few."""

    def check(text: str) -> str:
        if text not in allowed:
            raise PydanticCustomError("one_of", "is not one of {allowed}", {"allowed": ", ".join(allowed)})
        return text

    return AfterValidator(check)


Role = Annotated[str, one_of(*ROLES)]
Side = Annotated[str, one_of(*SIDES)]
Content = Annotated[str, StringConstraints(min_length=0)]
"""Any text. With a constraint pydantic also refuses half a character (a lone surrogate), which no tokenizer takes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. ``content`` may be empty. Checked where it becomes part of a record."""

    role: Role
    content: Content


Turns = Annotated[tuple[Message, ...], Field(min_length=1)]
"""A conversation of one turn or more."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(max_length=MAX_CRITERIA)]
"""Non-blank strings, stripped."""


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def validated(kind: Any, value: Any, field: str = "") -> Any:
    """``value`` as the type ``kind``. Raises `RecordError` under the name ``field``."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise RecordError.of(error.errors(include_url=False), field) from None


def messages(turns: Any, field: str) -> tuple[Message, ...]:
    """A list of ``{"role", "content"}`` mappings as messages. Raises `RecordError` under the name ``field``."""
    return validated(Turns, turns, field)  # type: ignore[no-any-return]


class _Record:
    """What every record can do: become a plain dict for JSON, and be read back from one."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """What `dataclasses.asdict` gives, a few times faster."""
        kind: Any = type(self)
        return _adapter(kind).dump_python(self)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Build from a mapping; unknown, missing and malformed fields raise `RecordError`.

        Null is the default of a field that has one."""
        known = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for name in row:
            if name not in known:
                raise RecordError(name, f"unknown field, expected some of {', '.join(known)}")
        given = {name: each for name, each in row.items() if each is not None or known[name] is dataclasses.MISSING}
        return validated(cls, given)  # type: ignore[no-any-return]


_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_STRICT)
class Preference(_Record):
    """A raw vote: two responses to one prompt, the human ``winner``, and the criteria that speak for each side.

    ``reason`` is why the voter chose, in their own words. ``source`` is ``<dataset>/<who labelled it>`` for a public
    set, the latter one of human, llm or construction; any text for one's own.
    """

    id: str
    prompt: Turns
    response_a: Turns
    response_b: Turns
    winner: Side
    criteria_a: Texts = ()
    criteria_b: Texts = ()
    topic: str | None = None
    criteria_topics_a: Texts = ()
    criteria_topics_b: Texts = ()
    author_a: str | None = None
    author_b: str | None = None
    source: str = ""
    reason: str | None = None

    @property
    def query(self) -> str:
        """The first user turn of the prompt (its first turn where no user speaks)."""
        return query_of(self.prompt)


@dataclass(frozen=True, config=_STRICT)
class Comparison(_Record):
    """What a judge sees: criteria, prompt, two responses; ``label`` says whom a user with these criteria prefers.

    ``cluster`` is the key of the prompt: rows that share it are not independent (see `prompt_key`).
    """

    id: str
    preference_id: str
    criteria: Texts
    prompt: Turns
    response_a: Turns
    response_b: Turns
    label: Side
    direction: str = "original"
    noise: str = "none"
    cluster: str = ""

    def __post_init__(self) -> None:
        if not self.cluster:
            object.__setattr__(self, "cluster", prompt_key(self.prompt))


@dataclasses.dataclass(frozen=True)
class Prediction(_Record):
    """One reading of one comparison by one judge.

    ``order`` is ``ab`` when response A stood first, ``ba`` when B did; ``preference_logit`` is always the log-odds
    that response **A of the record** is preferred, whichever stood first; it is ``None`` where the judge gave no
    usable verdict, and ``failure`` says why. ``tokens`` is the length of the reading. With label and cluster here,
    tables are made from prediction files alone.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    comparison_id: str
    order: Annotated[str, one_of("ab", "ba")]
    preference_logit: float | None
    label: Side
    cluster: str
    suite: str
    fingerprint: str
    score_a: float | None = None
    score_b: float | None = None
    failure: str | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if (self.preference_logit is None) != (self.failure is not None):
            raise ValueError("either preference_logit or failure has to be given, and not both")


@dataclasses.dataclass(frozen=True)
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


def query_of(prompt: Sequence[Message]) -> str:
    """The first user turn of a prompt (its first turn where no user speaks)."""
    return next((turn.content for turn in prompt if turn.role == "user"), prompt[0].content)


def folded(text: str) -> str:
    """Equal for texts that differ only in case, white space, Unicode form (NFKC) and characters nobody sees."""
    if not text.isascii():
        seen = (char for char in unicodedata.normalize("NFKC", text).casefold() if not _is_unseen(char))
        text = unicodedata.normalize("NFKC", "".join(seen))
    return " ".join(text.casefold().split())


def _is_unseen(char: str) -> bool:
    """Format characters (zero width, direction, soft hyphen) and variation selectors."""
    return unicodedata.category(char) == "Cf" or char == "\u034f" or "\ufe00" <= char <= "\ufe0f"


def prompt_key(prompt: Sequence[Message]) -> str:
    """Key of a prompt, 16 hex digits: equal for texts that are equal when `folded`."""
    text = "\n".join(f"{turn.role}:{folded(turn.content)}" for turn in prompt)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_json(record: _Record) -> str:
    """One JSON line (no newline), readable UTF-8, keys in field order. Non-finite numbers raise ``ValueError``."""
    return json.dumps(record.to_dict(), ensure_ascii=False, allow_nan=False)
