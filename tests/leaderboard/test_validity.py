"""Responses that are no answer are counted beside every ranking, and may be left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from crm.config import compose
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.run import run_leaderboard
from crm.leaderboard.validity import EMPTY, REPEATING, STUFFED, TRUNCATED, flaws
from crm.schema import Message

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
        ("I know that you prefer SHORT answers without lists, so here is one.", (STUFFED,)),
        ("Short answers are best.", ()),
    ],
)
def test_what_is_a_flaw(text: str, found: tuple[str, ...]) -> None:
    assert flaws(text, ["prefer short answers without lists.", "short answers"]) == found


def bank() -> Bank:
    queries = tuple(BankQuery(f"q{i}", (Message("user", f"Question {i}?"),), "tea") for i in range(12))
    texts = {"brief": "Yes.", "wordy": "That depends on many things, all named here.", "base": "Well, yes and no."}
    responses = {name: {query.id: text for query in queries} for name, text in texts.items()}
    responses["wordy"]["q3"] = " "
    return Bank(name="teas", queries=queries, responses=responses, baseline="base")


def test_the_table_counts_them_and_the_setting_leaves_their_queries_out(tmp_path: Path) -> None:
    bank().save(tmp_path / "bank")
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
    assert set(board.outcomes.queries) - set(clean.outcomes.queries) == {"q3"}
    assert clean.win_rates()["wordy"] >= board.win_rates()["wordy"]
