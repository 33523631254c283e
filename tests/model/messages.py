"""Messages, written out once more: what a user of an exported chat template would build, and what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from crm.model.encoding import pointwise_messages, system_text
from crm.model.heads import PAIRWISE_INSTRUCTION
from crm.schema import Comparison, Message


def pairwise_messages(
    criteria: Sequence[str], prompt: Sequence[Message], first: Sequence[Message], second: Sequence[Message]
) -> list[dict[str, str]]:
    """Criteria, prompt, the response shown first, the one shown second."""
    turns = [("system", system_text(criteria, PAIRWISE_INSTRUCTION)), *((turn.role, turn.content) for turn in prompt)]
    for speaker, response in (("response_a", first), ("response_b", second)):
        turns += [
            (speaker if turn.role == "assistant" else f"{speaker}_{turn.role}", turn.content) for turn in response
        ]
    return [{"role": role, "content": content} for role, content in turns]


def conversations(row: Comparison, head: str, order: str = "ab") -> list[list[dict[str, str]]]:
    """The message lists that a linear head reads of a comparison: two of the scalar head, else one."""
    first, second = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
    if head == "scalar":
        return [pointwise_messages(row.criteria, row.prompt, response) for response in (first, second)]
    return [pairwise_messages(row.criteria, row.prompt, first, second)]


def by_hand(turns: list[dict[str, str]]) -> str:
    """The text of turns, without a template."""
    return "\n".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>" for turn in turns)
