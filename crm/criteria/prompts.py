"""Prompts that ask a language model for criteria and taste, and what it must reply.

Texts from data are in one JSON object in the user's turn; the system's turn says that they are material. In it every
``<`` and every control word such as ``[INST]`` is a JSON escape: no chat format finds a control token there. One bad
criterion makes a whole reply invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from crm.schema import Message, Preference

MAX_PROMPT = 6_000
"""Characters shown of a conversation before the responses, its later turns first."""
MAX_RESPONSE = 6_000
"""Characters shown of each response."""
MAX_REASON = 1_000

EXAMPLES_A = ("Wants the practical steps first and the background later", "Prefers short, everyday sentences")
EXAMPLES_B = ("Enjoys a story that makes the point memorable", "Likes to be asked back about their own situation")
EXAMPLE_WHY = "People of different tastes would want different poems."

PROMPTS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("prompts.yaml").read_text(encoding="utf-8"))
"""What a model is asked, by what it is for."""


def criteria_messages(preference: Preference) -> tuple[Message, ...]:
    """Ask for the criteria of both sides.

    The winner is not shown, so that both sides get the same care, unless the voter gave a reason for a choice: then
    reason and choice are shown. The reason of a tie speaks for neither side and is not shown.
    """
    material: dict[str, Any] = {
        "conversation": _turns(preference.prompt, MAX_PROMPT),
        "response_a": _turns(preference.response_a, MAX_RESPONSE),
        "response_b": _turns(preference.response_b, MAX_RESPONSE),
    }
    instruction = _instruction("criteria", {"criteria_a": EXAMPLES_A, "criteria_b": EXAMPLES_B})
    if preference.reason and preference.reason.strip() and preference.winner != "tie":
        material["voter"] = {"preferred": preference.winner.upper(), "reason": cut(preference.reason, MAX_REASON)}
        instruction += "\n\n" + PROMPTS["reason"]
    return Message("system", instruction), Message("user", as_json(material))


def subjective_messages(preference: Preference) -> tuple[Message, ...]:
    """Ask whether good answers to the prompt differ by taste; the responses are not shown."""
    instruction = _instruction("subjective", {"subjective": True, "why": EXAMPLE_WHY})
    material = {"conversation": _turns(preference.prompt, MAX_PROMPT)}
    return Message("system", instruction), Message("user", as_json(material))


def _instruction(name: str, example: dict[str, Any]) -> str:
    return PROMPTS[name].replace("{material}", PROMPTS["material"]).replace("{example}", json.dumps(example))


def cut(text: str, limit: int) -> str:
    """The text, or its first ``limit`` characters and a mark that says how many more there are."""
    return text if len(text) <= limit else f"{text[:limit]} [... {len(text) - limit} characters left out ...]"


def as_json(material: dict[str, Any]) -> str:
    """JSON in which no text can end its string or hold a control token of a chat format."""
    text = json.dumps(material, ensure_ascii=False, indent=1)
    return re.sub(r"<|\[(?=/?[A-Z_]{2,}\])", lambda found: f"\\u{ord(found[0]):04x}", text)


def _turns(messages: Sequence[Message], limit: int) -> list[dict[str, str]]:
    """Role and text of each turn, ``limit`` characters of text in all, given to the last turn first."""
    left = limit
    turns = []
    for turn in reversed(messages):
        turns.append({"role": turn.role, "content": cut(turn.content, left)})
        left = max(0, left - len(turn.content))
    return turns[::-1]


MAX_PER_SIDE = 8
_PLACEHOLDER = re.compile(
    r"(your |another |first |second |third |a |an |the |some |my )?"
    r"(criteri(on|a|ons|um)|string|text|wish|item|example|placeholder|lorem ipsum.*|todo|tbd|n/?a|none|null|unknown|"
    r"nothing|same( as .*)?)"
    r"( (text|here|goes here|for|of|side|person|a|b|one|two|three|[0-9]+))*[\s\W]*[0-9]*[\s\W]*",
)
_NAMES_A_SIDE = re.compile(
    r"\b([Rr]esponses?|[Aa]nswer|[Aa]ssistant|[Mm]odel|[Oo]ption|[Ss]ide)[ _-]?(A|B)\b|_[ab]\b"
    r"|\b[Tt]he (first|second|former|latter|other) (response|answer|one)\b"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def key(text: str) -> str:
    """Equal for texts that differ only in case, white space and a full stop."""
    return " ".join(text.casefold().split()).rstrip(".")


_EXAMPLES = frozenset(map(key, (*EXAMPLES_A, *EXAMPLES_B, EXAMPLE_WHY)))


def _original(text: str) -> str:
    if key(text) in _EXAMPLES:
        raise ValueError("the text is copied from the example")
    return text


def _criterion(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("the text has a line end or a control character")
    if sum(map(str.isalpha, text)) < 2 or _PLACEHOLDER.fullmatch(key(text).strip("<>[](){}\"' ")):
        raise ValueError("a criterion is a placeholder")
    if _NAMES_A_SIDE.search(text):
        raise ValueError("a criterion names response A or B, which means nothing without the pair")
    return text


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=300), AfterValidator(_original)]
Side = Annotated[list[Annotated[Text, AfterValidator(_criterion)]], Field(min_length=1, max_length=MAX_PER_SIDE)]


class CriteriaReply(BaseModel):
    """Criteria under which a user would prefer A, and B: 1 to 8 a side, 3 to 300 characters, no two alike."""

    model_config = ConfigDict(extra="forbid")

    criteria_a: Side
    criteria_b: Side

    @field_validator("criteria_a", "criteria_b")
    @classmethod
    def _differ(cls, criteria: list[str]) -> list[str]:
        if len({key(text) for text in criteria}) < len(criteria):
            raise ValueError("a criterion is repeated")
        return criteria

    @model_validator(mode="after")
    def _sides_differ(self) -> CriteriaReply:
        if {key(text) for text in self.criteria_a} & {key(text) for text in self.criteria_b}:
            raise ValueError("a criterion is on both sides")
        return self


class SubjectiveReply(BaseModel):
    """Whether good answers to a request differ by taste, and one sentence why."""

    model_config = ConfigDict(extra="forbid")

    subjective: bool
    why: Text
