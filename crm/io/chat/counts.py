"""What an asker has done so far, as numbers that add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """``requests`` = ``cached`` + ``answered`` + all ``failures``; ``calls`` are HTTP requests sent."""

    requests: int = 0
    cached: int = 0
    """Taken from the cache."""
    answered: int = 0
    """Asked for, and answered as the schema wants."""
    repaired: int = 0
    """Of those answered: the ones whose first reply was invalid and whose second was valid."""
    calls: int = 0
    retries: int = 0
    """Of the calls: further attempts after one that failed."""
    repairs: int = 0
    """Invalid replies that were sent back once."""
    failures: Counter[str] = field(default_factory=Counter)
    """Requests without an answer, by kind (see `crm.io.chat.failures.FAILURES`)."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Tokens as the server reported them."""
    unreported_tokens: int = 0
    """Estimate (characters / 4, prompt and reply) for completions whose server reported none."""

    unanswered_in_a_row: int = 0
    """The latest calls to which no model replied; see `Endpoint.breaker`."""

    @property
    def tokens(self) -> int:
        """Tokens used up, reported or estimated."""
        return self.prompt_tokens + self.completion_tokens + self.unreported_tokens
