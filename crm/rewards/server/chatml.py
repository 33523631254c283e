"""Conversations as trainers send them. In: text in ChatML, or turns. Out: criteria, prompt and response.

A templated text cannot say whether a control token in it was written by the template or by whoever wrote the text:
send turns where you can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards.rl.turns import Turns, conversation
from crm.rewards.scoring import Group
from crm.schema import ROLES, Message, RecordError

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
"""ChatML's."""
TURN = re.compile(
    rf"{re.escape(TURN_START)}(\w+)\n(.*?)(?:{re.escape(TURN_END)}\n?|(?={re.escape(TURN_START)})|\Z)", re.DOTALL
)
ENDS = ("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>")
"""What a policy's tokenizer leaves at the end of what it wrote."""
ENDS_AFTER = {"<s>": ("</s>",), "[INST]": ("</s>",), "<bos>": ("<eos>", "<end_of_turn>")}
"""Ends that may be a user's text too: they are ends where the prompt's template begins so."""
FOREIGN = re.compile(r"<\|\w+\|>|\[INST\]|<start_of_turn>|<\uff5c\w+\uff5c>")
"""Signs of another template."""


def spoken(text: str, field: str) -> list[Message]:
    """The turns of a text in ChatML; a text without control tokens is one turn of the user's.

    Raises `RecordError` for another template, for text outside of the turns, and for roles that are none.
    """
    if not text.startswith(TURN_START):
        if foreign := FOREIGN.search(text):
            raise RecordError(field, f"holds {foreign[0]} and is not ChatML; send messages instead of a templated text")
        return [Message("user", text)]
    found, end = [], 0
    for turn in TURN.finditer(text):
        if text[end : turn.start()].strip():
            break
        if turn[1] not in ROLES:
            raise RecordError(field, f"role {turn[1][:40]!r} is not one of {', '.join(ROLES)}")
        found.append(Message(turn[1], turn[2]))
        end = turn.end()
    if text[end:].strip():
        raise RecordError(field, f"text outside of turns at position {end}; send messages instead")
    return found


def group_of(spoken: Sequence[Message], field: str) -> Group:
    """A conversation that ends in the response: criteria are the system turn that this project's template writes.

    Any other system turn is part of the prompt. Raises `RecordError` where there is no prompt or no response.
    """
    criteria, talk = criteria_and_turns(spoken, field)
    if len(talk) < 2 or talk[-1].role != "assistant":
        raise RecordError(field, "expected a prompt and, as its last turn, the assistant's response")
    prompt, response = conversation(talk[:-1], talk[-1:])
    return Group(criteria, prompt, (response,))


def answered(prompt: Sequence[Message], response: str, field: str) -> tuple[tuple[str, ...], Turns, Turns]:
    """Criteria, prompt and response of what a policy wrote after ``prompt``, whose last turn may be its beginning."""
    criteria, talk = criteria_and_turns(prompt, field)
    return criteria, *conversation(talk, (Message("assistant", response),), field)


def written_after(prompt: str, query: str, field: str) -> str:
    """The response in ``query``, a templated text that holds ``prompt``, without the tokens that end it.

    Raises `RecordError` for a text that does not hold its prompt.
    """
    start = query.find(prompt)  # a tokenizer may have put a token before it
    if start < 0 or not prompt:
        why = "so that nobody knows where the response is; a tokenizer may change texts that it decodes"
        raise RecordError(field, f"{query!r:.80} does not hold its prompt {prompt!r:.80}, {why}")
    begins = f"{query[:start]}{prompt}".lstrip()
    ends = ENDS + tuple(end for sign, own in ENDS_AFTER.items() if begins.startswith(sign) for end in own)
    response = query[start + len(prompt) :]
    while end := next((end for end in ends if response.rstrip().endswith(end)), None):
        response = response.rstrip().removesuffix(end)
    return response


def criteria_and_turns(spoken: Sequence[Message], field: str) -> tuple[tuple[str, ...], Turns]:
    """Criteria and the turns without them; with the criteria last their turn ends a text."""
    for place in {0, len(spoken) - 1}:
        turn = spoken[place] if spoken else None
        if turn and turn.role == "system" and turn.content.startswith(POINTWISE_INSTRUCTION):
            lines = turn.content.removeprefix(POINTWISE_INSTRUCTION).strip("\n").split("\n")
            if not all(line.startswith("- ") and line[2:].strip() for line in lines):
                raise RecordError(field, f"the system turn has no line `- criterion` after {POINTWISE_INSTRUCTION!r}")
            return tuple(line[2:].strip() for line in lines), (*spoken[:place], *spoken[place + 1 :])
    return (), tuple(spoken)
