"""Plans of every scale: runs that mean the same are one, every row is made, and all of it composes."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.simulation.lexicon import TRAIN_AXES, pole_of
from experiments.jobs import Job
from experiments.paper_tables import paper
from experiments.paper_tables.__main__ import main
from experiments.paper_tables.plan import Plan, contradictory, make_plan, run_name
from experiments.paper_tables.scales import HEADS, SCALES

pytestmark = pytest.mark.slow

DISTINCT = {
    # Heads and the blind model 4, noises 3, directions 3; a second size of two losses 2.
    "demo": {"trained": (4 + 3 + 3 + 2) * 3, "controls": 3 * 3},
    # The same without a second size, with one seed.
    "real": {"trained": 4 + 3 + 3, "controls": 2},
    # Four sizes of two losses, of which 4B are heads already; direction=random is the centre's own.
    "paper": {"trained": 4 + 3 + 3 + 6, "controls": 2},
}


@pytest.fixture(scope="module", params=list(SCALES))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Plan]:
    scale = SCALES[request.param]
    return request.param, make_plan(scale, (), tmp_path_factory.mktemp(request.param), scale.seeds)


def test_each_run_is_planned_once(made: tuple[str, Plan]) -> None:
    name, plan = made
    trained = [job for job in plan.jobs if job.overrides is not None]
    assert {"trained": len(trained), "controls": len(plan.jobs) - len(trained)} == DISTINCT[name]
    assert len({job.folder for job in plan.jobs}) == len({job.name for job in plan.jobs}) == len(plan.jobs)
    assert {job.name for job in plan.jobs} == set(plan.made_by.values())


def test_every_row_of_every_table_has_a_run_a_seed_and_a_data_set(made: tuple[str, Plan]) -> None:
    name, plan = made
    scale = SCALES[name]
    questions = scale.questions()
    assert [question.key for question in questions] == list(paper.TITLES) == list(paper.NUMBERS)
    for question in questions:
        for row in question.rows:
            data = [scale.ranked_on] if row.ranks else list(scale.data)
            wanted = {(question.key, row.name, place, seed) for place in data for seed in scale.seeds}
            assert wanted <= plan.made_by.keys()


def test_tables_share_the_centre_and_vary_something(made: tuple[str, Plan]) -> None:
    name, plan = made
    scale = SCALES[name]
    data, seed = next(iter(scale.data)), scale.seeds[0]
    centre = plan.made_by["1_judges", scale.centre, data, seed]
    assert plan.made_by["3_noise", "none", data, seed] == centre
    assert centre in {job for place, job in plan.made_by.items() if place[0] == "4_direction"}
    assert centre == plan.made_by["1_judges", f"{scale.centre}, criteria hidden", data, seed]
    assert plan.made_by["5_contradictory", "centre", scale.ranked_on, seed] in plan.made_by.values()
    for key in ("2_loss_and_size", "3_noise", "4_direction"):
        jobs = [job for place, job in plan.made_by.items() if place[0] == key and place[2:] == (data, seed)]
        assert len(set(jobs)) == len(jobs), f"{key} varies nothing"


def test_training_and_suites_see_the_same_data(made: tuple[str, Plan]) -> None:
    _, plan = made
    for job in plan.jobs[:: max(1, len(plan.jobs) // 3)]:
        for words in list(job.evaluations.values())[:1]:
            read = compose("evaluate", ["checkpoint=x", *words], Path("run"))
            if job.overrides is not None:
                assert read.data == compose("train", job.overrides, Path("run")).data
                assert read.judge.name == "crm"


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    folder = tmp_path_factory.mktemp("two_seeds")
    return folder, make_plan(SCALES["demo"], (), folder, (5, 6))


def by_name(plan: Plan, *place: Any) -> Job:
    return next(job for job in plan.jobs if job.name == plan.made_by[place])


def test_joint_heads_of_the_demo_start_from_the_scalar_run_of_their_seed_and_size(
    two_seeds: tuple[Path, Plan], tmp_path: Path
) -> None:
    _, plan = two_seeds
    for row, start in (("pairwise", "scalar"), ("pairwise_span", "scalar")):
        job = by_name(plan, "1_judges", row, "", 6)
        assert job.start == by_name(plan, "1_judges", start, "", 6).folder / "model"
    small = by_name(plan, "2_loss_and_size", "cls, hidden 64", "", 5)
    assert small.start == by_name(plan, "2_loss_and_size", "ranking, hidden 64", "", 5).folder / "model"
    first, second = plan.stages()
    assert {job.start.parent for job in second if job.start} <= {job.folder for job in first}
    assert not [job for job in first if job.start] and len(first) + len(second) == len(plan.jobs)
    assert len(make_plan(SCALES["paper"], (), tmp_path, (5,)).stages()) == 1


def test_joint_heads_of_the_real_scale_read_the_criteria_first_and_start_from_a_model_that_has_them_last(
    tmp_path: Path,
) -> None:
    plan = make_plan(SCALES["real"], (), tmp_path, (5,))
    trained = {job.folder: (job, compose("train", job.overrides, tmp_path)) for job in plan.jobs if job.overrides}
    orders = {(config.head.name, config.prompt.order) for _, config in trained.values()}
    joint = [(job.start, config) for job, config in trained.values() if job.start]
    assert orders == {("scalar", "criteria_last"), ("pairwise_span", "criteria_first"), ("pairwise", "criteria_first")}
    assert len(joint) == 2
    for start, config in joint:
        before = trained[start.parent][1]
        assert (before.head.name, before.noise.kind, before.data) == ("scalar", "none", config.data)


def test_the_blind_are_evaluated_blind_and_controls_name_their_judge(two_seeds: tuple[Path, Plan]) -> None:
    tmp_path, plan = two_seeds
    trained = by_name(plan, "1_judges", "scalar, trained blind", "", 5)
    config = compose("train", trained.overrides or (), tmp_path)
    assert (config.criteria, config.direction.kind, config.head.name) == ("none", "original", "scalar")
    assert list(trained.evaluations) == ["blind"]
    centre = by_name(plan, "1_judges", "scalar", "", 5)
    assert set(centre.evaluations) == {"clean", "noised", "blind", "per_character"}
    assert centre.leaderboards == contradictory() and len(plan.jobs) == 2 * (12 + 3)
    modes = {key: compose("evaluate", ["checkpoint=x", *words], tmp_path) for key, words in centre.evaluations.items()}
    assert {key: mode.criteria for key, mode in modes.items()} == {**dict.fromkeys(modes, "own"), "blind": "none"}
    assert modes["per_character"].criteria_rendering == "per_character"
    assert modes["noised"].suite.names == ["D+_add", "D-_add", "D+_remove", "D-_remove", "D+_replace", "D-_replace"]
    assert modes["clean"].suite.names == ["D+", "D-", "T+", "T-", "C+", "C-"]
    for judge in ("length", "coin", "oracle"):
        control = by_name(plan, "1_judges", judge, "", 5)
        read = compose("evaluate", control.evaluations["clean"], tmp_path)
        assert control.overrides is None and (read.judge.name, read.seed) == (judge, 5)


def test_pairs_of_criteria_are_the_two_poles_of_an_axis_that_models_train_on() -> None:
    criteria = contradictory()
    assert criteria["detail+"] == ("Prefers detailed answers",)
    assert criteria["detail-"] == ("Prefers concise answers",)
    poles = {key: pole_of(texts[0]) for key, texts in criteria.items()}
    assert poles == {key: (key[:-1], 1 if key.endswith("+") else -1) for key in criteria}
    assert len(criteria) >= 10 and {key[:-1] for key in criteria} <= set(TRAIN_AXES)


def test_overrides_reach_every_run_and_a_later_word_wins(tmp_path: Path) -> None:
    scale = replace(SCALES["demo"], controls=("coin",), tables=(3,))
    plan = make_plan(scale, ("data.train=48", "data.train=32"), tmp_path, (3,))
    for job in (plan.jobs[0], by_name(plan, "3_noise", "add", "", 3)):
        assert compose("train", job.overrides or (), tmp_path).data.train == 32
        assert compose("evaluate", ["checkpoint=x", *next(iter(job.evaluations.values()))], tmp_path).data.train == 32
    same = make_plan(scale, ("data.train=32",), tmp_path, (3,))
    runs = {job.folder for job in plan.jobs if job.overrides}
    assert runs == {job.folder for job in same.jobs if job.overrides}
    assert runs.isdisjoint(job.folder for job in make_plan(scale, (), tmp_path, (3,)).jobs)
    assert run_name(HEADS["scalar"], 3) == run_name(("loss=ranking", "head=scalar"), 3) != run_name(HEADS["scalar"], 4)


def test_a_dry_run_lists_each_run_and_trains_nothing(capsys: Any, tmp_path: Path) -> None:
    scale = "real"  # the one with commands that come first
    assert main(["--dry-run", "--out", str(tmp_path), f"scale={scale}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line for line in lines if line.startswith("first: ")]
    assert first == [f"first: {command}" for command in SCALES[scale].first]
    runs = [line.partition(": ") for line in lines[len(first) :]]
    assert len({folder for folder, _, _ in runs}) == len(runs) == sum(DISTINCT[scale].values())
    for place, (_, _, command) in enumerate(runs):
        python, script, *words = shlex.split(command)
        assert (python, script) in (("python", "train.py"), ("python", "evaluate.py"))
        if place % 5 == 0:
            compose(script.removesuffix(".py"), words, tmp_path)
    assert not list(tmp_path.iterdir())


def test_mistakes_are_one_sentence(capsys: Any) -> None:
    assert main(["scale=huge"]) == 2
    assert capsys.readouterr().err == "experiments.paper_tables: scale=huge: expected one of demo, real, paper\n"
    assert main(["loss.ties=soft"]) == 2
    assert "loss.ties=soft: the tables vary loss; leave it out" in capsys.readouterr().err
    assert main(["seed=3"]) == 2
    assert "seed=3: the tables vary seed; seeds are given with --seeds" in capsys.readouterr().err


def test_chosen_tables_plan_only_their_runs_and_the_same_folders(two_seeds: tuple[Path, Plan]) -> None:
    folder, whole = two_seeds
    part = make_plan(replace(SCALES["demo"], tables=(2, 5)), (), folder, (5, 6))
    assert {key[0] for key, *_ in part.made_by} == {"2", "5"}
    assert {job.folder for job in part.jobs} < {job.folder for job in whole.jobs}
    assert {job.start.parent for job in part.jobs if job.start} <= {job.folder for job in part.jobs}


def test_tables_can_be_chosen_on_the_command_line(capsys: Any, tmp_path: Path) -> None:
    assert main(["--dry-run", "--out", str(tmp_path), "--tables", "6", "--seeds", "7"]) == 0
    assert capsys.readouterr().out.count("train.py") == 1
    with pytest.raises(SystemExit):
        main(["--tables", "7"])
    assert "invalid choice: 7" in capsys.readouterr().err
