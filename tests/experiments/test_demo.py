"""The demo at the size of a test: its numbers are recomputed from the files it leaves behind, by another route."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from crm.evaluation.robustness import ATTACKS, PADDED_WINNER
from crm.leaderboard.bank.opening import simulate_bank
from experiments import jobs
from experiments.demo import run as demo
from experiments.demo.__main__ import main
from experiments.truth import true_win_rates
from tests.experiments.conftest import TINY, run_here

QUERIES_PER_TOPIC = 1
SMALL = (*TINY, "data.train=32", "data.validation=8", "data.suite=6", "schedule.epochs=1", "schedule.max_steps=1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "_quiet", lambda folder: None)
        patch.setattr(demo, "run_jobs", run_here)
        patch.setattr(demo, "ATTACKED", 4)
        return out, demo.run_demo(out, 7, SMALL, QUERIES_PER_TOPIC, demo.ALL_HEADS)


def test_summary_has_the_promised_fields(run: tuple[Path, dict[str, Any]]) -> None:
    out, summary = run
    assert json.loads((out / "summary.json").read_text(encoding="utf-8")) == summary
    assert set(summary) == {"heads", "leaderboard", "seconds", "commit", "config"}
    assert set(summary["heads"]) == {"scalar", "pairwise_span", "late"}
    assert summary["leaderboard"]["judge"] == "late"
    board = summary["leaderboard"]
    assert {"tau_contradictory", "tau_truth_detailed", "tau_truth_concise", "models", "queries"} <= set(board)
    assert (board["models"], board["queries"]) == (13, 12 * QUERIES_PER_TOPIC)
    assert all(summary["heads"]["late"]["leaderboard"][name] == board[name] for name in board if "tau" in name)
    for name, head in summary["heads"].items():
        assert set(head["attacks"]) == {*ATTACKS, PADDED_WINNER}
        assert "## Robustness to adversarial text" in (out / name / "model" / "README.md").read_text(encoding="utf-8")
        assert set(head["leaderboard"]) == {name for name in board if "tau" in name}
        suites = head["suites"]
        assert set(suites) == {
            f"{base}{sign}{noise}"
            for base in ("D", "T", "C", "C_axes", "S")
            for sign in "+-"
            for noise in ("", "_add", *(("_remove", "_replace") if base != "S" else ()))  # S has one criterion a side
        }
        for cell in suites.values():
            assert set(cell) == {"accuracy", "n", "low", "high"}
            assert 0 <= cell["low"] <= cell["accuracy"] <= cell["high"] <= 1
            assert 0 < cell["n"] <= 6


def test_tau_is_that_of_the_tables(run: tuple[Path, dict[str, Any]]) -> None:
    out, summary = run
    rates = {
        user: pd.read_csv(out / f"leaderboard_{user}.csv", skiprows=1).set_index("model")["win_rate"]
        for user in ("detailed", "concise")
    }
    found = stats.kendalltau(rates["detailed"], rates["concise"].loc[rates["detailed"].index]).statistic
    assert summary["leaderboard"]["tau_contradictory"] == pytest.approx(found)
    bank = simulate_bank(seed=demo.BANK_SEED, queries_per_topic=QUERIES_PER_TOPIC)
    for user, criterion in (("detailed", "Prefers detailed answers"), ("concise", "Prefers concise answers")):
        truth = pd.Series(true_win_rates(bank, [criterion]))
        found = stats.kendalltau(rates[user].loc[truth.index], truth).statistic
        assert summary["leaderboard"][f"tau_truth_{user}"] == pytest.approx(found)


def test_report_shows_every_picture(run: tuple[Path, dict[str, Any]]) -> None:
    out, _ = run
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(list(out.glob("*.png"))) == 6
    for name in ("suites", "leaderboard_detailed", "leaderboard_concise", "leaderboard_general"):
        assert (out / f"{name}.md").is_file() and (out / f"{name}.csv").is_file()


def test_the_short_demo_reads_what_the_long_one_left(run: tuple[Path, dict[str, Any]], monkeypatch: Any) -> None:
    """Two heads, clean suites, leaderboards of one of them: `make demo` after `make demo ALL=1` trains nothing."""
    out, summary = run

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(jobs, "run_training", refuse)
    monkeypatch.setattr(jobs, "_quiet", lambda folder: None)
    monkeypatch.setattr(demo, "run_jobs", run_here)
    kept = {path: path.read_bytes() for path in (*out.glob("*/predictions/*/*.jsonl"), *out.glob("*/metrics.csv"))}
    models = {path: path.stat().st_mtime_ns for path in out.glob("*/model/*")}
    assert len(kept) > 30 and models
    short = demo.run_demo(out, 7, SMALL, QUERIES_PER_TOPIC)
    assert set(short["heads"]) == {"scalar", "late"} and short["leaderboard"] == summary["leaderboard"]
    assert short["heads"]["scalar"]["leaderboard"] == {}
    clean = {f"{base}{sign}" for base in ("D", "T", "C", "C_axes", "S") for sign in "+-"}
    for name, head in short["heads"].items():
        assert head["attacks"] == {}
        assert head["suites"] == {suite: summary["heads"][name]["suites"][suite] for suite in clean}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "2 reward models were trained" in page and "attacks" not in page
    assert {path: path.read_bytes() for path in kept} == kept
    assert {path: path.stat().st_mtime_ns for path in models} == models
    # A change of any setting is another run, and would train.
    with pytest.raises(AssertionError, match="trained again"):
        demo.run_demo(out, 7, (*SMALL, "optimizer.lr=0.001"), QUERIES_PER_TOPIC)


def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(jobs, "_quiet", lambda folder: None)
    monkeypatch.setattr(demo, "run_jobs", run_here)
    assert main(["--out", str(tmp_path), "data.train=-1"]) == 2
    printed = capsys.readouterr()
    assert printed.err == "experiments.demo: data.train=-1: expected 0 (all) or more\n"
    assert printed.out.startswith(f"The demo: results go to {tmp_path}")
    assert main(["--out", str(tmp_path), "data.trian=100"]) == 2
    assert capsys.readouterr().err == "experiments.demo: data.trian: no such setting; did you mean data.train?\n"
