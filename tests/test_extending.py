"""docs/extending.md: its package, installed as pip would, adds a head, a judge, a source, a suite and a bank."""

import json
import re
import sys
from pathlib import Path

import pytest

from crm.config import compose
from crm.model.heads import head_named
from crm.schema import Comparison, Message
from tests.conftest import TINY_MODEL

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
TINY = (
    *(*TINY_MODEL, "schedule.epochs=1", "schedule.comparisons_per_step=4", "schedule.validate_every=0"),
    *("trainer.progress=false", "trainer.precision=32-true"),
)


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of the page, with the metadata that an installation leaves."""
    site = tmp_path / "site"
    (site / "my_taste").mkdir(parents=True)
    (site / "my_taste" / "__init__.py").touch()
    for name, code in re.findall(r"^```python\n# (my_taste/\w+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        (site / name).write_text(code, encoding="utf-8")
    (project,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    lines = []
    groups = re.findall(r'^\[project\.entry-points\."([\w.]+)"\]\n((?:\w+ = .*\n)+)', project, re.MULTILINE)
    for group, points in groups:
        lines += [f"[{group}]", points.replace('"', "")]
    info = site / "my_taste-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-taste\nVersion: 0.1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(str(site))
    yield site
    head_named.cache_clear()
    for module in [name for name in sys.modules if name.startswith("my_taste")]:
        del sys.modules[module]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """Sixty votes under sixty prompts, half of them about work; the liked response has fewer commas."""
    path = tmp_path / "diary.jsonl"
    rows = [
        {
            "id": str(number),
            "ask": " ".join(f"{word}{number}" for word in ("why", "is", "the", "sea", "so", "salt")),
            "liked": f"short {number}",
            "other": f"long, longer, longest {number}",
            "because": "Prefers plain words",
            "kind": "work" if number % 2 else "home",
        }
        for number in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_judge_a_source_and_a_suite_of_another_package_are_evaluated(diary: Path, tmp_path: Path) -> None:
    from crm.evaluation.run import run_evaluation

    words = ["judge.name=few_commas", "judge.options={weight: 2}", "data.name=diary", f"data.path={diary}"]
    words += ["data.test_fraction=0.4", f"predictions={tmp_path / 'predictions'}", "progress=false"]
    results = run_evaluation(compose("evaluate", words, tmp_path / "run"), show=False)
    assert {result.suite for result in results} == {"D+", "W+"}  # only one side of the diary has criteria
    assert {result.value for result in results if result.metric == "accuracy"} == {1.0}


def test_a_bank_of_another_package_is_ranked(tmp_path: Path) -> None:
    from crm.leaderboard.run import run_leaderboard

    words = ["bank.name=two_poets", "judge.name=few_commas", f"predictions={tmp_path / 'p'}", "progress=false"]
    board = run_leaderboard(compose("leaderboard", words, tmp_path / "run"), show=False)
    assert board.win_rates()["Ornate"] == pytest.approx(1 / (1 + 2.718281828459045**4))  # four commas more


@pytest.mark.slow
def test_a_head_of_another_package_is_trained_exported_and_read(diary: Path, tmp_path: Path) -> None:
    from crm.judges.crm_judge import open_checkpoint
    from crm.training.train import run_training

    words = ["head.name=bounded", "loss=ranking", "data.name=diary", f"data.path={diary}", *TINY]
    run_training(compose("train", words, tmp_path / "run"))
    judge, manifest = open_checkpoint(tmp_path / "run" / "model", batch_size=4, precision="32-true")
    assert manifest["head"] == "bounded"
    answers = (Message("assistant", "a, b, c"),), (Message("assistant", "a"),)
    row = Comparison("1", "1", ("Short",), (Message("user", "Say a"),), *answers, "b", "original", "none", "c")
    (reading,) = [reading for portion in judge.read([(row, "ab")]) for reading in portion]
    assert reading.preference_logit == pytest.approx(reading.score_a - reading.score_b)
    assert -5 < reading.score_a < 5
    judge.model.score.weight.data *= 1e4  # the bound holds whatever the layer says
    (reading,) = [reading for portion in judge.read([(row, "ab")]) for reading in portion]
    assert {round(abs(reading.score_a), 3), round(abs(reading.score_b), 3)} == {5.0}


@pytest.mark.parametrize(
    ("command", "word", "names"),
    [
        ("train", "head.name=unknown", "scalar, late, pairwise, pairwise_span, bounded; .*see docs/extending.md"),
        ("evaluate", "judge.name=unknown", "few_commas"),
        ("evaluate", "data.name=unknown", "diary"),
        ("leaderboard", "bank.name=unknown", "two_poets"),
    ],
)
def test_an_unknown_name_lists_what_is_installed(command: str, word: str, names: str, tmp_path: Path) -> None:
    words = [word] if command == "train" or word.startswith("judge") else [word, "judge.name=coin"]
    with pytest.raises(ValueError, match=rf"{word.split('=')[0]}='unknown': expected one of .*{names}"):
        compose(command, words, tmp_path)
