"""Plans of every scale: runs that mean the same are one, every row is made, and all of it composes."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from experiments.jobs import Job
from experiments.paper_tables import paper
from experiments.paper_tables.__main__ import main
from experiments.paper_tables.plan import Plan, contradictory, make_plan
from experiments.paper_tables.scales import SCALES

DISTINCT = {
    # Heads 4, noises 3, directions 2, a second size 1.
    "demo": {"trained": (4 + 3 + 2 + 1) * 3, "controls": 3 * 3},
    # Heads and the blind model 4, one direction more, no second size, one seed.
    "real": {"trained": 4 + 3 + 3, "controls": 2},
    # Four sizes of two losses, of which 4B are heads already; direction=random is the centre's own.
    "paper": {"trained": 4 + 3 + 3 + 6, "controls": 2},
}


@pytest.fixture(scope="module", params=["demo", "paper"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Plan]:
    scale = SCALES[request.param]
    return request.param, make_plan(scale, (), tmp_path_factory.mktemp(request.param), scale.seeds)


def test_each_run_is_planned_once(made: tuple[str, Plan]) -> None:
    name, plan = made
    trained = [job for job in plan.jobs if job.overrides is not None]
    assert {"trained": len(trained), "controls": len(plan.jobs) - len(trained)} == DISTINCT[name]
    assert len({job.folder for job in plan.jobs}) == len({job.name for job in plan.jobs}) == len(plan.jobs)
    assert {job.name for job in plan.jobs} == set(plan.made_by.values())


def test_every_row_of_every_table_has_a_run_a_seed(made: tuple[str, Plan]) -> None:
    name, plan = made
    scale = SCALES[name]
    questions = scale.questions()
    assert [question.key for question in questions] == list(paper.TITLES) == list(paper.NUMBERS)
    for question in questions:
        for row in question.rows:
            assert {(question.key, row.name, seed) for seed in scale.seeds} <= plan.made_by.keys()


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("two_seeds")
    return folder, make_plan(SCALES["demo"], (), folder, (5, 6))


def by_name(plan: Plan, *place: Any) -> Job:
    return next(job for job in plan.jobs if job.name == plan.made_by[place])


@pytest.mark.parametrize("scale", ["demo", "real"])
def test_joint_heads_start_from_the_scalar_run_of_their_seed(scale: str, tmp_path: Path) -> None:
    plan = make_plan(SCALES[scale], (), tmp_path, (5, 6))
    for row in ("pairwise", "pairwise_span"):
        job = by_name(plan, "1_judges", row, 6)
        assert job.start == by_name(plan, "1_judges", "scalar", 6).folder / "model"
    first, second = plan.stages()
    assert {job.start.parent for job in second if job.start} <= {job.folder for job in first}
    assert not [job for job in first if job.start] and len(first) + len(second) == len(plan.jobs)
    assert len(make_plan(SCALES["paper"], (), tmp_path, (5,)).stages()) == 1
    alone = make_plan(replace(SCALES[scale], tables=(2,)), (), tmp_path, (5,))
    first, second = alone.stages()
    assert {job.start.parent for job in second if job.start} <= {job.folder for job in first}, "one table alone"


def test_the_blind_are_evaluated_blind_and_controls_name_their_judge(two_seeds: tuple[Path, Plan]) -> None:
    tmp_path, plan = two_seeds
    real = make_plan(SCALES["real"], (), tmp_path, (5,))
    trained = by_name(real, "1_judges", "scalar, trained blind", 5)
    config = compose("train", trained.overrides or (), tmp_path)
    assert (config.criteria, config.direction.kind, config.head.name) == ("none", "original", "scalar")
    assert list(trained.evaluations) == ["blind"]
    centre = by_name(plan, "1_judges", "late", 5)
    assert set(centre.evaluations) == {"clean", "noised", "blind"}
    assert centre.leaderboards == contradictory() and len(plan.jobs) == 2 * (10 + 3)
    modes = {key: compose("evaluate", ["checkpoint=x", *words], tmp_path) for key, words in centre.evaluations.items()}
    assert {key: mode.criteria for key, mode in modes.items()} == {**dict.fromkeys(modes, "own"), "blind": "none"}
    assert modes["noised"].suite == ["D+_add", "D-_add", "D+_remove", "D-_remove", "D+_replace", "D-_replace"]
    assert modes["clean"].suite == ["D+", "D-", "T+", "T-", "C+", "C-"]
    for judge in ("length", "coin", "oracle"):
        control = by_name(plan, "1_judges", judge, 5)
        read = compose("evaluate", control.evaluations["clean"], tmp_path)
        assert control.overrides is None and (read.judge.name, read.seed) == (judge, 5)


def test_a_dry_run_lists_each_run_and_trains_nothing(capsys: Any, tmp_path: Path) -> None:
    scale = "real"  # the one with commands that come first
    assert main(["--dry-run", "--workers", "2", "--out", str(tmp_path), f"scale={scale}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line for line in lines if line.startswith("first: ")]
    assert first == [f"first: {command}" for command in SCALES[scale].first]
    assert lines.pop() == "10 trainings: about 40 minutes, 2 at a time"
    runs = [shlex.split(line) for line in lines[len(first) :]]
    assert len({words[-1] for words in runs}) == len(runs) == sum(DISTINCT[scale].values())
    for place, (python, script, *words) in enumerate(runs):
        assert (python, script) in (("python", "train.py"), ("python", "evaluate.py"))
        assert words[-1].startswith(f"hydra.run.dir={tmp_path / scale}/")
        if place % 5 == 0:
            compose(script.removesuffix(".py"), words[:-1], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_dry_run_of_the_papers_scale_has_the_hours_of_every_training(capsys: Any, tmp_path: Path) -> None:
    assert main(["--dry-run", "--out", str(tmp_path), "scale=paper", "--tables", "2"]) == 0
    shown = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines() if line.startswith("| ")]
    hours = {row[0]: float(row[4]) for row in rows[1:]}
    assert len(hours) == 8 + 1 and hours.pop("all") == pytest.approx(sum(hours.values()), abs=0.05 * 9)
    assert "8B: 10,200 tokens/s" in shown and "9,714 votes" in shown


def test_mistakes_are_one_sentence(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["scale=paper"]) == 2
    shown = capsys.readouterr().err
    assert "datasets/arena_55k" in shown and "; run first: python prepare.py" in shown and "fetch=alpacaeval" in shown
    assert main(["scale=paper", "--tables", "5", "data.path=mine"]) == 2
    assert "mine" in capsys.readouterr().err
    assert main(["scale=paper", "data.validation=-1"]) == 2
    assert "run first" not in capsys.readouterr().err
    for words in (["scale=paper", "model=qwen3_0_6b"], ["model.hidden_size=64"]):
        assert main(words) == 2
        assert f"{words[-1]}: table 2 varies the size; leave it out, or add --tables 1 3 4 5" in capsys.readouterr().err
    assert main(["scale=paper", "model=qwen3_0_6b", "--dry-run", "--tables", "4"]) == 0
    assert main(["dry_run=true"]) == 2
    assert capsys.readouterr().err == "experiments.paper_tables: dry_run: no such setting\n"
    assert main(["seed=3"]) == 2
    assert "seed=3: the tables vary seed; seeds are given with --seeds" in capsys.readouterr().err
