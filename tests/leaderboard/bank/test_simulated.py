"""The simulated bank: true win rates against a count by hand, contradictory criteria against each other, errors."""

from __future__ import annotations

import pytest

from crm.data.simulation.lexicon import AUTHORS, BASELINE, TOPICS
from crm.leaderboard.bank.opening import SimulatedBank, simulate_bank, true_win_rates
from crm.schema import prompt_key


@pytest.fixture(scope="module")
def simulated() -> SimulatedBank:
    return simulate_bank(seed=2)


def test_every_author_answers_twenty_queries_of_each_topic(simulated: SimulatedBank) -> None:
    assert simulated.bank.authors == AUTHORS
    assert len(AUTHORS) >= 12
    assert simulated.bank.baseline == BASELINE
    for topic in TOPICS:
        assert sum(query.topic == topic.name for query in simulated.bank.queries) == 20
    assert all(len(texts) == len(simulated.bank.queries) for texts in simulated.bank.responses.values())
    assert len({prompt_key(query.prompt) for query in simulated.bank.queries}) == len(simulated.bank.queries)


def test_win_rates_by_hand(simulated: SimulatedBank) -> None:
    rates = true_win_rates(simulated, ["Prefers detailed", "wants jokes and humor"])
    ids = [query.id for query in simulated.bank.queries]
    for author, rate in rates.items():
        wins = draws = 0
        for key in ids:
            ours, theirs = simulated.levels[author][key], simulated.levels[BASELINE][key]
            mine, base = ours["detail"] + ours["humor"], theirs["detail"] + theirs["humor"]
            wins += mine > base
            draws += mine == base
        assert rate == pytest.approx((wins + draws / 2) / len(ids))
    assert BASELINE not in rates


def test_contradictory_criteria_turn_the_ranking_over(simulated: SimulatedBank) -> None:
    detailed = true_win_rates(simulated, ["prefers detailed"])
    concise = true_win_rates(simulated, ["prefers concise"])
    assert all(detailed[author] == pytest.approx(1 - concise[author]) for author in detailed)


def test_errors_name_the_value_and_the_nearest_allowed_one(simulated: SimulatedBank) -> None:
    with pytest.raises(ValueError, match=r"'prefers detailled' has no known truth; .*'Prefers detailed'"):
        true_win_rates(simulated, ["prefers detailled"])
    with pytest.raises(ValueError, match="queries_per_topic: 0 is not between 1 and"):
        simulate_bank(seed=0, queries_per_topic=0)
