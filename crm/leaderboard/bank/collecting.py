"""Responses of a model behind a chat endpoint to the queries of a bank.

What the model answered is never asked again; a call without a reply is counted by its kind, and asked again next time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from crm.chat.cache import ReplyCache
from crm.chat.client import ChatClient, EndpointConfig
from crm.chat.replies import CallFailed, Reply, split_thoughts
from crm.leaderboard.bank.bank import BankQuery


def collect(
    endpoint: EndpointConfig,
    cache: ReplyCache,
    queries: Sequence[BankQuery],
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, str], dict[str, str], Counter[str]]:
    """Responses and the thoughts before them (`split_thoughts`), by query id, and failed calls by kind.

    Queries whose call failed are in neither. Raises ``ValueError`` for what dooms every request: a wrong key, address
    or model.
    """
    prompts = [query.prompt for query in queries]
    found = ChatClient(endpoint, cache).ask(prompts, _answer, "response", progress=progress)
    answers = {query.id: outcome.value for query, outcome in zip(queries, found, strict=True) if outcome.value}
    responses = {name: response for name, (_, response) in answers.items()}
    failed = Counter(outcome.failure for outcome in found if outcome.failure)
    return responses, {name: thoughts for name, (thoughts, _) in answers.items() if thoughts}, failed


def _answer(reply: Reply) -> tuple[str, str]:
    thoughts, response = split_thoughts(reply.text)
    if not response.strip():
        raise CallFailed("empty", "the reply ends with the model's thoughts; allow more max_tokens")
    return thoughts, response
