"""Scoring a bank: outcomes against scores worked out one response at a time; responses that are no answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crm.config import compose
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.run import run_leaderboard
from crm.leaderboard.scoring import bank_comparisons, score_bank, to_outcomes
from crm.leaderboard.validity import EMPTY, REPEATING, TRUNCATED, flaws
from crm.model.batching.batches import collate
from crm.schema import Comparison, Message, Prediction
from tests.made_files import bank_of

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


STEPS = ("Boil", "Warm", "Fill", "Cover", "Stir", "Serve")
PROSE = "".join(f"{step} it first, then let the leaves stand for {at} minutes. " for at, step in enumerate(STEPS))
LINES = "\n".join(f"- Step {place}: move the {thing} to the left side." for place, thing in enumerate("abcdef"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (EMPTY,)),
        (" \n\u00a0", (EMPTY,)),
        ("😺🐾", ()),
        ("42", ()),
        (PROSE, ()),
        (PROSE + "After that you may add the milk and some sugar but you should never", (TRUNCATED,)),
        (PROSE + "After that you may add milk,\n\n- sugar for those who like it very sweet indeed and warm", ()),
        (PROSE + "Thank you for reading all of this, and visit us again soon #tea #warm #leaves", ()),
        ("Here it is:\n```python\nprint(1)", (TRUNCATED,)),
        ("Here it is:\n```python\nprint(1)\n```", ()),
        ("The same again, and " * 30 + "done.", (REPEATING,)),
        ("I can move it to the left side for you.\n" * 6, (REPEATING,)),
        (LINES, ()),
        ("A short poem.\n" + "-" * 80 + "\n" + "-" * 80, ()),
    ],
)
def test_what_is_a_flaw(text: str, found: tuple[str, ...]) -> None:
    assert flaws(text) == found


def test_the_table_counts_them_and_the_setting_leaves_their_queries_out(tmp_path: Path) -> None:
    long = "That depends on many things, all named here."
    texts = {"brief": "Yes.", "wordy": lambda n: " " if n == 3 else long, "base": "Well, yes and no."}
    bank_of(texts, ["tea"] * 12).save(tmp_path / "bank")
    config = compose(
        "leaderboard",
        ["judge=length", "bank=folder", f"bank.path={tmp_path / 'bank'}", f"predictions={tmp_path}", "progress=false"],
        tmp_path / "run",
    )
    board = run_leaderboard(config, show=False)
    table = pd.read_csv(tmp_path / "run/leaderboard.csv", skiprows=1).set_index("model")
    assert table["flawed"].to_dict() == {"wordy": 1, "brief": 0, "base": 0}
    assert len(board.outcomes.queries) == 12
    clean = run_leaderboard(replace(config, drop_flawed=True), show=False)
    assert set(board.outcomes.queries) - set(clean.outcomes.queries) == {"q03"}
    assert clean.win_rates()["wordy"] >= board.win_rates()["wordy"]
