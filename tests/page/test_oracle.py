"""The page of `app.py judge=oracle`: true rankings at once, and no number where the simulation has no answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect
from scipy.special import expit

from crm.config import compose
from crm.judges.oracle import OracleJudge
from crm.leaderboard.bank.simulated import simulate_bank, true_win_rates
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.page.honesty import refusal
from crm.page.oracle import OracleScorer
from crm.page.profile import Profile
from crm.page.ranker import Ranker
from crm.page.run import about, make_ranker
from crm.page.sentences import sentence_effects
from crm.page.website import FILES
from crm.picking.pool import SIMULATED, read_pool
from tests.page.browsing import add, complete, headline, names
from tests.page.conftest import opened, small_bank

BANK = simulate_bank(seed=1, queries_per_topic=2)
CONCISE, DETAILED = "Prefers concise answers", "Prefers detailed answers"


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker(OracleScorer(BANK.bank))


def rates(ranker: Ranker, *criteria: str, **profile: Any) -> dict[str, float]:
    board = ranker.rank(Profile(criteria, **profile)).board
    assert board is not None
    return board.win_rates()


@pytest.mark.parametrize("criteria", [(CONCISE,), (DETAILED, "prefers humorous answers"), ("Wants numbered lists",)])
def test_numbers_are_those_of_the_judge(ranker: Ranker, criteria: tuple[str, ...], tmp_path: Path) -> None:
    matches, _ = score_bank(OracleJudge(), BANK.bank, criteria, baseline=BANK.baseline, folder=tmp_path, progress=False)
    assert rates(ranker, *criteria) == pytest.approx(Leaderboard(matches).win_rates(), abs=1e-6)


def test_the_best_by_truth_is_first(ranker: Ranker) -> None:
    truth = true_win_rates(BANK, [CONCISE])
    assert max(rates(ranker, CONCISE).items(), key=lambda pair: pair[1])[0] == max(truth, key=truth.__getitem__)


def test_a_dislike_is_the_opposite_and_weights_count(ranker: Ranker) -> None:
    liked, disliked = rates(ranker, CONCISE), rates(ranker, dislikes=("concise answers",))
    for name, rate in liked.items():
        assert disliked[name] == pytest.approx(1 - rate, abs=1e-6)
    assert rates(ranker, CONCISE, DETAILED) == pytest.approx(dict.fromkeys(liked, 0.5))
    gap = BANK.levels["maple-nano"], BANK.levels[BANK.baseline]
    ids = [query.id for query in BANK.queries]
    by_hand = np.mean([expit(2 * 4.0 * (gap[1][key]["detail"] - gap[0][key]["detail"])) for key in ids])
    assert rates(ranker, CONCISE, weights=(2.0,))["maple-nano"] == pytest.approx(by_hand, abs=1e-6)


def test_what_is_not_understood_has_no_numbers(ranker: Ranker) -> None:
    for profile in (Profile(("tell me a joke",)), Profile((), ("cats",)), Profile(("cats", "dogs"))):
        found = ranker.rank(profile)
        assert found.board is None and found.not_understood == (*profile.criteria, *profile.dislikes)
        assert "is not understood" in refusal(found)
    mixed = ranker.rank(Profile(("cats", CONCISE)))
    assert mixed.not_understood == ("cats",) and refusal(mixed) == ""
    assert mixed.board is not None and mixed.board.win_rates() == pytest.approx(rates(ranker, CONCISE))


def test_without_criteria_something_to_add_is_named(ranker: Ranker) -> None:
    found = ranker.rank(Profile())
    assert found.board is None and "such as “Prefers concise answers”" in refusal(found)
    assert rates(ranker, ranker.scorer.example)


def test_advice_is_a_sentence_that_is_understood(ranker: Ranker) -> None:
    for line in ("short answers", "lists", "no idea", "12345"):
        suggested = re.findall("“(.*)”", refusal(ranker.rank(Profile((line,)))))
        assert len(suggested) == 1 and rates(ranker, *suggested)


def test_the_page_s_presets_and_picks_are_understood() -> None:
    presets = (FILES / "chips.js").read_text("utf-8").split("PRESETS = [")[1].split("];")[0]
    lines = [line for line in re.findall(r"'([^']+)'", presets) if " " in line and line != "In a hurry"]
    sides = [side for entry in read_pool(SIMULATED) for side in (entry.like, entry.opposite)]
    assert len(lines) == 11 and len(sides) == 24
    assert OracleScorer(BANK.bank).not_understood((*lines, *sides)) == ()


def test_a_sentence_that_shows_the_trait_has_an_effect(ranker: Ranker) -> None:
    duels = ranker.rank(Profile((DETAILED,))).logits("elm-turbo")
    won = max(duels, key=duels.__getitem__)
    found = sentence_effects(ranker, Profile((DETAILED,)), "elm-turbo", won)
    assert " ".join(text for text, _ in found).split() == BANK.responses["elm-turbo"][won].split()
    assert all(-100 <= points <= 100 for _, points in found)


def test_another_bank_is_refused() -> None:
    with pytest.raises(ValueError, match="judge=oracle: bank 'small' has responses that the simulation did not write"):
        OracleScorer(small_bank())
    texts = {name: dict(answers) for name, answers in BANK.responses.items()}
    texts["elm-turbo"][BANK.queries[0].id] = "Written by somebody."
    with pytest.raises(ValueError, match="use bank=simulated"):
        OracleScorer(replace(BANK.bank, responses=texts))


def test_the_command_makes_it_and_the_page_says_what_is_simulated(tmp_path: Path) -> None:
    config = compose("app", ["judge=oracle", "bank.queries_per_topic=1"], tmp_path)
    made, name = make_ranker(config)
    assert name == "oracle" and isinstance(made.scorer, OracleScorer) and len(made.bank.queries) == 12
    assert "simulated" in about(config)["simulated"] and "simulation's own truth" in about(config)["simulated"]
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.mark.slow
def test_a_first_look(browser: Any, oracle: str) -> None:
    """A ranking at once, by an example that says so; what is typed takes its place."""
    with opened(browser, oracle) as page:
        expect(page.locator("#notice")).to_contain_text("The judge is the simulation's own truth")
        headline(page, re.compile("^Example: "))
        expect(page.locator("#because")).to_contain_text("This is an example.")
        expect(page.locator(".chip")).to_have_text(re.compile("Prefers concise answers.*an example"))
        first = names(page)
        assert len(first) == 13 and "criteria" not in page.url
        add(page, DETAILED)
        headline(page, re.compile("^For you: "))
        expect(page.locator(".chip")).to_have_count(1)
        assert names(page)[0] in first[-3:] and "criteria=Prefers+detailed+answers" in page.url
        page.get_by_role("button", name=f"Take away: {DETAILED}").click()
        headline(page, "No ranking")
        expect(page.locator("#because")).to_contain_text("Add something that you like")
        add(page, CONCISE)
        headline(page, re.compile("^For you: "))
        assert names(page) == first


@pytest.mark.slow
def test_unknown_words_are_answered_by_a_sentence(browser: Any, oracle: str) -> None:
    with opened(browser, oracle) as page:
        before = names(page)
        page.get_by_label("Add a like or dislike").press_sequentially("tell me about cats", delay=20)
        page.wait_for_timeout(500)
        assert names(page) == before, "half a sentence is no mistake"
        headline(page, re.compile("^Example: "))
        page.keyboard.press("Enter")
        headline(page, "No ranking")
        expect(page.locator("#because")).to_contain_text("'tell me about cats' is not understood")
        expect(page.locator(".chip")).to_contain_text("not understood")
        assert not page.locator("#rows").is_visible()
        assert page.get_by_role("button", name="Show it anyway").count() == 0
        page.get_by_role("button", name="Writer").click()
        complete(page)
        assert page.locator("#rows").is_visible() and len(names(page)) == 13
        expect(page.locator(".chip.lost")).to_have_count(1)
