"""One judge, many people: fair turns, a bounded line, places given up, and nobody's scores in another's hands."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from crm.page.profile import Profile
from crm.page.ranker import Ranker
from crm.page.scoring_queue import QueueFullError, ScoringError


def wait_for(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.01)


def criteria(text: str) -> Profile:
    return Profile((text,))


@pytest.mark.slow
def test_turns_are_fair(make_ranker: Any, judge: Any) -> None:
    """Two people's portions alternate, and who came later does not wait for all of the first."""
    ranker: Ranker = make_ranker(judge)
    judge.go.clear()
    steps = [ranker.rank(criteria(name)) for name in ("one", "two")]
    for step in steps:
        next(step)
    ranker.queue._pace = 0.0
    judge.seconds = 0.02  # slow enough that a turn is one portion of six readings at the measured pace
    judge.go.set()
    for step in steps:
        *_, last = step
        assert last.complete
    order = [text for (text,) in judge.asked]
    first_of_two, last_of_one = order.index("two"), len(order) - 1 - order[::-1].index("one")
    assert first_of_two < last_of_one
    switches = sum(left != right for left, right in itertools.pairwise(order))
    assert switches >= 3


def test_who_waits_hears_the_same_again_and_costs_nothing(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge)
    judge.go.clear()
    steps = ranker.rank(criteria("one"))
    first = next(steps)
    assert first.board is None and next(steps) is first and next(steps) is first
    judge.go.set()
    *_, last = steps
    assert last.complete and last is not first


def test_a_full_line_says_so_and_a_place_given_up_is_free_at_once(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge, places=2)
    judge.go.clear()
    steps = [ranker.rank(criteria(name)) for name in ("one", "two")]
    for step in steps:
        next(step)
    with pytest.raises(QueueFullError, match="2 leaderboards are being made right now, please try again"):
        next(ranker.rank(criteria("three")))
    assert len(ranker.queue) == 2
    steps[1].close()
    assert len(ranker.queue) == 1
    third = ranker.rank(criteria("three"))
    next(third)
    judge.go.set()
    *_, last = third
    assert last.complete
    assert ("two",) not in judge.asked, "who left before their turn costs nothing"


def test_one_failure_ends_one_ticket(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge)
    with pytest.raises(ScoringError, match=r"the judge could not go on \(RuntimeError\)"):
        list(ranker.rank(criteria("please fail")))
    *_, last = ranker.rank(criteria("fine"))
    assert last.complete and len(ranker.queue) == 0


def test_scores_are_made_once_whoever_asks(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge)
    list(ranker.rank(criteria("long")))
    assert judge.read_count == 8 * 3 * 2
    list(ranker.rank(criteria("long")))
    list(ranker.rank(Profile(("long",), (), ("S",))))
    assert judge.read_count == 8 * 3 * 2
    assert make_ranker(judge).known(criteria("long")).complete, "another server on the same file"


@pytest.mark.slow
def test_many_people_at_once_get_their_own(make_ranker: Any, judge: Any) -> None:
    """Forty with different criteria, every second one leaving early; the others' rankings are those of one alone."""
    judge.seconds = 0.0005
    ranker: Ranker = make_ranker(judge, places=40)
    found: dict[str, Any] = {}

    def ask(name: str, leaves: bool) -> None:
        for progress in ranker.rank(criteria(name)):
            assert progress.profile.criteria == (name,)
            if leaves and progress.done:
                return
        found[name] = progress

    names = [f"{'concise' if n % 4 < 2 else 'long'} {n}" for n in range(40)]
    threads = [threading.Thread(target=ask, args=(name, n % 2 == 1)) for n, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == sorted(names[::2])
    for name, progress in found.items():
        best = "brief" if name.startswith("concise") else "wordy"
        assert progress.complete and progress.board.rows[0].model == best
    wait_for(lambda: len(ranker.queue) == 0)


def test_a_closed_queue_tells_those_who_wait(make_ranker: Any, judge: Any) -> None:
    ranker: Ranker = make_ranker(judge)
    judge.go.clear()
    steps = ranker.rank(criteria("one"))
    next(steps)
    closing = threading.Thread(target=ranker.queue.close)
    closing.start()
    judge.go.set()
    with pytest.raises(ScoringError, match="being stopped"):
        list(steps)
    closing.join(10)
    with pytest.raises(QueueFullError, match="being stopped"):
        next(ranker.rank(criteria("two")))
