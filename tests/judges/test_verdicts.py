"""Verdicts by hand: 200 and more replies that were sorted by reading them, and rules that hold for any text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.judges import verdicts
from crm.judges.llm_prompt import TEXT_FORM
from crm.judges.verdicts import FAILURES, read_verdict, token_logit

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
    assert len(STRINGS) >= 200
    assert len({text for _, text in STRINGS}) == len(STRINGS)
    kinds = {expected for expected, _ in STRINGS}
    assert kinds == {"first", "second", *FAILURES} - {"truncated"}, "every kind that a text can have"


def test_swapping_the_letters_swaps_the_verdict_and_nothing_else() -> None:
    swap = str.maketrans("AB", "BA")
    mirrored = {"first": "second", "second": "first"}
    for expected, text in STRINGS:
        if expected != "refusal":  # "As an AI" is one, "Bs an BI" is not
            assert outcome(text.translate(swap)) == mirrored.get(expected, expected), text


def test_long_replies_are_read_in_no_time_and_never_guessed() -> None:
    million = 1_000_000
    assert outcome("word " * million + "\nVerdict: B") == "second"
    assert outcome("Verdict: A" + " " * million) == "first"
    assert outcome("Verdict:" + " " * million + "A") == "first"
    for text in (
        "Verdict: A" + " " * million + "x",
        "Verdict: " + "A" * million,
        "**Verdict: A" + "*" * million,
        "Verdict: A or B" * (million // 10),
        "\n" * million + "A",
        "[" * million,
    ):
        assert outcome(text) == "no_verdict"


def test_only_lines_with_the_word_are_held_against_the_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted: a million lines without the word cost nothing but the search for it."""
    tried: list[str] = []

    def letter(line: str, original: Callable[[str], str | None] = verdicts._letter) -> str | None:
        tried.append(line)
        return original(line)

    monkeypatch.setattr(verdicts, "_letter", letter)
    assert outcome("no\n" * 100_000 + "**VERDICT: B**\nno\nVerdict: A") == "contradictory"
    assert set(tried) == {"**VERDICT: B**", "Verdict: A"}


def test_the_two_forms_of_the_prompt_are_the_verdicts() -> None:
    *_, first, second = TEXT_FORM.splitlines()
    assert (outcome(first), outcome(second)) == ("first", "second")


def plainly_a_verdict(line: str) -> bool:
    """Another route to the form: all decoration away, what is left is the word and a letter."""
    for mark in ("**", "[[", "]]", ".", " ", "\t", "\r"):
        line = line.replace(mark, "")
    return line[:-1].lower() == "verdict:" and line[-1:] in ("A", "B")


pieces = st.sampled_from(["Verdict: A", "Verdict: B", "Verdict:", "A", "B", "**", "[[", "]]", *".\n\r ", "or"])


@given(st.text() | st.lists(pieces, max_size=12).map("".join))
def test_no_text_has_a_verdict_unless_its_last_line_is_one(text: str) -> None:
    lines = [line for line in text.split("\n") if line.strip(" \t\r")]
    found = outcome(text)
    if found in ("first", "second"):
        assert plainly_a_verdict(lines[-1])
        assert ("A" if found == "first" else "B") in lines[-1]
    else:
        assert found in FAILURES


@given(st.text(alphabet=st.characters(exclude_characters="\n"), min_size=1), st.sampled_from("AB"))
def test_words_before_a_verdict_leave_it_and_words_behind_it_end_it(words: str, letter: str) -> None:
    expected = "first" if letter == "A" else "second"
    if not plainly_a_verdict(words):
        assert outcome(f"{words}\nVerdict: {letter}") == expected
    if words.strip(" \t\r") and not plainly_a_verdict(words):
        assert outcome(f"Verdict: {letter}\n{words}") not in ("first", "second")


def test_token_logit_by_hand() -> None:
    likely = [("A", math.log(0.5)), (" A", math.log(0.1)), ("B", math.log(0.2)), ("The", math.log(0.05))]
    assert token_logit(likely) == pytest.approx(math.log(0.6 / 0.2))
    assert token_logit([(token.translate(str.maketrans("AB", "BA")), value) for token, value in likely]) == (
        pytest.approx(math.log(0.2 / 0.6))
    )
    only_a = [("A", math.log(0.9)), ("I", math.log(0.02)), ("The", math.log(0.01))]
    assert token_logit(only_a) == pytest.approx(math.log(0.9 / 0.01)), "B is at most as likely as the last one told"
    assert token_logit([("B\n", -0.1), ("x", -3.0)]) == pytest.approx(-2.9)
    assert token_logit([("A", -800.0), ("B", -9999.0), ("c", 0.0)]) == pytest.approx(9199.0), "no underflow"
    assert token_logit([("A", -1.0), ("B", -1.0)]) == 0.0, "a tie that the model told is one"


@pytest.mark.parametrize("likely", [[], [("The", -0.1)], [("a", -0.1), ("b", -3.0)], [("A", -0.1)], [("AB", 0.0)]])
def test_tokens_that_say_nothing_of_the_letters_give_no_logit(likely: list[tuple[str, float]]) -> None:
    assert token_logit(likely) is None
