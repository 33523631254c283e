"""All tables of a tiny grid: cells by hand and against the runs behind them; a second call trains what is gone."""

import json
import shutil
from dataclasses import replace
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.ranking import Leaderboard, compare
from crm.report.statistics import Interval
from experiments import jobs
from experiments.paper_tables import __main__ as reproduce
from experiments.paper_tables import claims, paper, tables
from experiments.paper_tables.cells import Cell, Grid, over_seeds
from experiments.paper_tables.plan import make_plan
from experiments.paper_tables.scales import SCALES, DataSet
from experiments.truth import true_win_rates
from tests.experiments.conftest import TINY, run_here
from tests.made_files import outcomes

DATA = ("data.train=64", "data.validation=16", "data.suite=12")
SEEDS = (7,)
PAIRS = ("detail",)
TABLES = (1, 5)
"""Accuracies and rankings: the others vary what these train."""
GRID = replace(
    SCALES["demo"],
    common=(*TINY, "schedule.max_steps=1", "schedule.comparisons_per_step=16"),
    sizes={"small": (), "smaller": ("model.hidden_size=8", "model.heads=2")},
    data=DataSet(("data=simulation", *DATA), ("D", "T"), "D"),
    seeds=SEEDS,
    ranking=("bank.queries_per_topic=1",),
    pairs=PAIRS,
    joint_after_scalar=True,
)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The tiny grid in this process; the folders that a training filled, in order."""
    folders: list[Path] = []
    train = jobs.run_training

    def counted(config: Any, callbacks: Any) -> Any:
        folders.append(Path(config.run_dir))
        return train(config, callbacks)

    monkeypatch.setattr(reproduce, "SCALES", {"tiny": GRID})
    monkeypatch.setattr(reproduce, "run_jobs", run_here)
    monkeypatch.setattr(jobs, "_quiet", lambda folder: None)
    monkeypatch.setattr(jobs, "run_training", counted)
    monkeypatch.setattr(tables, "RESAMPLES", 10)
    return folders


def test_six_tables_hold_the_runs_numbers_and_only_what_is_missing_is_trained(
    trained: list[Path], tmp_path: Path, capsys: Any
) -> None:
    command = ["scale=tiny", "--out", str(tmp_path)]
    out = tmp_path / "tiny"
    assert reproduce.main([*command, "--tables", *map(str, TABLES)]) == 0
    assert len(trained) == len(set(trained)) == 4 * len(SEEDS)
    check_accuracies(out)
    check_index(out, capsys.readouterr().out)
    check_claims(out)
    before = {path.name: path.read_bytes() for path in out.glob("[0-9]*.csv")}
    assert len(before) == len(TABLES)
    plan = make_plan(replace(GRID, tables=(1,)), (), out, SEEDS)
    start = next(job.start.parent for job in plan.jobs if job.start)
    shutil.rmtree(start / "model")
    trained.clear()
    assert reproduce.main([*command, "--tables", "1"]) == 0
    assert trained == [start], "those that start from it do so from the same weights"
    assert {path.name: path.read_bytes() for path in out.glob("[0-9]*.csv")} == before


def chosen() -> list[Any]:
    return [question for question in GRID.questions() if int(question.key[0]) in TABLES]


def check_accuracies(out: Path) -> None:
    """Every value of every seed against ``results.json`` of the run behind it, and cells against their seeds."""
    plan = make_plan(GRID, (), out, SEEDS)
    folders = {job.name: job.folder for job in plan.jobs}
    for question in chosen():
        made = pd.read_csv(out / f"{question.key}.csv", skiprows=1)
        seeds = made[[f"seed {seed}" for seed in SEEDS]]
        if question.rows[0].ranks:
            assert len(made) == 4 * len(PAIRS)
            continue
        assert len(made) == len(question.rows) * (8 if question.noised else 4)
        assert (made["mean"] - seeds.mean(axis=1)).abs().max() < 1e-12
        assert (made["low"] <= seeds.min(axis=1)).all() and (made["high"] >= seeds.max(axis=1)).all()
        for row in question.rows:
            for seed in SEEDS:
                folder = folders[plan.made_by[question.key, row.name, seed]]
                found = {}
                for reading in row.readings:
                    document = json.loads((folder / reading / "results.json").read_text(encoding="utf-8"))
                    found |= {r["suite"]: r["value"] for r in document["results"] if r["metric"] == "accuracy"}
                mine = made[made[question.head] == row.name].set_index("column")[f"seed {seed}"]
                # Table 3 is about one suite under every noise.
                assert mine.to_dict() == {k: v for k, v in found.items() if k.startswith("D") or not question.noised}


def check_claims(out: Path) -> None:
    """The difference of the claim about criteria is that of the two accuracies, which are of the same comparisons."""
    made = pd.read_csv(out / "1_judges.csv", skiprows=1).set_index(["judge", "column"])["mean"]
    table = pd.read_csv(out / "claims.csv", skiprows=1).set_index("claim")
    assert table.index.tolist() == ["criteria", "contradiction"]
    gaps = [made["late", suite] - made["late, criteria hidden", suite] for suite in ("D+", "D-")]
    assert table.loc["criteria", "measured"].startswith(f"difference {sum(gaps) / 2:z.3f}")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png") == 1 + len(TABLES) and "Which claims hold" in page


def test_a_verdict_follows_from_the_interval() -> None:
    assert claims.verdict(Cell(0.1, 0.05, 0.15, 9, {})) == "holds"
    assert claims.verdict(Cell(-0.01, -0.03, 0.02, 9, {})) == "does not hold: at most 0.020 better"
    assert claims.verdict(Cell(-0.1, -0.2, -0.01, 9, {})) == "does not hold: it is worse"
    assert claims.verdict(Cell(0.02, -0.05, 0.09, 9, {})).startswith("undecided: the interval holds 0")
    assert claims.verdict(Cell(0.0, 0.0, 0.0, 9, {})) == "does not hold: at most 0.000 better"
    for cell in (Cell(0.1, 0.05, 0.15, 9, {}), Cell(-0.1, -0.2, -0.01, 9, {})):
        assert claims.verdict(cell, "other heads") == "undecided: other heads", "either way"


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_has_rows_for_its_claims(name: str) -> None:
    scale = SCALES[name]
    rows = {
        (question.key, row.name, reading)
        for question in scale.questions()
        for row in question.rows
        for reading in row.readings
    }
    found = claims.claims_of(scale)
    assert {claim.better for claim in found} | {claim.worse for claim in found} <= rows
    assert len(found) == 5 - (len(scale.sizes) == 1)
    differs = {
        "demo": "head, loss.off_criteria_penalty, optimizer.lr, where the joint head starts",
        "real": "head, where the joint head starts",
    }
    (loss,) = (claim for claim in found if claim.name == "loss")
    assert loss.confounded == (f"the rows also differ in {differs[name]}" if name in differs else "")


def check_index(out: Path, shown: str) -> None:
    text = (out / "tables.md").read_text(encoding="utf-8")
    for key in (question.key for question in chosen()):
        title = paper.TITLES[key]
        assert f"## {title}" in text and paper.NUMBERS[key] in text
        table = (out / f"{key}.md").read_text(encoding="utf-8")
        assert table.strip() in text and "seeds 7; config scale=tiny; commit " in table
        assert f"{title}: " in shown.replace("\n", " ")
        measure = "Kendall's tau [95 % interval] (queries)" if key == "5_contradictory" else "accuracy [95 % interval]"
        assert f"_{title}: {measure}" in table
    assert text.count("Theirs: votes of LMArena") == text.count(f"Ours: {GRID.ours}") == len(TABLES)


def board(wins: dict[str, float], simulated: Any) -> Leaderboard:
    count = len(simulated.bank.queries)
    return Leaderboard(outcomes({author: [logit] * count for author, logit in wins.items()}))


def test_agreement_is_tau_between_the_poles_and_against_the_truth() -> None:
    simulated = simulate_bank(seed=tables.BANK_SEED, queries_per_topic=1)
    authors = sorted(set(simulated.bank.authors) - {simulated.bank.baseline})
    rising = {author: 0.1 * place - 0.55 for place, author in enumerate(authors)}
    made = {
        seed: {"detail+": board(rising, simulated), "detail-": board({a: -v for a, v in rising.items()}, simulated)}
        for seed in (1, 2)
    }
    cells = tables.agreement("detail", made, simulated)
    assert tuple(cells) == tables.AGREEMENT
    assert cells["tau between the two"].seeds == pytest.approx({1: -1.0, 2: -1.0})
    one = made[1]["detail+"]
    truth = true_win_rates(simulated, ("Prefers detailed answers",))
    known = compare(one, truth, tables.BANK_SEED, tables.RESAMPLES)
    against = cells["first against truth"]
    assert (against.mean, against.low, against.high) == pytest.approx((known.mean, known.low, known.high))
    # Who wins for one taste loses for the other, so that both boards are equally near their own truths.
    assert cells["second against truth"].mean == pytest.approx(against.mean)
    assert cells["tau in truth"].mean == pytest.approx(-1.0) and cells["tau in truth"].seeds == {}
    assert tables.agreement("detail", made, None) == {tables.AGREEMENT[0]: cells["tau between the two"]}


def interval_of(mean: float, low: float, high: float, n: int = 100) -> Interval:
    return Interval(mean, 0.01, low, high, n, n)


def test_one_seed_keeps_its_own_limits() -> None:
    cell = over_seeds({42: interval_of(0.9, 0.85, 0.93)})
    assert (cell.mean, cell.n, cell.seeds) == (0.9, 100, {42: 0.9})
    assert (cell.low, cell.high) == pytest.approx((0.85, 0.93))
    assert str(cell) == "0.900 [0.850, 0.930] (100)"


def test_seeds_that_differ_widen_it_by_students_t() -> None:
    values = (0.6, 0.7, 0.75)
    cell = over_seeds({seed: interval_of(value, value - 0.03, value + 0.02) for seed, value in enumerate(values)})
    low, high = stats.t.interval(0.95, 2, loc=0, scale=stats.sem(values))
    assert cell.mean == pytest.approx(sum(values) / 3)
    assert cell.mean - cell.low == pytest.approx(sqrt(0.03**2 + low**2))
    assert cell.high - cell.mean == pytest.approx(sqrt(0.02**2 + high**2))


def test_limits_stay_possible_and_an_unknown_one_stays_unknown() -> None:
    cell = over_seeds({1: interval_of(0.0, 0.0, 0.05, 90), 2: interval_of(1.0, 0.95, 1.0, 80)})
    assert (cell.low, cell.high, cell.n) == (0.0, 1.0, 80)
    tau = over_seeds({1: interval_of(-0.9, -1.0, -0.7), 2: interval_of(-0.5, -0.8, -0.2)}, lowest=-1.0)
    assert tau.low == -1.0 and tau.high > -0.2
    unknown = over_seeds({1: interval_of(0.5, float("nan"), float("nan")), 2: interval_of(0.6, 0.5, 0.7)})
    assert isnan(unknown.low) and isnan(unknown.high) and str(unknown) == "0.550 (100)"
    with pytest.raises(ValueError, match="seeds: none measured"):
        over_seeds({})


def test_a_grid_shows_what_was_measured_and_what_was_published() -> None:
    cells = {
        ("scalar", "D+"): Cell(0.9, 0.8, 0.95, 10, {1: 0.88, 2: 0.92}),
        ("coin", "D+"): Cell(0.5, 0.4, 0.6, 10, {1: 0.5}),
        ("coin", "D-"): Cell(0.5, 0.4, 0.6, 9, {1: 0.5}),
    }
    grid = Grid("judge", ("scalar", "coin"), ("D+", "D-"), cells, {"scalar": "97 %", "coin": ""})
    assert grid.frame().to_dict("list") == {
        "judge": ["scalar", "coin"],
        "D+": ["0.900 [0.800, 0.950] (10)", "0.500 [0.400, 0.600] (10)"],
        "D-": ["–", "0.500 [0.400, 0.600] (9)"],
        "paper": ["97 %", "–"],
    }
    assert "paper" not in Grid("judge", ("coin",), ("D+",), cells, {"coin": ""}).frame()
    long = grid.long().set_index(["judge", "column"])
    assert list(long.columns) == ["mean", "low", "high", "n", "seed 1", "seed 2"]
    assert list(long.loc[("scalar", "D+")]) == [0.9, 0.8, 0.95, 10, 0.88, 0.92]
    assert isnan(long.loc[("coin", "D-"), "seed 2"])
