"""The chat template (ChatML) that is stored with a checkpoint.

What it renders of messages, and plain transformers tokenises as one string, are the ids that
`crm.model.encoding` puts together of parts.
"""

from __future__ import annotations

from crm.model.heads import PromptOrder, head_named
from crm.schema import GENERIC_CRITERION

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
MARKS = ("response_a", "response_b")
"""Roles of the two empty turns that end a `pairwise_span` prompt with the criteria last: the head reads at their ends.
They repeat the roles of the responses, so that each says which response it is about, and need no token of their own."""


def chat_template(head: str, order: PromptOrder = "criteria_first") -> str:
    """Jinja source of the template stored with a checkpoint; without a system turn it inserts `GENERIC_CRITERION`.

    Roles beyond the usual three: ``response_a`` and ``response_b`` of the joint heads. With ``criteria_last`` the
    leading system turn is moved behind the conversation: callers pass the same messages in both orders.
    """
    kind = head_named(head)
    generic = f"{kind.instruction}\\n- {GENERIC_CRITERION}"
    turn = f"'{TURN_START}' + message.role + '\\n' + message.content + '{TURN_END}'"
    if kind.apart:  # criteria are rendered alone, conversations without them
        return (
            f"{{%- for message in messages -%}}{{{{- {turn} -}}}}"
            "{%- if not loop.last -%}{{- '\\n' -}}{%- endif -%}{%- endfor -%}"
        )
    if order == "criteria_last":
        marks = "".join(f"\\n{TURN_START}{role}\\n{TURN_END}" for role in MARKS if kind.spans)
        return (
            "{%- if messages[0].role == 'system' -%}"
            "{%- set criteria, conversation = messages[0].content, messages[1:] -%}"
            f"{{%- else -%}}{{%- set criteria, conversation = '{generic}', messages -%}}{{%- endif -%}}"
            f"{{%- for message in conversation -%}}{{{{- {turn} + '\\n' -}}}}{{%- endfor -%}}"
            f"{{{{- '{TURN_START}system\\n' + criteria + '{TURN_END}{marks}' -}}}}"
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
