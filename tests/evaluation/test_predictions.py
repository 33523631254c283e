"""Prediction files: both orders of every comparison once, however often a run was stopped, about the record's A."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.evaluation.predictions import predict, read_predictions, reading_digest
from crm.io.processes import start
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import LengthJudge
from crm.model.batching.batches import collate
from crm.model.batching.plans import Packing
from crm.schema import Comparison, Message, Prediction
from tests.conftest import LINEAR_HEADS, rounding

MakeJudge = Callable[..., CrmJudge]


@pytest.fixture(scope="module")
def make_judge(make_model: Any, make_encoder: Any) -> MakeJudge:
    def make(head: str = "pairwise_span", batch_size: int = 2, max_length: int = 2048, **settings: Any) -> CrmJudge:
        return CrmJudge(make_model(head), make_encoder(head, max_length), batch_size=batch_size, **settings)

    return make


def run(judge: Any, rows: list[Any], folder: Path, **given: Any) -> tuple[Path, dict[str, int]]:
    path, _, counts = predict(judge, rows, folder, suite="D+", progress=False, **given)
    return path, counts


def by_key(path: Path) -> dict[tuple[str, str], Prediction]:
    rows = read_predictions(path)
    keyed = {(row.comparison_id, row.order): row for row in rows}
    assert len(keyed) == len(rows), "every comparison and order is there once"
    return keyed


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("head", "packing"), [*((head, None) for head in LINEAR_HEADS), ("pairwise", Packing(900))])
def test_logits_are_about_the_records_response_a(
    make_judge, make_model, make_encoder, many, tmp_path, head, packing
) -> None:
    judge = make_judge(head, packing=packing)
    path, counts = run(judge, many, tmp_path)
    assert counts == {"readings": 48, "already_there": 0, "made": 48, "too_long": 0}
    read = by_key(path)
    assert read.keys() == {(row.id, order) for row in many for order in ("ab", "ba")}
    model = make_model(head)
    for row in many:
        for order, sign in (("ab", 1), ("ba", -1)):
            found = read[row.id, order]
            with torch.no_grad():
                alone = model(collate([make_encoder(head).encode(row, order)], pad_id=0))
            assert found.preference_logit == pytest.approx(sign * alone.preference_logit.item(), abs=1e-12)
            facts = (found.label, found.cluster, found.suite, found.fingerprint)
            assert facts == (row.label, row.cluster, "D+", reading_digest(judge.digest, many))
            if head == "pairwise":
                assert found.score_a is None and found.score_b is None
            else:
                scores = tuple(alone.scores[0].tolist()[::sign])
                assert (found.score_a, found.score_b) == pytest.approx(scores, abs=1e-12)


def test_a_run_that_was_stopped_goes_on_with_what_is_missing(
    many: list[Comparison], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last line was cut off; two processes of another run left parts, one of them cut off too."""
    rows = [replace(row, id=f"東京 {row.id}") for row in many]
    path, _ = run(LengthJudge(), rows, tmp_path)
    whole, lines = by_key(path), path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:10]) + lines[10][:30])
    path.with_name("D+.jsonl.0.part").write_bytes(b"".join(lines[8:14]))
    path.with_name("D+.jsonl.1.part").write_bytes(lines[30] + lines[31][:-5])
    write = Path.write_bytes  # in place all would be lost by a second kill
    monkeypatch.setattr(Path, "write_bytes", lambda at, data: write(at, data) if at.suffix == ".tmp" else pytest.fail())
    _, counts = run(LengthJudge(), rows, tmp_path)
    assert (counts["already_there"], counts["made"]) == (15, 33)
    assert by_key(path) == whole
    assert [file.name for file in path.parent.iterdir()] == ["D+.jsonl"]
    assert run(LengthJudge(), rows, tmp_path)[1]["made"] == 0


def test_what_is_too_long_is_counted_each_time(make_judge: MakeJudge, many: list[Comparison], tmp_path: Path) -> None:
    giant = replace(many[0], id="giant", prompt=(Message("user", "long " * 300),))
    for made, there in ((6, 0), (0, 6)):
        _, counts = run(make_judge(max_length=400), [*many[:3], giant], tmp_path)
        assert counts == {"readings": 8, "already_there": there, "made": made, "too_long": 2}


def test_the_fingerprint_names_model_template_and_every_character(
    make_judge: MakeJudge, many: list[Comparison]
) -> None:
    same = reading_digest("mt", many)
    assert same == reading_digest("mt", many[::-1])
    changed = replace(many[3], response_b=(Message("assistant", many[3].response_b[0].content + " "),))
    others = [reading_digest("nt", many), reading_digest("mt", many[1:])]
    others.append(reading_digest("mt", [*many[:3], changed, *many[4:]]))
    assert len({same, *others}) == 4
    digests = {make_judge().digest, make_judge(precision="bf16-mixed").digest, make_judge("scalar").digest}
    assert len(digests) == 3, "precisions and heads do not mix"


def read_on_rank(judge: CrmJudge, rows: list[Comparison], folder: Path) -> None:
    expected = {"readings": 46, "already_there": 0, "made": 46, "too_long": 0}
    assert run(judge, rows, folder, processes=start(3, 1))[1] == expected, "the counts are of all processes, on each"


@pytest.mark.slow
def test_three_processes_give_the_readings_of_one(
    make_judge: MakeJudge, many: list[Comparison], on_ranks: Any, tmp_path: Path
) -> None:
    on_ranks(3, read_on_rank, make_judge(), many[:23], tmp_path / "together")
    path, _ = run(make_judge(), many[:23], tmp_path / "alone")
    together = tmp_path / "together" / path.parent.name
    ours, theirs = by_key(together / path.name), by_key(path)
    assert ours.keys() == theirs.keys()
    allowed = rounding([row.preference_logit for row in theirs.values()])
    for key, row in theirs.items():
        assert ours[key].preference_logit == pytest.approx(row.preference_logit, abs=allowed)
    assert [file.name for file in together.iterdir()] == [path.name], "the parts are gone"
