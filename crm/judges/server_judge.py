"""A judge behind a reward server. In: comparisons. Out: readings, as the model of the server gives them.

Its digest is the server's: what was read there is what the folder itself would say, so that predictions are shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from crm.judges.judge import Asked, Reading
from crm.judges.reward_client import UNANSWERED, GroupRewards, PairLogit, RewardClient
from crm.schema import Comparison, Message

WINDOW = 256
"""Comparisons of a portion; the client makes several requests of it, and asks them at a time."""


class ServerJudge:
    """``client`` masks or raises; a comparison without an answer has no reading, one that cannot be read has failed."""

    left_out, together = UNANSWERED, 1

    def __init__(self, client: RewardClient) -> None:
        self._client = client
        self.served = client.model()
        self.pointwise = self.served.pointwise

    @property
    def digest(self) -> str:
        """The server's."""
        return self.served.digest

    def fits(self, asked: Asked) -> bool:
        """Always: the server says what is too long."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Both orders of a comparison are asked for once."""
        for start in range(0, len(comparisons), WINDOW):
            portion = comparisons[start : start + WINDOW]
            rows = list({row.id: row for row, _ in portion}.values())
            said = self._scores(rows) if self.pointwise else self._logits(rows)
            of_row = {row.id: answer for row, answer in zip(rows, said, strict=True)}
            yield [reading for asked in portion if (reading := _reading(asked, of_row[asked[0].id])) is not None]

    def _scores(self, rows: Sequence[Comparison]) -> Sequence[GroupRewards | PairLogit]:
        return self._client.score(
            [{**_told(row), "responses": [_turns(row.response_a), _turns(row.response_b)]} for row in rows]
        )

    def _logits(self, rows: Sequence[Comparison]) -> Sequence[GroupRewards | PairLogit]:
        return self._client.compare(
            [{**_told(row), "first": _turns(row.response_a), "second": _turns(row.response_b)} for row in rows]
        )


def _reading(asked: Asked, said: GroupRewards | PairLogit) -> Reading | None:
    row, order = asked
    if isinstance(said, GroupRewards):
        score_a, score_b = said.rewards
        if score_a is not None and score_b is not None:
            return Reading(row, order, score_a - score_b, score_a, score_b)
        reason = said.reasons[0] or said.reasons[1]
    else:
        logit = said.shown_first if order == "ab" else said.shown_second
        if logit is not None:
            return Reading(row, order, logit)
        reason = said.reason
    return None if reason == UNANSWERED else Reading(row, order, None, failure=reason or "no_verdict")


def _told(row: Comparison) -> dict[str, Any]:
    return {"criteria": list(row.criteria), "messages": _turns(row.prompt)}


def _turns(turns: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]
