"""`leaderboard.py` with a late checkpoint: the bank is indexed, weights count, and the files are those of any judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.leaderboard.run import run_leaderboard
from crm.model.export import export_model

FILES = ("leaderboard", "bradley_terry")


@pytest.fixture
def make_folder(make_model: Any, tokenizer: Any, tmp_path: Path) -> Any:
    def make(head: str) -> Path:
        export_model(make_model(head), tokenizer, tmp_path / head, {"max_length": 600, "seed": 1})
        return tmp_path / head

    return make


def rank(folder: Path, run_dir: Path, *words: str) -> Any:
    given = [f"checkpoint='{folder}'", f"predictions='{folder / 'kept'}'", "progress=false", "bank.queries_per_topic=1"]
    return run_leaderboard(compose("leaderboard", [*given, *words], run_dir), show=False)


def test_the_files_are_those_of_single_readings(
    make_folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted = make_folder("late"), "criteria=[Prefers concise answers, Wants sources]"
    board = rank(folder, tmp_path / "index", wanted)
    assert not list((folder / "kept").rglob("bank.jsonl")), "no prediction file is needed"
    monkeypatch.setattr("crm.leaderboard.index.index_bank", lambda *_, **__: None)
    other = rank(folder, tmp_path / "read", wanted)
    assert list((folder / "kept").rglob("bank.jsonl"))
    assert board.win_rates() == pytest.approx(other.win_rates(), abs=1e-3)
    one, two = (json.loads((tmp_path / name / "criteria.json").read_text()) for name in ("index", "read"))
    assert one == two and one["queries"] == 12
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("index", "read")]
    assert names[0] == names[1] >= {f"{name}.{ending}" for name in FILES for ending in ("md", "csv")}
    for name in FILES:
        tables = [pd.read_csv(tmp_path / run / f"{name}.csv", skiprows=1) for run in ("index", "read")]
        assert list(tables[0].columns) == list(tables[1].columns) and len(tables[0]) == len(tables[1]) == 13


def test_weights_turn_and_outweigh_criteria(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("late")
    liked = rank(folder, tmp_path / "liked", "criteria=[Prefers concise answers]")
    disliked = rank(folder, tmp_path / "disliked", "criteria=[Prefers concise answers]", "weights=[-1]")
    for name, rate in liked.win_rates().items():
        assert disliked.win_rates()[name] == pytest.approx(1 - rate, abs=1e-6)
    facts = json.loads((tmp_path / "disliked" / "criteria.json").read_text())
    assert facts["weights"] == [-1.0] and facts["criteria"] == ["Prefers concise answers"]
    assert "-1 x Prefers concise answers" in (tmp_path / "disliked" / "leaderboard.md").read_text()
    both = rank(folder, tmp_path / "both", "criteria=[Prefers concise answers, Wants sources]", "weights=[1,0]")
    assert both.win_rates() == pytest.approx(liked.win_rates(), abs=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["weights=[1]"], r"weights=\[1.0\]: expected as many numbers as criteria \(0\), or none"),
        (["criteria=[a]", "weights=[0]"], "one at least that is not 0"),
        (["criteria=[a]", "weights=[inf]"], "finite numbers"),
        (["criteria=[a]", "weights=[-1]"], r"weights=\[-1.0\]: .* reads all criteria together and cannot weigh them"),
    ],
)
def test_weights_that_mean_nothing_are_refused(make_folder: Any, tmp_path: Path, words: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rank(make_folder("scalar"), tmp_path / "run", *words)
