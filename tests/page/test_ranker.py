"""Rankings that grow: they end where `leaderboard.py`'s scoring ends, and what a person chose is what is read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.page.additions import Additions
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker


def test_the_last_ranking_is_that_of_score_bank(make_ranker: Any, judge: Any, bank: Any, tmp_path: Path) -> None:
    ranker: Ranker = make_ranker(judge, bank)
    *_, last = ranker.rank(Profile(("Prefers concise answers",)))
    matches, _ = score_bank(
        judge, bank, ("Prefers concise answers",), baseline="base", folder=tmp_path / "kept", progress=False
    )
    expected = Leaderboard(matches).frame()
    assert last.board is not None and last.complete and last.failed == 0
    assert last.board.frame().equals(expected)
    assert ranker.known(last.profile).board.frame().equals(expected)  # type: ignore[union-attr]


def test_rankings_grow_in_turns_over_topics(make_ranker: Any, judge: Any) -> None:
    judge.seconds = 0.03
    ranker: Ranker = make_ranker(judge)
    steps = list(ranker.rank(Profile()))
    counts = [step.done for step in steps]
    assert counts[0] == 0 and counts == sorted(counts) and counts[-1] == 8
    assert any(0 < count < 8 for count in counts)
    topics = [query.topic for query in steps[-1].part.queries]
    assert all({first, second} == {"T", "S"} for first, second in zip(topics[::2], topics[1::2], strict=True))
    growing = next(step for step in steps if 0 < step.done < 8)
    assert growing.board is not None and set(growing.board.wins.index) == {
        q.id for q in growing.part.queries[: growing.done]
    }


def test_topics_models_baseline_and_number_are_what_was_chosen(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge)
    *_, last = ranker.rank(Profile((), (), ("T",), "", "middle", ("brief", "middle"), 3))
    assert last.part.baseline == "middle" and last.part.authors == ("brief", "middle")
    assert last.total == 3 and {query.topic for query in last.part.queries} == {"T"}
    *_, similar = ranker.rank(Profile(about="I like trains"))
    assert {query.topic for query in similar.part.queries} == {"T"} and similar.total == 4


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
def test_what_the_bank_does_not_have_is_named(make_ranker: Any, judge: Any, profile: Profile, message: str) -> None:
    ranker: Ranker = make_ranker(judge)
    with pytest.raises(ProfileError, match=message):
        next(ranker.rank(profile))
    assert judge.read_count == 0 and len(ranker.queue) == 0


def test_what_is_too_long_is_lost_and_not_asked_again(make_ranker: Any, judge: Any, bank: Any, tmp_path: Path) -> None:
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"]["q0"] = "huge " * 9
    ranker: Ranker = make_ranker(judge, replace(bank, responses=texts))
    *_, last = ranker.rank(Profile())
    assert last.complete and last.failed == 1 and last.board is not None
    assert last.board.unread == {"wordy": 1} and {row.n for row in last.board.rows} == {8}
    matches, _ = score_bank(judge, ranker.bank, last.profile.told, baseline="base", folder=tmp_path, progress=False)
    assert last.board.frame().equals(Leaderboard(matches).frame()), "page and command line agree"
    assert "1 comparisons of 1 models could not be read" in last.board.explain_unread()
    assert last.board.frame()["unread"].tolist().count(1) == 1
    assert ranker.known(Profile()).complete and ranker.known(Profile()).failed == 1


def test_what_got_no_answer_is_not_lost_and_asked_again(
    make_ranker: Any, judge: Any, bank: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.left_out = "unanswered"
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"] |= {f"q{n}": f"huge wordy words {n}" for n in range(3)}
    ranker: Ranker = make_ranker(judge, replace(bank, responses=texts))
    *_, last = ranker.rank(Profile())
    assert last.failed == 3 and last.board is not None
    assert last.board.unanswered == {"wordy": 3} and {row.n for row in last.board.rows} == {5}
    assert last.board.rows[0].model == "wordy" and last.board.unread == {}
    monkeypatch.setattr(type(judge), "fits", lambda *_: True)
    *_, last = ranker.rank(Profile())
    assert last.failed == 0 and last.board is not None and {row.n for row in last.board.rows} == {8}


def test_a_ranking_without_any_answer_has_no_table(make_ranker: Any, judge: Any, bank: Any) -> None:
    judge.left_out = "unanswered"
    texts = {**bank.responses, "wordy": dict.fromkeys(bank.responses["wordy"], "huge words")}
    *_, last = make_ranker(judge, replace(bank, responses=texts)).rank(Profile())
    assert last.complete and last.board is None and last.failed == 8


def test_a_changed_response_is_read_again(make_ranker: Any, judge: Any, bank: Any) -> None:
    list(make_ranker(judge, bank).rank(Profile()))
    before = judge.read_count
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"]["q0"] = "other words"
    list(make_ranker(judge, replace(bank, responses=texts)).rank(Profile()))
    assert judge.read_count == before + 2


def responses(path: Path, bank: Any, missing: int = 0) -> Path:
    lines = [json.dumps({"query_id": query.id, "text": "five words are the most"}) for query in bank.queries]
    path.write_text("\n".join(lines[missing:]), encoding="utf-8")
    return path


def test_a_model_is_added_by_a_file_and_there_after_a_restart(
    make_ranker: Any, judge: Any, bank: Any, tmp_path: Path
) -> None:
    ranker: Ranker = make_ranker(judge, bank)
    additions = Additions(ranker, tmp_path / "added")
    with pytest.raises(ValueError, match=r"2 of 8 queries have no response: q0 \('question number 0"):
        additions.add_file("new", responses(tmp_path / "part.jsonl", bank, missing=2))
    file = responses(tmp_path / "all.jsonl", bank)
    for name, message in (("wordy", "already in bank"), (" ", "expected a name"), ("x" * 81, "expected a name")):
        with pytest.raises(ValueError, match=message):
            additions.add_file(name, file)
    additions.add_file("../../etc/new", file)
    *_, last = ranker.rank(Profile())
    assert last.board is not None and last.board.rows[0].model == "../../etc/new"
    again: Ranker = make_ranker(judge, bank)
    assert Additions(again, tmp_path / "added").restore() == ["../../etc/new"]
    assert again.bank == ranker.bank and [path.name for path in (tmp_path / "added").iterdir()] == ["000.json"]


def test_without_an_endpoint_none_is_asked(make_ranker: Any, judge: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="endpoint: none is configured"):
        list(Additions(make_ranker(judge), tmp_path / "added").ask("new"))
