"""Verdicts: replies sorted by hand, and log-odds by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from crm.judges.llm_judge import read_verdict, token_logit

STRINGS = [
    json.loads(line)
    for line in (Path(__file__).parent / "verdict_strings.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]


def outcome(text: str) -> str:
    verdict, failure = read_verdict(text)
    assert (verdict is None) == (failure is not None)
    return verdict or str(failure)


def test_replies_sorted_by_hand() -> None:
    wrong = [(text, expected, outcome(text)) for expected, text in STRINGS if outcome(text) != expected]
    assert not wrong
    assert {expected for expected, _ in STRINGS} == {
        "first",
        "second",
        "contradictory",
        "empty",
        "no_verdict",
        "refusal",
    }


def test_swapping_the_letters_swaps_the_verdict_and_nothing_else() -> None:
    swap = str.maketrans("AB", "BA")
    mirrored = {"first": "second", "second": "first"}
    for expected, text in STRINGS:
        if expected != "refusal":  # "As an AI" is one, "Bs an BI" is not
            assert outcome(text.translate(swap)) == mirrored.get(expected, expected), text


def test_token_logit_by_hand() -> None:
    likely = [("A", math.log(0.5)), (" A", math.log(0.1)), ("B", math.log(0.2)), ("The", math.log(0.05))]
    assert token_logit(likely) == pytest.approx(math.log(0.6 / 0.2))
    assert token_logit([(token.translate(str.maketrans("AB", "BA")), value) for token, value in likely]) == (
        pytest.approx(math.log(0.2 / 0.6))
    )
    only_a = [("A", math.log(0.9)), ("I", math.log(0.02)), ("The", math.log(0.01))]
    assert token_logit(only_a) == pytest.approx(math.log(0.9 / 0.01)), "B is at most as likely as the last one listed"
    assert token_logit([("B\n", -0.1), ("x", -3.0)]) == pytest.approx(-2.9)
    assert token_logit([("A", -800.0), ("B", -9999.0), ("c", 0.0)]) == pytest.approx(9199.0), "no underflow"
    assert token_logit([("A", -1.0), ("B", -1.0)]) == 0.0, "a tie that the model gave is one"


@pytest.mark.parametrize("likely", [[], [("The", -0.1)], [("a", -0.1), ("b", -3.0)], [("A", -0.1)], [("AB", 0.0)]])
def test_tokens_that_say_nothing_of_the_letters_give_no_logit(likely: list[tuple[str, float]]) -> None:
    assert token_logit(likely) is None
