"""Scoring a bank: outcomes against scores worked out one response at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Reading
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import bank_comparisons, score_bank, to_outcomes
from crm.model.batching.batches import collate
from crm.schema import Comparison, Message, Prediction

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


@pytest.mark.usefixtures("in_float64")
def test_outcomes_are_differences_of_scores_by_hand(make_model, make_encoder, bank, tmp_path) -> None:
    model, encoder = make_model("scalar"), make_encoder("scalar")
    judge = CrmJudge(model, encoder, batch_size=4)
    found, counts = score_bank(judge, bank, CRITERIA, folder=tmp_path, progress=False)
    assert counts == {"readings": 18, "already_there": 0, "made": 18, "too_long": 0}
    assert (found.queries, found.models) == (("q", "q|x", "r"), ("x|y", "y", "z", "base"))
    assert found.topics == ("topic 0", "topic 1", "topic 0") and found.answered.all()

    def alone(prompt: Any, text: str) -> float:
        twice = ((Message("assistant", text),),) * 2
        with torch.no_grad():
            scores = model(collate([encoder.encode(Comparison("c", "p", CRITERIA, prompt, *twice, "tie"))], 0)).scores
        return float(scores[0, 0])

    for row, query in enumerate(bank.queries):
        texts = [bank.responses[name][query.id] for name in found.models]
        scores = np.array([alone(query.prompt, text) for text in texts])
        assert found.scores is not None and found.scores[row] == pytest.approx(scores, abs=1e-12)
        assert found.logits[row] == pytest.approx(scores - scores[-1], abs=1e-12)
        assert found.words[row].tolist() == [len(text.split()) for text in texts]


def test_orders_are_averaged_and_one_order_alone_is_no_verdict(bank) -> None:
    rows = bank_comparisons(bank, CRITERIA)
    assert len({row.id for row in rows}) == len(rows) == 9

    def prediction(row: Comparison, order: str, logit: float, scores: tuple[Any, Any] = (None, None)) -> Prediction:
        return Prediction(row.id, order, logit, "tie", row.cluster, "tiny", "f", *scores)

    read = [
        prediction(rows[0], "ab", 2.0, (3.0, 1.0)),
        prediction(rows[0], "ba", -1.0, (2.0, 3.0)),
        prediction(rows[1], "ab", 4.0),
    ]
    found = to_outcomes(bank, read)
    assert found.logits[0, 0] == 0.5 and np.isnan(found.logits[:, :-1]).sum() == 8 and found.answered[:, :-1].sum() == 1
    assert found.scores is not None and (found.scores[0, 0], found.scores[0, -1]) == (2.5, 2.0)
    assert to_outcomes(bank, read, too_long=True).answered.all()


class FlakyJudge:
    """Prefers more words. On queries in ``down`` it does not answer, on those in ``nonsense`` it gives no verdict."""

    digest = "flaky"

    def __init__(self, down: set[str], nonsense: set[str] = frozenset(), left_out: str = "unanswered") -> None:  # type: ignore[assignment]
        self.down, self.nonsense, self.left_out = down, nonsense, left_out

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
    given: Any = {"folder": tmp_path, "progress": False}
    found, counts = score_bank(FlakyJudge(down, {"q30"}), bank, (), **given)
    assert counts["unanswered"] == 25, "one order of the model good on each of them"
    assert (~found.answered).sum(axis=0).tolist() == [25, 0, 0] and found.models[0] == "good"
    board = Leaderboard(found)
    assert [row.model for row in board.rows] == ["good", "ok", "base"]
    assert board.left_out == 26, "nobody has a verdict on q30"
    assert {row.n for row in board.rows} == {14} and board.unread == {}
    again, counts = score_bank(FlakyJudge(set(), {"q30"}), bank, (), **given)
    assert counts["made"] == 25 and again.answered.all()
    # What was too long for the judge can never be read, and is lost as before.
    lost = score_bank(FlakyJudge(down, left_out="too_long"), bank, (), **{**given, "folder": tmp_path / "long"})[0]
    assert Leaderboard(lost).unread == {"good": 25} and Leaderboard(lost).left_out == 0
