"""Why a request got no answer: a closed set of kinds, and the error that carries one inside the package.

A request that fails is an outcome, not an exception: `CallFailed` never leaves `crm.io.chat`.
"""

from __future__ import annotations

FAILURES = {
    "rate_limited": "429 until the attempts or the time ran out",
    "server_error": "a 5xx status",
    "timeout": "no complete reply within the deadline of the call, or 408",
    "connection": "no connection, or it broke",
    "rejected": "any other status: the endpoint will not take this request",
    "not_completion": "status 200, but the body is no chat completion (HTML, cut or invalid JSON, too large)",
    "empty": "a completion without a choice or without text",
    "refusal": "the model, or a filter before it, declined",
    "truncated": "the reply was cut at max_tokens",
    "not_json": "the reply does not hold exactly one JSON object",
    "wrong_schema": "the reply's JSON object breaks a rule",
    "budget": "not sent: the calls or tokens allowed are used up",
    "deadline": "not sent or given up: the time for the whole run is over",
    "endpoint_down": "not sent: too many calls in a row had got no answer",
}
"""Every kind of failure and what it means."""

RETRIED = frozenset({"rate_limited", "server_error", "timeout", "connection"})
"""Kinds that another attempt may mend."""
UNANSWERED = RETRIED | {"not_completion"}
"""Kinds in which no model answered: enough of them in a row mean that the endpoint is down."""


class CallFailed(Exception):  # noqa: N818 - an outcome on its way, not an error that a user meets
    """A call without a usable reply: its ``kind`` (of `FAILURES`), one line of ``detail``, seconds the server asked
    to wait for (``retry_after``), and the ``text`` of a reply that could not be used."""

    def __init__(self, kind: str, detail: str, retry_after: float | None = None, text: str = "") -> None:
        assert kind in FAILURES, kind
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.text = text


def one_line(text: str, secret: str | None = None, limit: int = 200) -> str:
    """A server's text made fit for a message: without the secret, on one line, at most ``limit`` characters."""
    if secret:
        text = text.replace(secret, "[key]")
    text = " ".join("".join(char if char.isprintable() else " " for char in text[: 10 * limit]).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
