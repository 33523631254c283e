"""Verdicts: replies sorted by hand."""

from __future__ import annotations

import json
from pathlib import Path

from crm.judges.llm_judge import read_verdict

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
