"""What waits is read together; who has gone is not read; a full line says so; one that breaks takes no other along."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from crm.rewards.server.batching import Outcome, QueueFullError, ReadingError, RewardQueue, Size, Work

from crm.rewards.scoring import Group, Pair, Rewards
from tests.conftest import say
from tests.rewards.server.serving import OnlyCompares, WordJudge, log_words

PROMPT = say("user: Why?")


class HeldJudge(WordJudge):
    """Reads when it is let."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "let", threading.Event())

    def read(self, comparisons: Any) -> Any:
        self.let.wait(10)  # type: ignore[attr-defined]
        yield from super().read(comparisons)


def work(*texts: str) -> Work:
    return Work((Group(("x",), PROMPT, tuple(say(f"assistant: {text}") for text in texts)),))


@pytest.fixture
def judge() -> HeldJudge:
    return HeldJudge()


@pytest.fixture
def queue(judge: HeldJudge) -> Iterator[RewardQueue]:
    """The judge is reading ``first``; what is submitted waits until it is let."""
    made = RewardQueue(Rewards(judge), queue_rows=20, batch_rows=8)
    first = made.submit(work("first"))
    while not first.running():
        time.sleep(0.001)
    yield made
    judge.let.set()  # type: ignore[attr-defined]
    made.close()


def rewards(future: Future[Outcome]) -> list[float | None]:
    return future.result(10).groups[0]


def test_what_waits_is_read_together_up_to_the_limit(queue: RewardQueue, judge: Any) -> None:
    waiting = [queue.submit(work(f"{number} a", f"{number}")) for number in range(5)]
    assert queue.waiting == 10
    judge.let.set()
    assert [rewards(future) for future in waiting] == [[log_words("1 a"), log_words("1")]] * 5
    assert [len(set(sides)) for sides in judge.asked if sides] == [1, 8, 2]


def test_who_has_gone_is_not_read_and_frees_the_place(queue: RewardQueue, judge: Any) -> None:
    gone, stays = queue.submit(work("gone", "too")), queue.submit(work("stays"))
    assert gone.cancel() and queue.waiting == 1
    judge.let.set()
    assert rewards(stays) == [log_words("stays")]
    assert "gone" not in {side for sides in judge.asked for side in sides}


def test_a_full_line_refuses_at_once_and_has_room_again(queue: RewardQueue, judge: Any) -> None:
    taken = [queue.submit(work(*"abcde")) for _ in range(4)]
    started = time.perf_counter()
    with pytest.raises(QueueFullError, match="20 readings wait already; try again in a moment"):
        queue.submit(work("f"))
    assert time.perf_counter() - started < 0.05
    taken[0].cancel()
    again = queue.submit(work("f"))
    judge.let.set()
    assert rewards(again) == [log_words("f")]


def test_long_texts_fill_the_line_too(queue: RewardQueue) -> None:
    queue.submit(work("x" * 39_000))
    with pytest.raises(QueueFullError):
        queue.submit(work("x" * 2_000))


def test_one_that_breaks_takes_no_other_along(queue: RewardQueue, judge: Any) -> None:
    good, bad, also = queue.submit(work("a")), queue.submit(work("break")), queue.submit(work("b c"))
    judge.let.set()
    with pytest.raises(ReadingError, match=r"the judge could not read this \(RuntimeError\)"):
        bad.result(10)
    assert (rewards(good), rewards(also)) == ([log_words("a")], [log_words("b c")])


def test_whoever_waits_when_it_is_closed_is_told(judge: Any) -> None:
    queue = RewardQueue(Rewards(judge), queue_rows=20, batch_rows=8)
    first = queue.submit(work("first"))
    while not first.running():
        time.sleep(0.001)
    waits = queue.submit(work("waits"))
    threading.Timer(0.05, judge.let.set).start()
    queue.close()
    assert rewards(first) == [log_words("first")]
    with pytest.raises(QueueFullError, match="is being stopped"):
        waits.result(10)
    with pytest.raises(QueueFullError, match="is being stopped"):
        queue.submit(work("late"))


def test_the_size_of_work_is_what_the_judge_reads() -> None:
    group = work("a", "b", "c").groups[0]
    assert Work((group,)).size(pointwise=True) == Size(3, len("x" + "Why?" + "abc"))
    assert Work((group,)).size(pointwise=False).rows == 6
    assert Work((Group(("x",), PROMPT, group.responses, say("assistant: d")),)).size(pointwise=False).rows == 6
    assert Work(pairs=(Pair(group, 0, 1),)).size(pointwise=True).rows == 2


def test_groups_and_pairs_of_one_batch_keep_apart() -> None:
    queue = RewardQueue(Rewards(OnlyCompares()), queue_rows=1000, batch_rows=100)
    group = work("a", "b c").groups[0]
    both = [queue.submit(Work((group,))), queue.submit(Work(pairs=(Pair(group, 1, 0),)))]
    gap = log_words("a") - log_words("b c")
    assert both[0].result(10).groups == [pytest.approx([gap, -gap])]
    assert both[1].result(10).pairs == [pytest.approx((-gap + 0.3, -gap - 0.3))]
    queue.close()
