"""The page of `app.py judge=oracle`: true rankings at once, and no number where the simulation has no answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from scipy.special import expit

from crm.config import compose
from crm.judges.judge import OracleJudge
from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.page.profile import Profile
from crm.page.ranker import Ranker, why_invalid
from crm.page.run import make_app, make_ranker
from crm.page.scorers import OracleScorer
from crm.picking.criteria import SIMULATED, read_pool
from tests.page.conftest import small_bank

BANK = simulate_bank(seed=1, queries_per_topic=2)
CONCISE, DETAILED = "Prefers concise answers", "Prefers detailed answers"


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker(OracleScorer(BANK.bank))


def rates(ranker: Ranker, *criteria: str, **profile: Any) -> dict[str, float]:
    board = ranker.rank(Profile(criteria=criteria, **profile)).board
    assert board is not None
    return board.win_rates()


@pytest.mark.parametrize("criteria", [(CONCISE,), (DETAILED, "prefers humorous answers"), ("Wants numbered lists",)])
def test_numbers_are_those_of_the_judge(ranker: Ranker, criteria: tuple[str, ...], tmp_path: Path) -> None:
    outcomes, _ = score_bank(OracleJudge(), BANK.bank, criteria, folder=tmp_path, progress=False)
    assert rates(ranker, *criteria) == pytest.approx(Leaderboard(outcomes).win_rates(), abs=1e-6)


def test_a_dislike_is_the_opposite_and_weights_count(ranker: Ranker) -> None:
    liked, disliked = rates(ranker, CONCISE), rates(ranker, dislikes=("concise answers",))
    for name, rate in liked.items():
        assert disliked[name] == pytest.approx(1 - rate, abs=1e-6)
    assert rates(ranker, CONCISE, DETAILED) == pytest.approx(dict.fromkeys(liked, 0.5))
    gap = BANK.levels["maple-nano"], BANK.levels[BANK.bank.baseline]
    ids = [query.id for query in BANK.bank.queries]
    by_hand = np.mean([expit(2 * 4.0 * (gap[1][key]["detail"] - gap[0][key]["detail"])) for key in ids])
    assert rates(ranker, CONCISE, weights=(2.0,))["maple-nano"] == pytest.approx(by_hand, abs=1e-6)


def test_what_is_not_understood_has_no_numbers(ranker: Ranker) -> None:
    for profile in (
        Profile(criteria=("tell me a joke",)),
        Profile(dislikes=("cats",)),
        Profile(criteria=("cats", "dogs")),
    ):
        found = ranker.rank(profile)
        assert found.board is None and found.not_understood == profile.lines
        assert "is not understood" in why_invalid(found)
    mixed = ranker.rank(Profile(criteria=("cats", CONCISE)))
    assert mixed.not_understood == ("cats",) and why_invalid(mixed) == ""
    assert mixed.board is not None and mixed.board.win_rates() == pytest.approx(rates(ranker, CONCISE))


def test_advice_is_a_sentence_that_is_understood(ranker: Ranker) -> None:
    for lines in (("short answers",), ("12345",), ()):
        suggested = re.findall("“(.*)”", why_invalid(ranker.rank(Profile(criteria=lines))))
        assert len(suggested) == 1 and rates(ranker, *suggested)


def test_examples_and_picks_are_understood() -> None:
    sides = [side for entry in read_pool(SIMULATED) for side in (entry.like, entry.opposite)]
    assert len(sides) == 24 and OracleScorer(BANK.bank).not_understood((*OracleScorer.examples, *sides)) == ()


def test_another_bank_is_refused() -> None:
    with pytest.raises(ValueError, match="judge=oracle: bank 'small' has responses that the simulation did not write"):
        OracleScorer(small_bank())
    texts = {name: dict(answers) for name, answers in BANK.bank.responses.items()}
    texts["elm-turbo"][BANK.bank.queries[0].id] = "Written by somebody."
    with pytest.raises(ValueError, match="use bank=simulated"):
        OracleScorer(replace(BANK.bank, responses=texts))


def test_the_command_makes_it_and_the_page_says_what_is_simulated(tmp_path: Path) -> None:
    config = compose("app", ["judge=oracle", "bank.queries_per_topic=1"], tmp_path)
    made, name = make_ranker(config)
    assert name == "oracle" and isinstance(made.scorer, OracleScorer) and len(made.bank.queries) == 12
    client = TestClient(make_app(made, name, config), base_url="http://localhost")
    notice = client.get("/api/v1/bank").json()["simulated"]
    assert "models, questions and answers are simulated" in notice and "simulation's own truth" in notice
    assert not list(tmp_path.rglob("*.sqlite"))
