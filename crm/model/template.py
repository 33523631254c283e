"""The chat template (ChatML) that is stored with a checkpoint.

What it renders of messages, and plain transformers tokenises as one string, are the ids that
`crm.model.encoding` puts together of parts.
"""

from __future__ import annotations

from crm.model.heads import head_named
from crm.schema import GENERIC_CRITERION

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"

def chat_template(head: str) -> str:
    """Jinja source of the template stored with a checkpoint; without a system turn it inserts `GENERIC_CRITERION`.

    Roles beyond the usual three: ``response_a`` and ``response_b`` of the joint heads.
    """
    kind = head_named(head)
    generic = f"{kind.instruction}\\n- {GENERIC_CRITERION}"
    turn = f"'{TURN_START}' + message.role + '\\n' + message.content + '{TURN_END}'"
    if kind.apart:  # criteria are rendered alone, conversations without them
        return (
            f"{{%- for message in messages -%}}{{{{- {turn} -}}}}"
            "{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}{%- endfor -%}"
        )
    return (
        "{%- if messages[0].role != 'system' -%}"
        f"{{{{- '{TURN_START}system\\n{generic}{TURN_END}\\n' -}}}}"
        "{%- endif -%}"
        "{%- for message in messages -%}"
        f"{{{{- {turn} -}}}}"
        "{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}"
        "{%- endfor -%}"
    )
