"""Pairings are what `leaderboard.py` compares, without the criteria; judged become the same matches."""

from __future__ import annotations

from typing import Any

import pytest

from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.scoring import bank_comparisons, to_matches
from crm.page.pairings import JudgedPair, make_pairings
from crm.page.profile import Profile
from crm.page.ranker import Ranker
from crm.page.score_store import comparison_key
from crm.page.selection import BASELINES, Selector
from crm.schema import Prediction


def test_pairings_are_the_comparisons_of_the_bank(bank: Bank) -> None:
    made = [pairing for query in bank.queries for pairing in make_pairings(bank, "middle", query)]
    assert [pairing.comparison(("a", "b")) for pairing in made] == bank_comparisons(bank, ("a", "b"), "middle")
    assert [pairing.key for pairing in made] == [comparison_key(row) for row in bank_comparisons(bank, (), "middle")]
    assert len({pairing.key for pairing in made}) == len(made) == 24


def test_verdicts_become_the_matches_of_leaderboard_py(bank: Bank) -> None:
    made = [pairing for query in bank.queries for pairing in make_pairings(bank, "base", query)]
    rows = bank_comparisons(bank, ("a",), "base")
    logits = [(0.5 * n, -0.25 * n) for n in range(len(made))]
    predictions = [
        Prediction(row.id, order, logit, row.label, row.cluster, "", "")
        for row, pair in zip(rows, logits, strict=True)
        for order, logit in zip(("ab", "ba"), pair, strict=True)
    ]
    found = [pairing.match(JudgedPair(pairing, *pair).logit) for pairing, pair in zip(made, logits, strict=True)]
    assert found == to_matches(bank, "base", predictions)


def test_pairings_are_made_once_for_everybody(bank: Bank) -> None:
    selector = Selector(bank)
    whole, part = (selector.pairings(selector.select(profile)) for profile in (Profile(), Profile(models=("wordy",))))
    assert [len(block) for block in part] == [1] * 8 and all(block[0].candidate == "wordy" for block in part)
    assert {id(block[0]) for block in part} <= {id(pairing) for block in whole for pairing in block}
    for name in bank.authors:
        selector.pairings(selector.select(Profile(baseline=name)))
    assert selector._pairings.cache_info().currsize == BASELINES * 8


@pytest.mark.parametrize("models", [(), ("copy", "brief")])
def test_equal_texts_are_read_once(make_ranker: Any, judge: Any, bank: Bank, models: tuple[str, ...]) -> None:
    responses = {**bank.responses, "copy": bank.responses["brief"]}
    ranker: Ranker = make_ranker(judge, Bank(bank.name, bank.baseline, bank.queries, responses))
    *_, last = ranker.rank(Profile(models=models))
    assert judge.read_count == 8 * (len(models) - 1 if models else 3) * 2
    assert last.board is not None and last.failed == 0
    rates = last.board.win_rates()
    assert rates["copy"] == rates["brief"]
