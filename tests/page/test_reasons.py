"""Why a model stands where it does: duels, changes between rankings, and what one criterion does."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.special import expit
from scipy.stats import kendalltau

from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker, Ranking
from crm.page.reasons import Duel, change, duels, typical


def ranked(ranker: Ranker, *criteria: str) -> Ranking:
    return ranker.rank(Profile(criteria))


def test_duels_are_the_readings_of_one_model(make_ranker: Any) -> None:
    progress = ranked(make_ranker(), "long")
    found = duels(progress, "wordy")
    assert len(found) == 8 and {duel.query_id for duel in found} == {f"q{n}" for n in range(8)}
    duel = found[0]
    assert duel.probability == pytest.approx(expit(2.0))
    assert duel.response == "wordy wordy wordy wordy" and duel.baseline_response == "base base"
    assert progress.board is not None
    assert sum(d.probability for d in found) / 8 == pytest.approx(progress.board.win_rates()["wordy"])
    for name in ("base", "nobody"):
        with pytest.raises(ProfileError, match=f"model: '{name}' is not a model that is compared with 'base'"):
            duels(progress, name)


def test_a_change_has_tau_and_gains(make_ranker: Any) -> None:
    ranker: Ranker = make_ranker()
    first, second = ranked(ranker, "long").board, ranked(ranker, "concise").board
    assert first is not None and second is not None
    found = change(first, second)
    names = list(first.win_rates())
    assert found.tau.mean == pytest.approx(
        kendalltau([first.win_rates()[n] for n in names], [second.win_rates()[n] for n in names])[0]
    )
    assert list(found.table["model"]) == ["brief", "base", "middle", "wordy"]
    gain = found.table.set_index("model")["change"]
    assert gain["brief"] == pytest.approx(second.win_rates()["brief"] - first.win_rates()["brief"])
    assert found.table["change"].is_monotonic_decreasing


def test_a_tie_is_neither_a_win_nor_a_loss() -> None:
    found = [Duel(str(place), "T", "q", "a", "b", chance) for place, chance in enumerate((0.9, 0.5, 0.5, 0.2))]
    assert [duel.probability for duel in typical(found)] == [0.9, 0.2]
    assert [duel.probability for duel in typical(found[:3])] == [0.9]
    assert [duel.query_id for duel in typical(found[1:3])] == ["1"] and typical([]) == []
