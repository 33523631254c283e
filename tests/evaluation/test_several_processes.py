"""Several processes read a suite as one does: every (comparison, order) once, the same numbers, after a kill too."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crm.evaluation.predictions import finished, predict, read_predictions, share_of
from crm.evaluation.results import summarise
from crm.io.processes import Processes, start
from crm.judges.crm_judge import CrmJudge
from crm.schema import Comparison, Prediction, to_json
from tests.conftest import rounding

OnRanks = Callable[..., None]


@pytest.fixture(scope="module")
def judge(make_model: Any, make_encoder: Any) -> CrmJudge:
    return CrmJudge(make_model("pairwise_span"), make_encoder("pairwise_span"), batch_size=2)


def read(judge: CrmJudge, rows: list[Comparison], path: Path, processes: Processes | None = None) -> dict[str, int]:
    together = {"processes": processes} if processes else {}
    return predict(judge, rows, suite="D+", digest="mark", path=path, progress=False, **together)


def read_together(size: int, expected: dict[str, int], judge: CrmJudge, rows: list[Comparison], path: Path) -> None:
    assert read(judge, rows, path, start(size, 1)) == expected, "the counts are of all processes, on each"


def by_key(path: Path) -> dict[tuple[str, str], Prediction]:
    rows = read_predictions(path)
    keyed = {(row.comparison_id, row.order): row for row in rows}
    assert len(keyed) == len(rows), "every comparison and order stands there once"
    return keyed


def assert_same(ours: Path, theirs: Path) -> None:
    read_here, read_there = by_key(ours), by_key(theirs)
    assert read_here.keys() == read_there.keys()
    allowed = rounding([row.preference_logit for row in read_there.values()])
    for key, row in read_there.items():
        assert read_here[key].preference_logit == pytest.approx(row.preference_logit, abs=allowed)
    for one, other in zip(summarise(list(read_here.values())), summarise(list(read_there.values())), strict=True):
        assert (one.suite, one.metric, one.n) == (other.suite, other.metric, other.n)
        assert one.value == pytest.approx(other.value, abs=allowed)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "count"), [(2, 24), (4, 23), (4, 1)])
def test_the_file_is_that_of_one_process(
    size: int, count: int, judge: CrmJudge, many: list[Comparison], on_ranks: OnRanks, tmp_path: Path
) -> None:
    rows, together, alone = many[:count], tmp_path / "together/p.jsonl", tmp_path / "alone/p.jsonl"
    expected = {"readings": 2 * count, "already_there": 0, "made": 2 * count, "too_long": 0}
    on_ranks(size, read_together, size, expected, judge, rows, together)
    assert read(judge, rows, alone) == expected
    assert_same(together, alone)
    assert [path.name for path in together.parent.glob("[!.]*")] == ["p.jsonl"], "the shares are gone"


@pytest.mark.slow
def test_rows_that_do_not_fit_are_counted_over_all_processes(
    make_model: Any, make_encoder: Any, many: list[Comparison], on_ranks: OnRanks, tmp_path: Path
) -> None:
    judge = CrmJudge(make_model("scalar"), make_encoder("scalar", 64), batch_size=2)
    counts = read(judge, many, tmp_path / "alone.jsonl")
    assert 0 < counts["too_long"] < 48
    on_ranks(2, read_together, 2, counts, judge, many, tmp_path / "together.jsonl")
    assert_same(tmp_path / "together.jsonl", tmp_path / "alone.jsonl")


class DyingJudge(CrmJudge):
    """Its process is killed after the first portion, in the middle of a line."""

    def read(self, comparisons: Any) -> Any:
        for number, portion in enumerate(super().read(comparisons)):
            yield portion
            if number == 0:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_any_number_of_processes(
    make_model: Any, make_encoder: Any, judge: CrmJudge, many: list[Comparison], on_ranks: OnRanks, tmp_path: Path
) -> None:
    dying = DyingJudge(make_model("pairwise_span"), make_encoder("pairwise_span"), batch_size=1)
    path = tmp_path / "p.jsonl"
    with pytest.raises(AssertionError):
        on_ranks(2, read_together, 2, {}, dying, many, path)
    shares = [share_of(path, rank) for rank in (0, 1)]
    assert all(share.is_file() for share in shares)
    left = sum(len(read_predictions(share)) for share in shares)
    assert left == 32, "16 readings of each process were written"
    with shares[1].open("a") as file:
        file.write('{"comparison_id": "c1')
    on_ranks(4, read_together, 4, {"readings": 48, "already_there": 32, "made": 16, "too_long": 0}, judge, many, path)
    read(judge, many, tmp_path / "alone.jsonl")
    assert_same(path, tmp_path / "alone.jsonl")


def test_two_runs_at_the_same_file_write_every_reading_once(
    judge: CrmJudge, many: list[Comparison], tmp_path: Path
) -> None:
    path, made = tmp_path / "p.jsonl", []
    meet = threading.Barrier(2, timeout=60)

    class Waiting(CrmJudge):
        """Reads when the other one is at work too, or a second later where that may not be."""

        def read(self, comparisons: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                meet.wait(1)
            return super().read(comparisons)

    waiting = Waiting(judge.model, judge.encoder, batch_size=64)
    runs = [threading.Thread(target=lambda: made.append(read(waiting, many, path)["made"])) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sorted(made) == [0, 48] and len(by_key(path)) == 48


def test_a_kill_between_adding_the_shares_and_removing_them_doubles_nothing(
    judge: CrmJudge, many: list[Comparison], tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    read(judge, many, path)
    rows = read_predictions(path)
    share_of(path, 0).write_text("".join(to_json(row) + "\n" for row in rows[:7]), encoding="utf-8")
    assert len(finished(path, "mark")) == 48
    assert read_predictions(path) == rows and not share_of(path, 0).exists()


def refused(judge: CrmJudge, rows: list[Comparison], path: Path) -> None:
    with pytest.raises(ValueError, match="holds predictions of other, this run is mark"):
        read(judge, rows, path, start(2, 1))


@pytest.mark.slow
def test_a_mistake_that_the_first_process_finds_stops_all(
    judge: CrmJudge, many: list[Comparison], on_ranks: OnRanks, tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    predict(judge, many[:2], suite="D+", digest="other", path=path, progress=False)
    on_ranks(2, refused, judge, many, path)


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_shares_are_blocks_that_differ_by_one_at_most(size: int) -> None:
    for count in (0, 1, 5, 48):
        blocks = []
        for rank in range(size):
            processes = Processes()
            processes.rank, processes.size = rank, size
            blocks.append(list(processes.share(range(count))))
        assert [item for block in blocks for item in block] == list(range(count))
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
