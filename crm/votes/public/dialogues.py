"""Written-down dialogues. In: one text with ``Human:`` and ``Assistant:`` before the turns. Out: a conversation."""

from __future__ import annotations

import re

from crm.schema import Message
from crm.votes.fields import Conversation

_SPEAKER = re.compile(r"(?:\A|\n\n)(?:## )?(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def dialogue(text: str) -> Conversation:
    """Turns of ``text``, without the white space around them. A speaker stands at the start or after a blank line.

    What comes before the first speaker is a turn of the user, unless it is blank. Roles need not alternate.
    """
    opening, *rest = _SPEAKER.split(text)
    turns = [Message(_ROLES[rest[at]], rest[at + 1].strip()) for at in range(0, len(rest), 2)]
    return (Message("user", opening.strip()), *turns) if opening.strip() else tuple(turns)
