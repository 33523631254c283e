"""Prediction files: both orders of every comparison once, however often a run was killed, about the record's A."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.evaluation.prediction_file import predict, read_predictions, reading_digest
from crm.evaluation.results import summarise
from crm.judges.controls import LengthJudge
from crm.judges.crm_judge import CrmJudge
from crm.model.batching.batches import collate
from crm.model.batching.packs import Packing
from crm.model.heads import LINEAR_HEADS
from crm.schema import Message, Prediction
from tests.conftest import rounding


@pytest.fixture(scope="module")
def make_judge(make_model, make_encoder):
    def make(head: str = "pairwise_span", batch_size: int = 2, max_length: int = 2048, **settings: Any) -> CrmJudge:
        return CrmJudge(make_model(head), make_encoder(head, max_length), batch_size=batch_size, **settings)

    return make


def run(judge: Any, rows: list[Any], path: Path, mark: str = "mark") -> dict[str, int]:
    return predict(judge, rows, suite="D+", digest=mark, path=path, progress=False)


def by_key(predictions: list[Prediction]) -> dict[tuple[str, str], Prediction]:
    keyed = {(row.comparison_id, row.order): row for row in predictions}
    assert len(keyed) == len(predictions), "every comparison and order stands there once"
    return keyed


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("packing", [None, Packing(900)])
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_logits_are_about_the_records_response_a(
    make_judge, make_model, make_encoder, many, tmp_path, head, packing
) -> None:
    counts = run(make_judge(head, packing=packing), many, tmp_path / "p.jsonl")
    assert counts == {"readings": 48, "already_there": 0, "made": 48, "too_long": 0}
    read = by_key(read_predictions(tmp_path / "p.jsonl"))
    assert read.keys() == {(row.id, order) for row in many for order in ("ab", "ba")}
    model = make_model(head)
    for row in many:
        for order, sign in (("ab", 1), ("ba", -1)):
            found = read[row.id, order]
            with torch.no_grad():
                alone = model(collate([make_encoder(head).encode(row, order)], pad_id=0))
            assert found.preference_logit == pytest.approx(sign * alone.preference_logit.item(), abs=1e-12)
            assert (found.label, found.cluster, found.suite, found.fingerprint) == (
                row.label,
                row.cluster,
                "D+",
                "mark",
            )
            if head == "pairwise":
                assert found.score_a is None and found.score_b is None
            else:
                assert found.score_a - found.score_b == pytest.approx(found.preference_logit, abs=1e-12)
                assert (found.score_a, found.score_b) == pytest.approx(
                    tuple(alone.scores[0].tolist()[::sign]), abs=1e-12
                )


@pytest.mark.parametrize("batch_size", [2, 8])
def test_both_orders_of_the_scalar_head_are_one_number(make_judge, many, tmp_path, batch_size) -> None:
    run(make_judge("scalar", batch_size), many, tmp_path / "p.jsonl")
    read = by_key(read_predictions(tmp_path / "p.jsonl"))
    for row in many:
        ab, ba = read[row.id, "ab"], read[row.id, "ba"]
        assert (ab.preference_logit, ab.score_a, ab.score_b) == (ba.preference_logit, ba.score_a, ba.score_b)


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_it_had_not_been(make_judge, many, tmp_path) -> None:
    """Cut at 50 places, often in the middle of a line, a number or a character."""
    rows = [replace(row, id=f"東京 {row.id}") for row in many]
    judge, whole, path = make_judge(), tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    run(judge, rows, whole)
    expected, content = by_key(read_predictions(whole)), whole.read_bytes()
    allowed = rounding([row.preference_logit for row in expected.values()])
    rng = random.Random(0)
    for cut in [0, len(content) - 1, len(content), *(rng.randrange(len(content)) for _ in range(50))]:
        path.write_bytes(content[:cut])
        counts = run(judge, rows, path)
        assert counts["already_there"] == content[:cut].count(b"\n")
        assert counts["already_there"] + counts["made"] == 48 == counts["readings"]
        assert path.read_bytes().endswith(b"\n")
        found = by_key(read_predictions(path))
        assert found.keys() == expected.keys()
        for key, row in found.items():
            assert row.preference_logit == pytest.approx(expected[key].preference_logit, abs=allowed)
            assert replace(row, preference_logit=0.0, score_a=None, score_b=None) == replace(
                expected[key], preference_logit=0.0, score_a=None, score_b=None
            )


@pytest.mark.slow
def test_cut_at_any_of_500_bytes_a_file_ends_in_the_same_numbers(many: list[Any], tmp_path: Path) -> None:
    """By a judge that costs nothing: the rows in any order, each once, and every metric bit by bit."""
    rows = [replace(row, id=f"東京 {row.id}") for row in many]
    whole, path = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    run(LengthJudge(), rows, whole)
    content, expected = whole.read_bytes(), read_predictions(whole)
    for number in range(500):
        path.write_bytes(content[: len(content) * number // 500])
        run(LengthJudge(), rows, path)
        found = read_predictions(path)
        assert by_key(found) == by_key(expected), number
        assert summarise(found) == summarise(expected), number


def test_the_same_run_gives_the_same_bytes_and_a_whole_file_is_left_alone(make_judge, many, tmp_path) -> None:
    contents = []
    for name in ("first", "second"):
        run(make_judge(), many, tmp_path / name)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert run(make_judge(), many, tmp_path / "first")["made"] == 0
    assert (tmp_path / "first").read_bytes() == contents[0]


def test_a_file_of_another_run_is_refused_and_untouched(make_judge, many, tmp_path) -> None:
    path = tmp_path / "p.jsonl"
    run(make_judge(), many[:2], path, mark="other")
    content = path.read_bytes()
    with pytest.raises(ValueError, match="holds predictions of other, this run is mark; move it away"):
        run(make_judge(), many[:2], path)
    assert path.read_bytes() == content


def test_comparisons_that_share_an_id_are_refused(make_judge, many, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"suite D\+: the comparison id 'c0' occurs twice"):
        run(make_judge(), [many[0], many[1], many[0]], tmp_path / "p.jsonl")


def test_what_is_too_long_is_counted_each_time(make_judge, many, tmp_path) -> None:
    giant = replace(many[0], id="giant", prompt=(Message("user", "long " * 300),))
    for made, there in ((6, 0), (0, 6)):
        counts = run(make_judge(max_length=400), [*many[:3], giant], tmp_path / "p.jsonl")
        assert counts == {"readings": 8, "already_there": there, "made": made, "too_long": 2}


def test_the_fingerprint_names_model_template_and_every_character(make_judge, many) -> None:
    same = reading_digest("mt", many)
    assert same == reading_digest("mt", many[::-1])
    changed = replace(many[3], response_b=(Message("assistant", many[3].response_b[0].content + " "),))
    others = [
        reading_digest("nt", many),
        reading_digest("mu", many),
        reading_digest("mt", many[1:]),
        reading_digest("mt", [*many[:3], changed, *many[4:]]),
    ]
    assert len({same, *others}) == 5
    digests = {make_judge().digest, make_judge(precision="bf16-mixed").digest, make_judge("scalar").digest}
    assert len(digests) == 3, "precisions and heads do not mix"


def test_bfloat16_stays_near_and_makes_no_ties(make_judge, many) -> None:
    pairs = [(row, "ab") for row in many]
    exact, mixed = (
        {reading.comparison.id: reading.preference_logit for portion in judge.read(pairs) for reading in portion}
        for judge in (make_judge("scalar"), make_judge("scalar", precision="bf16-mixed"))
    )
    differences = [abs(exact[name] - mixed[name]) for name in exact]
    assert 0 < max(differences) < 0.1
    responses_differ = [row for row in many if row.response_a != row.response_b]
    assert all(mixed[row.id] != 0.0 for row in responses_differ)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums over several threads may round otherwise than over one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_numbers_do_not_depend_on_where_a_run_was_killed(make_judge, many, tmp_path) -> None:
    """Killed 20 times at random, in a process of its own each time, and what it wrote last is torn off.

    In packed batches of several comparisons, what is packed with what decides the order of sums: a run that went on
    with what is missing alone would differ in the last bits.
    """
    rows = [replace(row, id=f"{row.id}-{number}") for number in range(4) for row in many]
    rng, whole, path = random.Random(7), tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    settings: dict[str, Any] = {"batch_size": 2, "packing": Packing(900)}
    run(make_judge(**settings), rows, whole)
    fork, kills = multiprocessing.get_context("fork"), 0
    while kills < 20:
        child = fork.Process(target=run_and_die, args=(make_judge(**settings), rows, path, rng.randint(1, 30)))
        child.start()
        child.join(60)
        kills += child.exitcode == -signal.SIGKILL
        if child.exitcode == 0:  # this one came to the end: begin anew
            assert path.read_bytes().count(b"\n") == 2 * len(rows)
            path.unlink()
        else:
            written = path.read_bytes() if path.exists() else b""
            path.write_bytes(written[: max(0, len(written) - rng.randrange(3_000))])
    run(make_judge(**settings), rows, path)
    assert by_key(read_predictions(path)) == by_key(read_predictions(whole)), "bit by bit"
    assert summarise(read_predictions(path)) == summarise(read_predictions(whole))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_three_kills_in_a_row_change_no_number(make_judge, many, tmp_path) -> None:
    """None of the runs comes to its end before the last one does."""
    rows = [replace(row, id=f"{row.id}-{number}") for number in range(4) for row in many]
    settings: dict[str, Any] = {"batch_size": 2, "packing": Packing(900)}
    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    run(make_judge(**settings), rows, whole)
    there = []
    for _ in range(3):
        child = multiprocessing.get_context("fork").Process(
            target=run_and_die, args=(make_judge(**settings), rows, path, 3)
        )
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        there.append(len(read_predictions(path)))
    assert 0 < there[0] <= there[1] <= there[2] < 192 and there[0] < there[2], "each went on from the one before"
    run(make_judge(**settings), rows, path)
    assert by_key(read_predictions(path)) == by_key(read_predictions(whole))
    assert summarise(read_predictions(path)) == summarise(read_predictions(whole))


def run_and_die(judge: CrmJudge, rows: list[Any], path: Path, batches: int) -> None:
    """Read, and be killed at a batch of its own choice, unless all is read before."""
    read, left = judge._read_batch, iter(range(batches))

    def counted(batch: Any) -> Any:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(batch)

    judge._read_batch = counted
    torch.set_num_threads(1)
    run(judge, rows, path)
    os._exit(0)


def test_what_is_too_long_costs_no_second_reading(make_judge, many, tmp_path, monkeypatch) -> None:
    giant = replace(many[0], id="giant", prompt=(Message("user", "long " * 300),))
    run(make_judge(max_length=400), [*many[:3], giant], tmp_path / "p.jsonl")
    judge = make_judge(max_length=400)
    monkeypatch.setattr(judge, "read", lambda _: pytest.fail("read again"))
    counts = run(judge, [*many[:3], giant], tmp_path / "p.jsonl")
    assert counts == {"readings": 8, "already_there": 6, "made": 0, "too_long": 2}


def test_a_fresh_run_encodes_nothing_twice(make_judge, many, tmp_path, monkeypatch) -> None:
    judge = make_judge()
    monkeypatch.setattr(judge, "fits", lambda _: pytest.fail("encoded to ask whether it fits"))
    assert run(judge, many, tmp_path / "p.jsonl")["made"] == 48
