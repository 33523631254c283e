"""Prediction files: both orders of every comparison once, however often a run was killed, about the record's A."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.evaluation.prediction_file import predict, read_predictions, reading_digest
from crm.judges.controls import LengthJudge
from crm.judges.crm_judge import CrmJudge
from crm.model.batching.batches import collate
from crm.model.batching.plans import Packing
from crm.model.heads import LINEAR_HEADS
from crm.schema import Message, Prediction


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


def test_a_run_that_was_stopped_goes_on_with_what_is_missing(many, tmp_path) -> None:
    """What it wrote last is half a line."""
    rows = [replace(row, id=f"東京 {row.id}") for row in many]
    whole, path = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    run(LengthJudge(), rows, whole)
    content = whole.read_bytes()
    path.write_bytes(content[: content.index("東京 c7".encode()) + 4])
    assert 0 < run(LengthJudge(), rows, path)["already_there"] < 48
    assert by_key(read_predictions(path)) == by_key(read_predictions(whole))
    assert path.read_bytes().endswith(b"\n")


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
