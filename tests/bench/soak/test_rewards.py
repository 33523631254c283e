"""A reward server that is restarted: clients wait or mask, and one that pays a default is found out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.soak import rewards
from bench.soak.stage import Found
from crm.judges.reward_client import GroupRewards, RewardClient


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewards, "CLIENTS", 6)
    monkeypatch.setattr(rewards, "GROUPS", 12)
    monkeypatch.setattr(rewards, "REST_S", (0.0, 0.1))
    monkeypatch.setattr(rewards, "IMPATIENT_S", 0.5)
    monkeypatch.setattr(rewards, "BETWEEN_S", 1.0)


class PaysZero(RewardClient):
    def score(self, groups: Sequence[Any]) -> list[GroupRewards]:
        return [GroupRewards(tuple(one or 0.0 for one in said.rewards), said.reasons) for said in super().score(groups)]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_clients_wait_or_mask(task: Callable, checkpoint: Path, tried: Callable[..., None]) -> None:
    found = rewards.run(task(1), checkpoint)
    assert found.held, found.as_row()
    assert found.tried["restarts"] == 1 and found.tried["masked"] and found.tried["rewards"]
    tried(inputs=found.tried["rewards"] + found.tried["masked"], faults=found.tried["restarts"])


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_a_default_for_what_has_no_answer_is_found(
    task: Callable, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewards, "RewardClient", PaysZero)
    found = rewards.run(task(1), checkpoint)
    assert found.failures["made-up reward"] and "0.0, the folder says" in found.examples[0]


def test_what_counts_as_made_up() -> None:
    found = Found()
    rewards.check(found, GroupRewards((1.0, None), (None, "unanswered")), [1.0, 2.0], "sound")
    assert not found.failures and found.tried == {"rewards": 1, "masked": 1}
    rewards.check(found, GroupRewards((1.0, 2.01), (None, None)), [1.0, 2.0], "another number")
    rewards.check(found, GroupRewards((1.0,), (None,)), [1.0, 2.0], "too few")
    rewards.check(found, GroupRewards((1.0, 2.0), (None, "unanswered")), [1.0, 2.0], "a number and a reason")
    assert found.failures == {"made-up reward": 3}
    rewards.check(found, GroupRewards((None,), (None,)), [1.0], "silent")
    assert found.failures["masked without a reason"] == 1
