"""Rewards against readings of single comparisons, and what becomes of those that fail."""

import math
from itertools import combinations
from statistics import fmean

import pytest
import torch

from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import CoinJudge
from crm.rewards.scoring import Group, Pair, Rewards
from tests.conftest import rounding, say
from tests.rewards.serving import OnlyCompares

PROMPT = say("user: Why is the sky blue?")
ANSWERS = tuple(say(f"assistant: {'word ' * count}") for count in (3, 1, 8, 5, 2))
GROUP = Group(("likes words",), PROMPT, ANSWERS)


def log_words(place: int) -> float:
    return math.log(1 + len(ANSWERS[place][0].content.split()))


def test_a_judge_that_only_compares_gives_the_mean_over_the_group_in_both_orders() -> None:
    for judge in (OnlyCompares(), CoinJudge(7)):
        found = Rewards(judge).of_groups([GROUP])[0]
        asked = [Pair(GROUP, a, b) for a, b in combinations(range(5), 2)]
        logits = dict(zip([(pair.first, pair.second) for pair in asked], Rewards(judge).of_pairs(asked), strict=True))
        for place, reward in enumerate(found):
            own = [
                sign * (logits[key] or 0) for key in logits for sign, at in ((1, key[0]), (-1, key[1])) if at == place
            ]
            assert reward == pytest.approx(fmean(own))
    lengths = Rewards(OnlyCompares(place=5.0)).of_groups([GROUP])[0]
    mean = fmean(map(log_words, range(5)))
    assert lengths == pytest.approx([5 / 4 * (log_words(place) - mean) for place in range(5)])


def test_a_pair_that_failed_in_one_order_is_left_out_and_never_a_number() -> None:
    rewards = Rewards(OnlyCompares(fails=ANSWERS[2][0].content))
    found = rewards.of_groups([GROUP])[0]
    assert found[2] is None
    rest = [place for place in range(5) if place != 2]
    mean = fmean(map(log_words, rest))
    assert [found[place] for place in rest] == pytest.approx([4 / 3 * (log_words(place) - mean) for place in rest])
    assert rewards.of_pairs([Pair(GROUP, 0, 2), Pair(GROUP, 0, 1)])[0] is None


@pytest.mark.parametrize("head", ["late", "scalar", "pairwise", "pairwise_span"])
def test_every_head_gives_what_its_comparisons_say(head, make_model, make_encoder) -> None:
    judge = CrmJudge(make_model(head, "llama", seed=3), make_encoder(head), batch_size=4)
    groups = [GROUP, Group((), PROMPT, ANSWERS[:3]), Group(("likes words", "hates words"), PROMPT, ANSWERS[1:])]
    rewards = Rewards(judge)
    assert rewards.pointwise == (head in ("late", "scalar"))
    for group, found in zip(groups, rewards.of_groups(groups), strict=True):
        pairs = [Pair(group, a, b) for a, b in combinations(range(len(group.responses)), 2)]
        logits = rewards.of_pairs(pairs)
        assert all(logits) and all(found)
        if rewards.pointwise:
            expected = [found[pair.first] - found[pair.second] for pair in pairs]
            assert logits == pytest.approx(expected, abs=rounding(torch.tensor(found)))
        else:
            assert sum(found) == pytest.approx(0, abs=rounding(torch.tensor(found)))


def test_an_endpoint_is_not_asked_again_why_it_gave_nothing() -> None:
    class Down(OnlyCompares):
        left_out, calls = "unanswered", 0

        def read(self, comparisons):  # type: ignore[no-untyped-def]
            self.calls += len(comparisons)
            return iter(())

    judge = Down()
    rewards = Rewards(judge)
    assert rewards.of_pairs([Pair(GROUP, 0, 1)]) == [None] and judge.calls == 2
    assert rewards.why_unread(Pair(GROUP, 0, 1)) == "no_verdict" and judge.calls == 2
