"""Messages of the joint heads, written out once more: what a user of an exported chat template would build."""

from __future__ import annotations

from collections.abc import Sequence

from crm.model.encoding import PAIRWISE_INSTRUCTION, system_text
from crm.schema import Message


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
