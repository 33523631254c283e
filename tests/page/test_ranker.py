"""Rankings: the part of a bank, an index, lines that are not understood, rankings that are not valid, reasons."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.special import expit

from crm.criteria.pool import Criterion
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.config import BankConfig
from crm.leaderboard.ranking import Leaderboard
from crm.page.profile import Profile
from crm.page.ranker import Ranker, duels, why_invalid
from tests.page.conftest import small_bank
from tests.page.counting import CountingReader, counting_ranker

LONG = Profile(criteria=("long",))


def board_of(ranker: Ranker, profile: Profile) -> Leaderboard:
    board = ranker.rank(profile).board
    assert board is not None
    return board


def test_what_cannot_be_read_is_lost_and_counted(make_ranker: Any) -> None:
    bank = small_bank()
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"]["q0"] = "huge " * 9
    found = make_ranker(replace(bank, responses=texts)).rank(LONG)
    assert found.failed == 1 and found.board is not None
    assert found.board.unread == {"wordy": 1} and {row.n for row in found.board.rows} == {8}
    assert len(duels(found, "wordy")) == 7 and len(duels(found, "middle")) == 8


@pytest.mark.parametrize(("unread", "invalid"), [(18, False), (20, True)])
def test_more_than_a_fifth_without_a_verdict_is_not_valid(make_ranker: Any, unread: int, invalid: bool) -> None:
    """Of 3 x 30 comparisons."""
    bank = small_bank(30)
    for number in range(unread):
        bank.responses["wordy"][f"q{number}"] = "huge"  # type: ignore[index]
    found = make_ranker(bank).rank(LONG)
    assert found.failed == unread and ("could not read 20 of 90 comparisons" in why_invalid(found)) is invalid


def test_a_number_of_questions_draws_those_of_the_command(indexed: Ranker) -> None:
    topics, asked = ("Arts & Culture", "Puzzles & Logic"), BankConfig("simulated", queries_per_topic=4, queries=7)
    mine = indexed.select(Profile(topics=topics, queries=7))
    assert {query.id for query in mine.queries} == {query.id for query in open_bank(asked, topics).queries}


def test_shares_of_lines_add_up(indexed: Ranker) -> None:
    """Also of a dislike, and on a part of the bank; one line alone has all of it."""
    profile = Profile(criteria=("short", "bullet lists"), dislikes=("examples",), weights=(2.0, 1.0, 0.5), queries=30)
    found = indexed.rank(profile)
    mean = dict(zip(found.used.models, found.used.logits.mean(axis=0), strict=True))
    for row in found.rows():
        assert row["log_odds"] == pytest.approx(mean[row["model"]], abs=1e-5)
        assert sum(row["shares"]) == pytest.approx(row["log_odds"], abs=1e-5) and len(row["shares"]) == 3
    alone = {row["model"]: row["shares"] for row in indexed.rank(Profile(criteria=("short",), queries=30)).rows()}
    for row in found.rows():
        assert row["shares"][0] == pytest.approx(2 * alone[row["model"]][0], abs=1e-5)
    assert "Say what you care about" in why_invalid(indexed.rank(Profile())), "it was not taught what most people like"


def test_places_agree_with_who_may_be_first(indexed: Ranker) -> None:
    rows = indexed.rank(Profile(criteria=("short", "examples"))).rows()
    assert [row["rank_low"] == 1 for row in rows] == [row["may_be_first"] for row in rows] and rows[0]["may_be_first"]
    assert all(row["rank_low"] <= row["rank"] for row in rows)


def test_another_baseline_part_or_sign_has_the_numbers_of_the_index(indexed: Ranker, monkeypatch: Any) -> None:
    monkeypatch.setattr(CountingReader, "responses", lambda *_: pytest.fail("read responses again"))
    lines, (topic, *_), base = ("bullet lists",), indexed.bank.topics, indexed.bank.baseline
    mine = board_of(indexed, Profile(criteria=lines))
    turned = board_of(indexed, Profile(criteria=lines, baseline="maple-nano")).win_rates()
    assert turned[base] == pytest.approx(1 - mine.win_rates()["maple-nano"], abs=1e-6)
    part = board_of(indexed, Profile(criteria=lines, topics=(topic,))).win_rates()
    assert part == pytest.approx({row.model: row.topics[topic] for row in mine.rows})
    disliked = board_of(indexed, Profile(dislikes=lines)).win_rates()
    assert disliked == pytest.approx({name: 1 - rate for name, rate in mine.win_rates().items()}, abs=1e-6)


def test_a_checkpoint_scores_only_words_that_are_understood(indexed: Ranker) -> None:
    """It gives any words a number; nobody could tell what such a number says."""
    for line in ("candle", "asdf qwer", "purple monkey dishwasher"):
        found = indexed.rank(Profile(criteria=(line,)))
        assert found.board is None and found.rows() == [] and found.not_understood == (line,)
        assert why_invalid(found) == f"“{line}”: not understood; put it in plain English"
    turkish = indexed.rank(Profile(criteria=("speaks Turkish",)))
    assert turkish.board is None and why_invalid(turkish).startswith("“speaks Turkish”: not measured here")
    both = indexed.rank(Profile(criteria=("short answers", "candle"), dislikes=("asdf qwer",), weights=(2.0, 3.0, 4.0)))
    alone = board_of(indexed, Profile(criteria=("short answers",), weights=(2.0,)))
    assert both.board is not None and both.board.win_rates() == alone.win_rates() and why_invalid(both) == ""
    assert both.not_understood == ("candle", "asdf qwer")
    assert {each.line for each in both.understood} == set(both.not_understood)
    assert {tuple(row["shares"][1:]) for row in both.rows()} == {(0.0, 0.0)}


def test_a_checkpoint_scores_its_own_criteria_word_for_word(tmp_path: Path) -> None:
    turkish = Criterion("Turkish", "Speaks Turkish", "Speaks no Turkish", "Whether the answer is in Turkish.")
    ranker = counting_ranker(small_bank(), tmp_path, turkish)
    assert ranker.rank(Profile(criteria=("speaks turkish.",), dislikes=("Speaks no Turkish",))).not_understood == ()
    assert ranker.rank(Profile(criteria=("writes Turkish",))).not_understood == ("writes Turkish",)


def test_duels_are_the_queries_of_one_model(make_ranker: Any) -> None:
    ranking = make_ranker().rank(LONG)
    found = duels(ranking, "wordy")
    assert {duel["query_id"] for duel in found} == {f"q{n}" for n in range(8)}
    assert found[0]["probability"] == pytest.approx(expit(2.0))
    assert (found[0]["response"], found[0]["baseline_response"]) == ("wordy wordy wordy wordy", "base base")
    assert sum(duel["probability"] for duel in found) / 8 == pytest.approx(ranking.board.win_rates()["wordy"])
    why = "model: 'base' is the baseline, which has no comparison with itself; choose one of brief"
    with pytest.raises(ValueError, match=why):
        duels(ranking, "base")
