"""Rankings of the part of a bank that somebody chose, and what a response that cannot be read means for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker, signed


def test_topics_models_baseline_and_number_are_what_was_chosen(make_ranker: Any) -> None:
    ranker: Ranker = make_ranker()
    part = ranker.rank(Profile((), (), ("T",), "", "middle", ("brief", "middle"), 3)).part
    assert part.baseline == "middle" and part.authors == ("brief", "middle")
    assert len(part.queries) == 3 and {query.topic for query in part.queries} == {"T"}
    similar = ranker.rank(Profile(about="I like trains")).part.queries
    assert {query.topic for query in similar} == {"T"} and len(similar) == 4


def test_queries_stand_in_turns_over_topics(make_ranker: Any) -> None:
    topics = [query.topic for query in make_ranker().rank(Profile()).part.queries]
    assert all({first, second} == {"T", "S"} for first, second in zip(topics[::2], topics[1::2], strict=True))


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (Profile(topics=("X",)), "topics: 'X' is not in the bank; did you mean"),
        (Profile(baseline="gpt"), "baseline: 'gpt' is not in the bank; there are base, brief"),
        (Profile(models=("gpt",)), "models: 'gpt' is not in the bank"),
        (Profile(models=("base",)), "models: only the baseline 'base' is left"),
        (Profile(about="xyzzy"), "about: no query of the bank shares a word with 'xyzzy'"),
    ],
)
def test_what_the_bank_does_not_have_is_named(make_ranker: Any, profile: Profile, message: str) -> None:
    ranker: Ranker = make_ranker()
    for call in (ranker.read, ranker.rank):
        with pytest.raises(ProfileError, match=message):
            call(profile)


def test_what_cannot_be_read_is_lost_and_counted(make_ranker: Any, bank: Any) -> None:
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"]["q0"] = "huge " * 9
    found = make_ranker(replace(bank, responses=texts)).rank(Profile())
    assert found.failed == 1 and found.board is not None
    assert found.board.unread == {"wordy": 1} and {row.n for row in found.board.rows} == {8}
    assert "q0" not in found.logits("wordy") and set(found.logits("middle")) == {f"q{n}" for n in range(8)}
    assert found.board.frame()["unread"].tolist().count(1) == 1


def test_dislikes_and_weights_are_signed() -> None:
    assert signed(Profile(("a", "b"), ("c",), weights=(2.0, 1.0, 3.0))) == (("a", "b", "c"), (2.0, 1.0, -3.0))
    assert signed(Profile((), ("c",))) == (("c",), (-1.0,))
    lines, weights = signed(Profile())
    assert len(lines) == 1 and weights == (1.0,)
