"""What an endpoint sends back, hostile until proven valid. In: bytes of a body. Out: its text, then a checked object.

Nothing is guessed or mended: what is not exactly as asked for raises `CallFailed`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, FailFast, Field, ValidationError

from crm.io.chat.failures import CallFailed, one_line
from crm.io.rows import decode
from crm.schema import RecordError

MAX_TEXT = 200_000
"""Characters of a reply at most: longer ones are no answer to our questions."""
MAX_CHOICES = 128
"""Of a completion; we ask for one, and read the first. More could fill a body with 600,000 of them."""

Schema = TypeVar("Schema", bound=BaseModel)

_OPENING = re.compile(r"\{\s*[\"}]")
_THOUGHTS = re.compile(r"\s*<(think|thinking)>")
_THOUGHTS_END = "</think>"
_REFUSAL = re.compile(
    r"(i['’]?m|i am) (very |so |really )?(sorry|unable|not able)\b|sorry\b"
    r"|i (can['’]?t|cannot|can not|won['’]?t|will not|must decline)\b|as an ai\b",
    re.IGNORECASE,
)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: Any = None  # read only where they were asked for: others' replies stand whatever a server puts here


class _TokenLogprob(BaseModel):
    token: str
    logprob: float = Field(le=0.01)  # rounding can lift a certain token above 0


class _Place(BaseModel):
    top_logprobs: Annotated[list[_TokenLogprob], FailFast()]


class _Logprobs(BaseModel):
    content: Annotated[list[_Place], FailFast(), Field(min_length=1)]


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0, lt=10**9)
    completion_tokens: int = Field(ge=0, lt=10**9)


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], FailFast(), Field(max_length=MAX_CHOICES)]


@dataclass(frozen=True, slots=True)
class Completion:
    """A body that is a chat completion. ``tokens`` are those of prompt and reply, ``None`` if the server is silent."""

    choices: list[_Choice]
    tokens: tuple[int, int] | None

    def text(self) -> str:
        """The text of the first choice. Raises `CallFailed`: refusal, truncated or empty."""
        choice = self._answered()
        if choice.finish_reason == "length":
            raise CallFailed("truncated", "the reply was cut; allow more max_tokens")
        content = choice.message.content or ""
        if not content.strip():
            raise CallFailed("empty", "the completion has no text")
        return content

    def first_token(self) -> list[tuple[str, float]] | None:
        """Likely first tokens with their log probabilities; ``None`` if the server gave none that can be read.

        Raises `CallFailed`: refusal or empty. A reply that was cut has a first token all the same.
        """
        choice = self._answered()
        try:
            likely = _Logprobs.model_validate(choice.logprobs, strict=True).content[0].top_logprobs
        except ValidationError:
            likely = []
        if not likely and not (choice.message.content or "").strip():
            raise CallFailed("empty", "the completion has no text")
        return [(place.token, place.logprob) for place in likely] or None

    def _answered(self) -> _Choice:
        if not self.choices:
            raise CallFailed("empty", "the completion has no choices")
        choice = self.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            raise CallFailed("refusal", one_line(choice.message.refusal or "stopped by a content filter"))
        return choice


def read_completion(body: bytes) -> Completion:
    """Read the body of a reply with status 200. Raises `CallFailed` (not_completion)."""
    try:
        row = decode(body)
        choices = _Completion.model_validate(row, strict=True).choices
    except RecordError as error:
        raise CallFailed("not_completion", one_line(str(error))) from None
    except ValidationError as error:
        raise CallFailed("not_completion", _first_errors(error)) from None
    return Completion(choices, _tokens(row.get("usage")))


def read_object(text: str, schema: type[Schema]) -> Schema:
    """The one JSON object in ``text`` (bare, in a code fence or within prose) as a ``schema``.

    Thoughts before it are skipped. Raises `CallFailed`: not_json, refusal or wrong_schema.
    """
    text = split_thoughts(text)[1]
    try:
        row = decode(_only_object(text))
    except RecordError as error:
        raise CallFailed("not_json", one_line(str(error)), text=text) from None
    try:
        return schema.model_validate(row, strict=True)
    except ValidationError as error:
        raise CallFailed("wrong_schema", _first_errors(error), text=text) from None


def split_thoughts(text: str) -> tuple[str, str]:
    """A model's thoughts, and what stands behind them: the text of ``<think>`` blocks at its beginning, and the rest.

    A chat template may have opened the block already: then a ``</think>`` at the end or beginning of a line ends it.
    Behind a block that does not end there is nothing. Without a block the text comes back as it is.
    """
    thoughts, end = [], 0
    while opened := _THOUGHTS.match(text, end):
        inside, tag = opened.end(), f"</{opened[1]}>"
        closed = text.find(tag, inside)
        thoughts.append(text[inside:closed] if closed >= 0 else text[inside:])
        end = closed + len(tag) if closed >= 0 else len(text)
    if not end and _THOUGHTS_END in text:
        before, _, after = text.partition(_THOUGHTS_END)
        alone = before.rstrip(" \t").endswith("\n") or after.lstrip(" \t")[:1] in ("", "\n", "\r")
        if alone and "<think" not in before:
            return before.strip(), after.lstrip()
    return "\n".join(thoughts).strip(), text[end:].lstrip() if end else text


def refuses(text: str) -> bool:
    """Whether a text begins as refusals in English do."""
    return _REFUSAL.match(text.strip()) is not None


def _only_object(text: str) -> str:
    bare = text.strip()
    if len(bare) > MAX_TEXT:
        raise CallFailed("not_json", f"the reply has {len(bare):,} characters, at most {MAX_TEXT:,} are read")
    if bare.startswith("[") and bare.endswith("]"):
        raise CallFailed("not_json", "the reply is a list, expected one JSON object", text=text)
    objects = _objects(bare)
    if not objects and refuses(bare):
        raise CallFailed("refusal", one_line(bare))
    if len(objects) != 1:
        found = "no JSON object" if not objects else "more than one JSON object"
        raise CallFailed("not_json", f"the reply holds {found}, expected exactly one", text=text)
    return objects[0]


def _objects(text: str) -> list[str]:
    """The first two JSON objects in ``text``, none of them within another. One that is broken raises `CallFailed`:
    what stands inside it must not pass for the answer. Other braces, as in ``{a, b}``, are prose."""
    decoder = json.JSONDecoder()
    objects: list[str] = []
    found = _OPENING.search(text)
    while found and len(objects) < 2:
        try:
            end = decoder.raw_decode(text, found.start())[1]
        except (ValueError, RecursionError):
            where = f"the JSON object at position {found.start()} of the reply is broken, cut or too deep"
            raise CallFailed("not_json", where, text=text) from None
        objects.append(text[found.start() : end])
        found = _OPENING.search(text, end)
    return objects


def _tokens(usage: Any) -> tuple[int, int] | None:
    try:
        counted = _Usage.model_validate(usage, strict=True)
    except ValidationError:
        return None
    return counted.prompt_tokens, counted.completion_tokens


def _first_errors(error: ValidationError) -> str:
    """The first three broken rules, without the values (a model's text) that broke them."""
    lines = []
    for item in error.errors(include_url=False, include_input=False, include_context=False)[:3]:
        place = ".".join(map(str, item["loc"])) or "object"
        lines.append(f"{place}: {item['msg'].removeprefix('Value error, ')}")
    return one_line("; ".join(lines), limit=400)
