"""Which sentence moves a judge: what is left out is what is compared, and the effect is that of the judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.special import expit

from crm.page.profile import Profile, ProfileError
from crm.page.sentences import MOST, sentence_effects, split
from tests.page.conftest import small_bank
from tests.page.counting import counting_ranker

TEXT = "One two three. Four five? Six:\n- seven"


def bank_with(text: str) -> Any:
    bank = small_bank()
    return replace(bank, responses={**bank.responses, "wordy": {**bank.responses["wordy"], "q0": text}})


def test_sentences_end_where_people_end_them() -> None:
    assert split(TEXT) == ["One two three.", "Four five?", "Six:", "- seven"]
    assert split("3.5 is a number") == ["3.5 is a number"]
    assert len(split("A b. " * 99)) == MOST + 1


def test_each_effect_is_that_of_the_words_that_are_missing(make_ranker: Any) -> None:
    """This judge counts words: the baseline has 2, the response 7."""
    ranker = make_ranker(bank_with(TEXT))
    found = sentence_effects(ranker, Profile(("longer",)), "wordy", "q0")
    assert [text for text, _ in found] == split(TEXT)
    whole = expit(len(TEXT.split()) - 2)
    left = [len(TEXT.split()) - len(text.split()) for text, _ in found]
    assert [points for _, points in found] == pytest.approx([100 * (whole - expit(n - 2)) for n in left], abs=1e-6)


def test_an_index_says_the_same_as_a_bank_with_the_shorter_text(tmp_path: Path) -> None:
    full = counting_ranker(bank_with(TEXT), tmp_path / "full")
    profile = Profile(("detailed",))
    (first, points), *_ = sentence_effects(full, profile, "wordy", "q0")
    shorter = counting_ranker(bank_with("Four five? Six: - seven"), tmp_path / "shorter")
    chances: list[float] = []
    for ranker in (full, shorter):
        chances.append(float(expit(ranker.rank(profile).logits("wordy")["q0"])))
    # The index holds half precision, and what is read now is not rounded.
    assert first == "One two three." and points == pytest.approx(100 * (chances[0] - chances[1]), abs=0.02)


@pytest.mark.parametrize(
    "model, query, message",
    [
        ("base", "q0", "model: 'base' is not compared with 'base' here"),
        ("gpt", "q0", "model: 'gpt' is not compared"),
        ("wordy", "q99", "query_id: 'q99' is not among the 8 that were asked for"),
        ("wordy", "q1", "query_id: 'q1' is not among the 4"),
    ],
)
def test_what_is_not_there_is_named(make_ranker: Any, model: str, query: str, message: str) -> None:
    profile = Profile(topics=("T",)) if query == "q1" else Profile()
    with pytest.raises(ProfileError, match=message):
        sentence_effects(make_ranker(), profile, model, query)
