"""Scoring a bank: matches against scores worked out one response at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Reading
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import bank_comparisons, score_bank, to_matches
from crm.model.batching.batches import collate
from crm.schema import Comparison, Match, Message, Prediction

CRITERIA = ("Likes it short", "東京")


@pytest.fixture(scope="module")
def bank() -> Bank:
    """Ids that a separator would confuse: query ``q`` by author ``x|y``, and query ``q|x`` by author ``y``."""
    queries = [
        BankQuery(name, (Message("user", f"Tell me {name}"),), f"topic {i % 2}")
        for i, name in enumerate(("q", "q|x", "r"))
    ]
    answers = {"base": "plain words here", "x|y": "two words", "y": "", "z": "a far longer answer to the question"}
    responses = {
        author: {query.id: f"{text} {query.topic}".strip() for query in queries} for author, text in answers.items()
    }
    return Bank("tiny", "base", tuple(queries), responses)


@pytest.fixture()
def score(make_model, make_encoder, bank, tmp_path):
    def run(
        head: str = "scalar", baseline: str = "base", folder: Path = tmp_path, **settings: Any
    ) -> tuple[list[Match], dict[str, int]]:
        judge = CrmJudge(
            make_model(head), make_encoder(head, settings.pop("max_length", 2048)), batch_size=4, **settings
        )
        return score_bank(judge, bank, CRITERIA, baseline=baseline, folder=folder, progress=False)

    return run


@pytest.mark.usefixtures("in_float64")
def test_matches_are_differences_of_scores_by_hand(score, make_model, make_encoder, bank) -> None:
    matches, counts = score("scalar")
    assert counts == {"readings": 18, "already_there": 0, "made": 18, "too_long": 0}
    found = {(match.query_id, match.candidate): match for match in matches}
    assert found.keys() == {(query.id, author) for query in bank.queries for author in ("x|y", "y", "z")}
    model, encoder = make_model("scalar"), make_encoder("scalar")

    def alone(prompt: Any, text: str) -> float:
        twice = ((Message("assistant", text),),) * 2
        with torch.no_grad():
            scores = model(collate([encoder.encode(Comparison("c", "p", CRITERIA, prompt, *twice, "tie"))], 0)).scores
        return float(scores[0, 0])

    for query in bank.queries:
        base = alone(query.prompt, bank.responses["base"][query.id])
        for author in ("x|y", "y", "z"):
            match = found[query.id, author]
            candidate = alone(query.prompt, bank.responses[author][query.id])
            assert match.preference_logit == pytest.approx(candidate - base, abs=1e-12)
            assert (match.score_candidate, match.score_baseline) == pytest.approx((candidate, base), abs=1e-12)
            assert (match.topic, match.baseline) == (query.topic, "base")
            assert match.length_candidate == len(bank.responses[author][query.id].split())
            assert match.length_baseline == 5


def test_every_candidate_meets_the_baseline_once_a_query(bank) -> None:
    rows = bank_comparisons(bank, CRITERIA, "base")
    assert len({row.id for row in rows}) == len(rows) == 9
    assert {row.criteria for row in rows} == {CRITERIA} and {row.label for row in rows} == {"tie"}
    with pytest.raises(ValueError, match=r"bank.baseline='nobody': not in bank 'tiny'; choose one of base, x\|y, y, z"):
        bank_comparisons(bank, CRITERIA, "nobody")


def test_orders_are_averaged_and_one_order_alone_is_no_verdict(bank) -> None:
    rows = bank_comparisons(bank, CRITERIA, "base")

    def prediction(row: Comparison, order: str, logit: float, scores: tuple[Any, Any] = (None, None)) -> Prediction:
        return Prediction(row.id, order, logit, "tie", row.cluster, "tiny", "f", *scores)

    read = [
        prediction(rows[0], "ab", 2.0, (3.0, 1.0)),
        prediction(rows[0], "ba", -1.0, (2.0, 3.0)),
        prediction(rows[1], "ab", 4.0),
    ]
    match, *others = to_matches(bank, "base", read)
    assert len(others) == 8 and {other.preference_logit for other in others} == {None}
    assert (match.preference_logit, match.score_candidate, match.score_baseline) == (0.5, 2.5, 2.0)
    assert (match.query_id, match.candidate) == ("q", "x|y")


class FlakyJudge:
    """Prefers more words. On queries in ``down`` it does not answer, on those in ``nonsense`` it gives no verdict."""

    together, digest = 1, "flaky"

    def __init__(self, down: set[str], nonsense: set[str] = frozenset(), left_out: str = "unanswered") -> None:  # type: ignore[assignment]
        self.down, self.nonsense, self.left_out = down, nonsense, left_out

    def fits(self, asked: Any) -> bool:
        return True

    def read(self, comparisons: Any) -> Any:
        for row, order in comparisons:
            words = [len(turns[0].content.split()) for turns in (row.response_a, row.response_b)]
            if row.preference_id in self.nonsense:
                yield [Reading(row, order, None, failure="no_verdict")]
            elif row.preference_id not in self.down or (words[0] < 6 or order == "ba"):
                yield [Reading(row, order, float(words[0] - words[1]))]


def words_bank() -> Bank:
    """Model "good" has 6 words, "ok" 3, the baseline 2."""
    queries = tuple(BankQuery(f"q{n}", (Message("user", f"Tell me {n}"),), "t") for n in range(40))
    texts = {"base": "two words", "ok": "three words now", "good": "six words are more than three"}
    return Bank("words", "base", queries, {who: {q.id: text for q in queries} for who, text in texts.items()})


def test_what_got_no_answer_is_unknown_and_asked_again_and_what_has_no_verdict_is_lost(tmp_path: Path) -> None:
    bank, down = words_bank(), {f"q{n}" for n in range(25)}
    given: Any = {"baseline": "base", "folder": tmp_path, "progress": False}
    matches, counts = score_bank(FlakyJudge(down, {"q30"}), bank, (), **given)
    assert counts["unanswered"] == 25, "one order of the model good on each of them"
    assert {(m.query_id, m.candidate) for m in matches if not m.answered} == {(name, "good") for name in down}
    board = Leaderboard(matches)
    assert [row.model for row in board.rows] == ["good", "ok", "base"] and board.incomplete == 25
    assert board.left_out == 1, "nobody has a verdict on q30"
    assert {row.n for row in board.rows} == {14} and board.unread == {}
    again, counts = score_bank(FlakyJudge(set(), {"q30"}), bank, (), **given)
    assert counts["made"] == 25 and all(match.answered for match in again)
    assert Leaderboard(again).incomplete == 0
    # What was too long for the judge can never be read, and is lost as before.
    lost = score_bank(FlakyJudge(down, left_out="too_long"), bank, (), **{**given, "folder": tmp_path / "long"})[0]
    assert Leaderboard(lost).unread == {"good": 25} and Leaderboard(lost).incomplete == 0
