"""Suites under a trainer: the files that `predict` writes, whatever the devices, and however often a run ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crm.evaluation import EvaluationDataModule, LitJudge
from crm.evaluation.config import ReadingTrainerConfig
from crm.evaluation.prediction_file import predict, read_predictions, reading_digest
from crm.judges.crm_judge import CrmJudge
from crm.model.batching.plans import Packing
from crm.schema import Comparison, Message, Prediction
from crm.training import prediction_trainer
from tests.conftest import rounding

Suites = dict[str, list[Comparison]]


@pytest.fixture(scope="module")
def make_judge(make_model: Any, make_encoder: Any) -> Callable[..., CrmJudge]:
    def make(precision: str = "32-true", max_length: int = 2048, **settings: Any) -> CrmJudge:
        head, given = "pairwise_span", {"batch_size": 1, "packing": Packing(900), "model_digest": "tiny"}
        return CrmJudge(make_model(head), make_encoder(head, max_length), precision=precision, **(given | settings))

    return make


@pytest.fixture(scope="module")
def suites(many: list[Comparison]) -> Suites:
    """Two suites that share rows, and an empty one between them."""
    return {"D+": many, "T+": [], "D-_add": [replace(row, criteria=("Wants proof",)) for row in many[:9]]}


def read(judge: CrmJudge, suites: Suites, folder: Path, **trainer: Any) -> dict[str, dict[str, int]]:
    settings = ReadingTrainerConfig(name="here", accelerator="cpu", precision=judge.precision, threads=1)
    data = EvaluationDataModule(judge, suites, folder)
    config = SimpleNamespace(trainer=replace(settings, **trainer))
    prediction_trainer(config, folder).predict(LitJudge(judge), datamodule=data, return_predictions=False)
    return data.counts


def read_by_predict(judge: CrmJudge, suites: Suites, folder: Path) -> dict[str, dict[str, int]]:
    counts = {}
    for suite, rows in suites.items():
        digest = reading_digest(judge.digest, rows)
        place = {"path": folder / digest / f"{suite}.jsonl", "progress": False}
        counts[suite] = predict(judge, rows, suite=suite, digest=digest, **place) if rows else {}
    return {suite: found for suite, found in counts.items() if found}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("[!.]*.jsonl*"))}


def by_key(folder: Path) -> dict[tuple[str, str, str], Prediction]:
    rows = [row for path in folder.rglob("[!.]*.jsonl") for row in read_predictions(path)]
    keyed = {(row.suite, row.comparison_id, row.order): row for row in rows}
    assert len(keyed) == len(rows), "every suite, comparison and order stands there once"
    return keyed


@pytest.mark.parametrize("packing", [Packing(900), None])
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_one_process_writes_the_files_of_predict_byte_for_byte(
    precision: str, packing: Packing | None, make_judge: Any, suites: Suites, tmp_path: Path
) -> None:
    settings = {"precision": precision, "packing": packing, "batch_size": 2}
    counts = read(make_judge(**settings), suites, tmp_path / "trainer")
    assert counts == read_by_predict(make_judge(**settings), suites, tmp_path / "predict")
    assert counts["D+"] == {"readings": 48, "already_there": 0, "made": 48, "too_long": 0}
    assert contents(tmp_path / "trainer") == contents(tmp_path / "predict")
    assert len(contents(tmp_path / "trainer")) == 2, "an empty suite has no file"


def test_bfloat16_is_really_computed_in(make_judge: Any, suites: Suites, tmp_path: Path) -> None:
    read(make_judge(), suites, tmp_path / "exact")
    read(make_judge("bf16-mixed"), suites, tmp_path / "mixed")
    exact, mixed = by_key(tmp_path / "exact"), by_key(tmp_path / "mixed")
    apart = [abs(exact[key].preference_logit - mixed[key].preference_logit) for key in exact]
    assert 1e-4 < max(apart) < 0.1


def test_a_precision_that_the_files_are_not_named_by_is_refused(
    make_judge: Any, suites: Suites, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"trainer.precision='bf16-mixed': the judge was opened for '32-true'"):
        read(make_judge(), suites, tmp_path, precision="bf16-mixed")
    assert contents(tmp_path) == {}


def as_rank(make_judge: Any, suites: Suites, folder: Path, expected: Any, trainer: dict[str, Any]) -> None:
    assert read(make_judge(), suites, folder, **trainer) == expected, "the counts are of all processes, on each"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", "ddp", "fsdp"])
def test_two_processes_give_the_readings_of_one(
    strategy: str, make_judge: Any, many: list[Comparison], suites: Suites, on_ranks: Any, tmp_path: Path
) -> None:
    given = suites | {"C+": [replace(many[0], criteria=("Alone",))], "C-": many[:1]}
    expected = read_by_predict(make_judge(), given, tmp_path / "alone")
    together = tmp_path / "together"
    on_ranks(2, as_rank, make_judge, given, together, expected, {"devices": 2, "strategy": strategy})
    ours, theirs = by_key(together), by_key(tmp_path / "alone")
    assert ours.keys() == theirs.keys()
    allowed = rounding([row.preference_logit for row in theirs.values()])
    for key, row in theirs.items():
        assert ours[key].preference_logit == pytest.approx(row.preference_logit, abs=allowed)
        assert (ours[key].label, ours[key].tokens) == (row.label, row.tokens)
    assert len(contents(together)) == 4, "the shares are gone"


class StoppedError(RuntimeError):
    pass


def stopping(judge: CrmJudge, passes: int, error: type[BaseException]) -> CrmJudge:
    """The judge, whose model ends the run after some forward passes."""
    forward, left = judge.unplaced.forward, iter(range(passes))

    def counted(batch: Any) -> Any:
        if next(left, None) is None:
            raise error
        return forward(batch)

    judge.unplaced.forward = counted  # type: ignore[method-assign]
    return judge


@pytest.mark.parametrize("passes", [0, 1, 2, 3, 5])
def test_an_interrupted_run_goes_on_to_the_same_bytes(
    passes: int, make_judge: Any, suites: Suites, tmp_path: Path
) -> None:
    read(make_judge(), suites, tmp_path / "whole")
    with pytest.raises(StoppedError):
        read(stopping(make_judge(), passes, StoppedError), suites, tmp_path / "stopped")
    begun = sum(content.count(b"\n") for content in contents(tmp_path / "stopped").values())
    assert begun > 0 or not passes
    counts = read(make_judge(), suites, tmp_path / "stopped")
    assert sum(found["already_there"] for found in counts.values()) == begun
    assert sum(found["made"] for found in counts.values()) == 66 - begun
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_what_stands_there_is_not_computed_again(make_judge: Any, suites: Suites, tmp_path: Path) -> None:
    read(make_judge(), suites, tmp_path)
    before = contents(tmp_path)
    counts = read(stopping(make_judge(), 0, StoppedError), suites, tmp_path)
    assert counts["D+"] == {"readings": 48, "already_there": 48, "made": 0, "too_long": 0}
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_a_killed_run_of_two_processes_goes_on_with_one(
    make_judge: Any, suites: Suites, on_ranks: Any, tmp_path: Path
) -> None:
    on_ranks(2, stopped_as_rank, make_judge, suites, tmp_path / "stopped")
    shares = [name for name in contents(tmp_path / "stopped") if name.endswith(".part")]
    assert shares, "each process wrote its share"
    counts = read(make_judge(), suites, tmp_path / "stopped")
    assert 0 < sum(found["already_there"] for found in counts.values()) < 66
    read(make_judge(), suites, tmp_path / "whole")
    assert by_key(tmp_path / "stopped").keys() == by_key(tmp_path / "whole").keys()


def stopped_as_rank(make_judge: Any, suites: Suites, folder: Path) -> None:
    with pytest.raises(StoppedError):
        read(stopping(make_judge(), 2, StoppedError), suites, folder, devices=2, strategy="ddp")


def test_what_is_too_long_is_counted_each_time(make_judge: Any, many: list[Comparison], tmp_path: Path) -> None:
    giants = [replace(many[0], id=f"giant {n}", prompt=(Message("user", "long " * 300),)) for n in range(2)]
    given = {"D+": [*many[:3], giants[0]], "D-": giants}
    for made, there in ((6, 0), (0, 6)):
        counts = read(make_judge(max_length=400), given, tmp_path)
        assert counts["D+"] == {"readings": 8, "already_there": there, "made": made, "too_long": 2}
        assert counts["D-"] == {"readings": 4, "already_there": 0, "made": 0, "too_long": 4}


def test_a_bar_is_shown_where_it_is_wanted(make_judge: Any, suites: Suites, tmp_path: Path) -> None:
    data = EvaluationDataModule(make_judge(), suites, tmp_path)
    config = SimpleNamespace(trainer=ReadingTrainerConfig(accelerator="cpu"))
    lit = LitJudge(data.judge, progress=True)
    prediction_trainer(config, tmp_path).predict(lit, datamodule=data, return_predictions=False)
    bar = next(callback for callback in lit.trainer.callbacks if hasattr(callback, "_bar"))._bar  # type: ignore[attr-defined]
    assert [(task.description.strip(), task.completed, task.total) for task in bar.tasks] == [
        ("D+", 48, 48),
        ("D-_add", 18, 18),
    ]
    assert all(json.loads(line)["suite"] for content in contents(tmp_path).values() for line in content.splitlines())
