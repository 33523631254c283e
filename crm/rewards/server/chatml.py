"""Conversations as trainers send them. In: text in ChatML, or turns. Out: criteria, prompt and response.

A templated text cannot say whether a control token in it was written by the template or by whoever wrote the text:
send turns where you can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards.scoring import Group, Turns
from crm.schema import ROLES, Message
from crm.web.bodies import BodyError

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
"""ChatML's."""
TURN = re.compile(
    rf"{re.escape(TURN_START)}(\w+)\n(.*?)(?:{re.escape(TURN_END)}\n?|(?={re.escape(TURN_START)})|\Z)", re.DOTALL
)
ENDS = re.compile(rf"(?:\s*(?:{re.escape(TURN_END)}|<\|endoftext\|>|<\|end_of_text\|>|<\|eot_id\|>|</s>))+\s*\Z")
"""What a policy's tokenizer leaves at the end of what it wrote."""
EMPTY_THOUGHT = re.compile(r"\s*(?:<think>\s*</think>\s*)?")
FOREIGN = re.compile(r"<\|\w+\|>|\[INST\]|<start_of_turn>|<\uff5c\w+\uff5c>")
"""Signs of another template."""


def spoken(text: str, field: str) -> list[Message]:
    """The turns of a text in ChatML; a text without control tokens is one turn of the user's.

    Raises `BodyError` for another template, for text outside of the turns, and for roles that are none.
    """
    if not text.startswith(TURN_START):
        if foreign := FOREIGN.search(text):
            raise BodyError(f"{field}: holds {foreign[0]} and is not ChatML; send messages instead of a templated text")
        return [Message("user", text)]
    found, end = [], 0
    for turn in TURN.finditer(text):
        if text[end : turn.start()].strip():
            break
        if turn[1] not in ROLES:
            raise BodyError(f"{field}: role {turn[1][:40]!r} is not one of {', '.join(ROLES)}")
        found.append(Message(turn[1], turn[2]))
        end = turn.end()
    if text[end:].strip():
        raise BodyError(f"{field}: text outside of turns at position {end}; send messages instead")
    return found


def group_of(spoken: Sequence[Message], field: str) -> Group:
    """A conversation that ends in the response: criteria are the system turn that this project's template writes.

    Any other system turn is part of the prompt. Raises `BodyError` where there is no prompt or no response.
    """
    criteria, talk = _told(spoken, field)
    if len(talk) < 2 or talk[-1].role != "assistant":
        raise BodyError(f"{field}: expected a prompt and, as its last turn, the assistant's response")
    return Group(criteria, talk[:-1], (talk[-1:],))


def answered(prompt: Sequence[Message], response: str, field: str) -> tuple[tuple[str, ...], Turns, Turns]:
    """Criteria, prompt and response of what a policy wrote after ``prompt``, whose last turn may be its beginning."""
    criteria, talk = _told(prompt, field)
    begun = ""
    if talk and talk[-1].role == "assistant":
        begun, talk = talk[-1].content, talk[:-1]
        if EMPTY_THOUGHT.fullmatch(begun):
            begun = ""
    if not talk:
        raise BodyError(f"{field}: holds no turn before the response")
    return criteria, talk, (Message("assistant", begun + ENDS.sub("", response)),)


def _told(spoken: Sequence[Message], field: str) -> tuple[tuple[str, ...], Turns]:
    """Criteria and the turns without them; with the criteria last their turn ends a text."""
    for place in {0, len(spoken) - 1}:
        turn = spoken[place] if spoken else None
        if turn and turn.role == "system" and turn.content.startswith(POINTWISE_INSTRUCTION):
            lines = turn.content.removeprefix(POINTWISE_INSTRUCTION).strip("\n").split("\n")
            if not all(line.startswith("- ") and line[2:].strip() for line in lines):
                raise BodyError(f"{field}: the system turn has no line `- criterion` after {POINTWISE_INSTRUCTION!r}")
            return tuple(line[2:].strip() for line in lines), (*spoken[:place], *spoken[place + 1 :])
    return (), tuple(spoken)
