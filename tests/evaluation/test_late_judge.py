"""A late head as a judge: suites are read through the trainer, by its scores; what has no place for it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.evaluation.prediction_file import read_predictions
from crm.evaluation.run import run_evaluation
from crm.judges import open_checkpoint
from crm.model.export import export_model
from crm.model.late_reading import LateReader
from crm.schema import Comparison
from tests.conftest import rounding

SMALL = ("data.train=24", "data.validation=8", "data.suite=6", "progress=false", "suite.names=[D+,D-]")


@pytest.fixture(scope="module")
def folder(make_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    export_model(make_model("late", seed=4), tokenizer, folder, {"max_length": 2048, "seed": 3, "config": {}})
    return folder


@pytest.fixture(scope="module")
def judge(folder: Path) -> Any:
    return open_checkpoint(folder, batch_size=2, precision="32-true")[0]


def test_a_suite_is_read_through_the_trainer(folder: Path, tmp_path: Path) -> None:
    given = (f"checkpoint='{folder}'", f"predictions='{tmp_path / 'kept'}'", "precision=32-true", *SMALL)
    run_evaluation(compose("evaluate", list(given), tmp_path / "run"), show=False)
    rows = [row for path in (tmp_path / "kept").rglob("[!.]*.jsonl") for row in read_predictions(path)]
    assert len(rows) > 8
    for row in rows:
        assert row.score_a is not None and row.score_b is not None
        scores = (row.score_a, row.score_b)
        assert row.preference_logit == pytest.approx(scores[0] - scores[1], abs=rounding(scores))
    frame = pd.DataFrame([vars(row) for row in rows])
    both = frame.pivot_table(index="comparison_id", columns="order", values="preference_logit")
    if {"ab", "ba"} <= set(both.columns):
        assert both["ab"].to_numpy() == pytest.approx(both["ba"].to_numpy(), abs=1e-4), "no place is favoured"


def test_the_judge_says_what_its_vectors_say(judge: Any, comparisons: list[Comparison]) -> None:
    import torch

    reader = LateReader(judge.model, judge.encoder, autocast=torch.autocast("cpu", enabled=False), precision="32-true")
    readings = [one for portion in judge.read([(row, "ab") for row in comparisons]) for one in portion]
    assert len(readings) == len(comparisons)
    for reading in readings:
        row = reading.comparison
        vectors = reader.responses([(row.prompt, row.response_a), (row.prompt, row.response_b)])
        expected = vectors @ reader.user_vector(row.criteria)
        found = [reading.score_a, reading.score_b]
        assert found == pytest.approx(expected.tolist(), abs=rounding(expected))
