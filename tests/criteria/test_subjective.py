"""The filter of subjective prompts: verdicts by hand, failures kept, one question per prompt."""

from __future__ import annotations

from typing import Any, cast

from crm.criteria.schemas import SubjectiveReply
from crm.criteria.subjective import keep_subjective, requests
from crm.io.chat.asker import Asker, Outcome, Request
from crm.schema import Message, Preference


class Scripted:
    """Stands in for an `Asker`: the request's text decides."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def ask_all(self, asked: list[Request], schema: Any, sources: Any, progress: Any) -> list[Outcome[SubjectiveReply]]:
        assert schema is SubjectiveReply and sources and progress is None
        self.asked += asked
        return [self._outcome(request) for request in asked]

    def _outcome(self, request: Request) -> Outcome[SubjectiveReply]:
        text = request.messages[1].content
        if "broken" in text:
            return Outcome(request.id, failure="server_error", detail="status 500")
        subjective = "poem" in text.lower()
        return Outcome(
            request.id, SubjectiveReply(subjective=subjective, why="Tastes differ." if subjective else "Sums.")
        )


def preference(identifier: str, query: str) -> Preference:
    say = (Message("assistant", "ok"),)
    return Preference(identifier, (Message("user", query),), say, say, "a")


def test_objective_prompts_go_and_failures_stay() -> None:
    queries = ["A poem?", "1 + 1?", "broken", "a  POEM?", "Poem of rain"]
    rows = [preference(f"p{n}", query) for n, query in enumerate(queries)]
    asker = Scripted()
    result = keep_subjective(rows, cast(Asker, asker))
    assert [row.id for row in result.kept] == ["p0", "p2", "p3", "p4"]
    assert [(verdict.id, verdict.status, verdict.why) for verdict in result.verdicts] == [
        ("p0", "kept", "Tastes differ."),
        ("p1", "dropped", "Sums."),
        ("p2", "failed:server_error", "status 500"),
        ("p3", "kept", "Tastes differ."),
        ("p4", "kept", "Tastes differ."),
    ]
    assert result.counts == {"kept": 3, "dropped": 1, "failed:server_error": 1}
    assert len(asker.asked) == 4  # p0 and p3 differ only in case and white space


def test_the_responses_are_not_shown() -> None:
    [request] = requests([preference("p", "A poem?")])
    assert "ok" not in request.messages[1].content
