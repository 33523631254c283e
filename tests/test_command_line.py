"""Words of a command line: files, names of other libraries, ranks of a launcher, help; how a sweep or Ctrl-C ends."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from crm import __version__, cli
from crm.cli.mistakes import undashed
from crm.cli.words import ANSWERS, SAME, rewrite, rewrite_aliases, rewrite_all, rewrite_launched
from crm.config import (
    ENTRY_POINTS,
    compose,
    config_dir,
    group_names,
    option_names,
    schema,
    setting_names,
    taken_groups,
)
from tests.conftest import TINY_MODEL, Command

ROOT = Path(__file__).resolve().parents[1]
TINY = ("trainer=cpu", "schedule.max_steps=2", "data.train=24", "data.validation=8", "data.suite=4", *TINY_MODEL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("pairs.jsonl", "b.csv", "plain"):
        (tmp_path / name).touch()
    return tmp_path


def parsed(words: list[str]) -> dict[str, object]:
    """Name to value, as Hydra's own parser takes the rewritten words."""
    return {each.key_or_group: each.value() for each in OverridesParser.create().parse_overrides(rewrite(words))}


def test_a_path_becomes_the_path_of_a_file_and_options_stay(here: Path) -> None:
    odd = ('it\'s "mine", a=b {c} [d].jsonl', "a, b.json", "two words.csv.gz", "x\\.tsv", "ü${x}.parquet")
    for path in (*odd, "dsp"):
        (here / path).touch()
    for path in ("pairs.jsonl", "./pairs.jsonl", "plain", ".", "hf://owner/name/config:train", *odd):
        found = parsed(["seed=1", f"data={path}"])
        assert found == {"seed": 1, "data": "file", "data.path": path.replace("$", "\\$")}
    assert parsed(["data=~/pairs.jsonl"])["data.path"] == str(here / "pairs.jsonl")
    for word in ("data=dsp", "data=simulation", "data.path=x/y.jsonl", "data=nosuch", "data=", "data=[a,b]"):
        assert rewrite([word]) == [word]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("data=votes/", "data=votes/: no such file or folder in {here}; check the path"),
        ("data=b.csv data.path=pairs.jsonl", "data=b.csv data.path=pairs.jsonl: both name the data"),
    ],
)
def test_a_sweep_has_a_job_for_each_path(wrong: str, message: str, here: Path) -> None:
    words = rewrite(["-m", "data=pairs.jsonl,b.csv"])
    assert words == ["-m", "data=file", 'data.path="pairs.jsonl","b.csv"']
    with pytest.raises(ValueError, match=re.escape(message.format(here=here))):
        rewrite(wrong.split())


def understood(*words: str, command: str = "train") -> list[str]:
    known = [*setting_names(schema(command)), *taken_groups(command)]
    return rewrite_aliases(words, known, f"crm-{command}")


def test_every_alias_names_a_setting_and_every_other_name_is_answered() -> None:
    known = [{*setting_names(schema(each)), *taken_groups(each), "hydra.run.dir"} for each in ENTRY_POINTS]
    for name, meaning in SAME.items():
        assert any(meaning in each for each in known) and not any({name, meaning} <= each for each in known), name
    for name in ANSWERS:
        with pytest.raises(ValueError, match=f"^{name}: no such setting; "):
            understood(f"{name}=1")


def test_a_command_line_of_another_library_composes_as_it_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    typed = "learning_rate=2e-5 num_train_epochs=2 eval_steps=7 max_length=300 lora_r=4 precision=bf16 dataset=dsp"
    words = understood(*typed.split(), "model_name_or_path=a/b", "max_grad_norm=0.5")
    config = compose("train", words, Path("run"))
    assert (config.optimizer.lr, config.schedule.epochs, config.schedule.validate_every) == (2e-5, 2, 7)
    assert (config.model.path, config.model.max_length, config.model.lora_rank) == ("a/b", 300, 4)
    assert (config.trainer.precision, config.optimizer.clip, config.data.name) == ("bf16-mixed", 0.5, "dsp")
    assert "learning_rate=2e-5 is read as optimizer.lr=2e-5\n" in capsys.readouterr().err
    own = ("devices=2", "precision=32-true", "batch_size=4", "checkpoint=x")
    assert understood(*own, command="evaluate") == list(own) and capsys.readouterr().err == ""
    for command in ("evaluate", "serve", "leaderboard", "best_of_n"):
        assert understood("model=a/b", "model_name_or_path=a/b", command=command) == ["checkpoint=a/b"] * 2


def test_settings_of_a_file_are_words_and_what_is_typed_wins(tmp_path: Path) -> None:
    config = compose("train", ["data=simulation", "optimizer.lr=0.5", "seed=7"], tmp_path / "old")
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)), encoding="utf-8")
    words = [f"config={tmp_path}", "lr=0.25", "model=a/b", "seed=8"]
    found = compose("train", rewrite_all(words, "train", "crm-train"), tmp_path / "new")
    assert (found.optimizer.lr, found.model.path, found.seed) == (0.25, "a/b", 8)
    assert (found.data, found.optimizer.name, found.run_dir) == (config.data, "muon", str(tmp_path / "new"))
    (tmp_path / "mine.yml").write_text("learning_rate: 0.25\nloss: cls\n", encoding="utf-8")
    words = rewrite_all([f"config={tmp_path / 'mine.yml'}", "data=simulation"], "train", "crm-train")
    found = compose("train", words, tmp_path)
    assert (found.optimizer.lr, found.loss.name, found.head.name) == (0.25, "cls", "pairwise")
    (tmp_path / "bank.json").touch()
    board = compose("leaderboard", rewrite_all(["judge=length", f"bank={tmp_path}"], "leaderboard", ""), tmp_path)
    assert (board.bank.name, board.bank.path) == ("folder", str(tmp_path))


def test_options_of_other_libraries_are_settings() -> None:
    typed = (
        "--learning_rate 3e-5 --dry-run --lora-r=4 --multirun --config-dir recipes --explain seed=1 -m data --model= x"
    )
    words = (
        "learning_rate=3e-5 dry_run=true lora_r=4 --multirun --config-dir recipes explain=true seed=1 -m data model= x"
    )
    assert undashed(typed.split()) == words.split()


def test_a_hub_id_or_a_run_is_a_pretrained_model_and_suites_have_names(tmp_path: Path) -> None:
    assert understood("model=Qwen/Qwen3-4B") == ["model=pretrained", 'model.path="Qwen/Qwen3-4B"']
    for word, pretrained in (("model=tiny", 0), ("experiment=paper", 0), ("experiment=without_criteria", 1)):
        assert understood(word, "model.path=a/b") == [word, *["model=pretrained"] * pretrained, "model.path=a/b"]
    config = compose("train", ["data=simulation", *understood("model=~/b")], Path("o'brien"))
    assert (config.model.path, config.run_dir) == (str(Path("~/b").expanduser()), "o'brien")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/crm.json").touch()
    assert (
        compose("train", ["data=simulation", *understood(f"model={tmp_path}")], tmp_path).model.path
        == f"{tmp_path}/model"
    )
    words = ["judge=length", *understood("suite=D+,D-_add", command="evaluate")]
    assert compose("evaluate", words, Path("run")).suite == ["D+", "D-_add"]
    assert understood("suite=all", command="evaluate") == ["suite=all"]


def torchrun(rank: int, **more: str) -> dict[str, str]:
    return {"TORCHELASTIC_RUN_ID": "none", "RANK": str(rank), "WORLD_SIZE": "2", **more}


def test_ranks_share_a_folder_and_the_first_writes_hydras_files() -> None:
    first, second = (rewrite_launched(["seed=1"], "train", torchrun(rank)) for rank in (0, 1))
    assert first == second[:2] and first[1].startswith("hydra.run.dir=outputs/train/")
    assert second[2:] == ["hydra.output_subdir=null", "hydra.job.name=train_1"]
    assert rewrite_launched(["hydra.run.dir=x"], "train", torchrun(0)) == ["hydra.run.dir=x"]
    with pytest.raises(ValueError, match=r"several machines need one, hydra\.run\.dir=runs/mine"):
        rewrite_launched([], "train", torchrun(0, GROUP_WORLD_SIZE="2"))
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "2"}
    assert rewrite_launched([], "train", slurm)[0] == "hydra.run.dir=outputs/train/slurm-77-2"
    for alone in ({}, {**slurm, "SLURM_NTASKS": "1"}, {**slurm, "SLURM_JOB_NAME": "interactive"}):
        assert rewrite_launched(["seed=1"], "train", alone) == ["seed=1"]


def train_as_rank(folder: Path) -> None:
    """In a forked process with the environment of torchrun."""
    os.chdir(folder)
    sys.argv = ["train.py", *TINY]
    cli.train()


@pytest.mark.slow
def test_torchrun_trains_as_everybody_writes_it(on_ranks: Callable[..., None], tmp_path: Path) -> None:
    on_ranks(2, train_as_rank, tmp_path)
    (folder,) = (tmp_path / "outputs/train").glob("*/*")
    assert (folder / "model/crm.json").is_file() and (folder / ".hydra/overrides.yaml").is_file()
    assert sorted(path.name for path in folder.glob("*.log")) == ["train.log", "train_1.log"]
    assert "2 x cpu (ddp)" in (folder / "train.log").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_the_groups_in_the_help_are_those_that_can_be_given(name: str) -> None:
    schema(name)
    taken = taken_groups(name)
    other = next(group for group in group_names() if group not in taken)
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        hydra_compose(name, overrides=[f"{group}={option_names(group)[0]}" for group in taken])
        with pytest.raises(HydraException, match=f"Could not override '{other}'"):
            hydra_compose(name, overrides=[f"{other}={option_names(other)[0]}"])


def test_help_shows_groups_and_the_settings_as_the_other_words_leave_them(command: Command, tmp_path: Path) -> None:
    code, shown, _ = command("train", "loss=ranking", "--help")
    groups, settings = shown.split("== Settings ==")
    listed = dict(re.findall(r"^(\w+): (.*)$", groups.split("== Groups ==")[1].replace("\n    ", " "), re.MULTILINE))
    assert listed == {group: ", ".join(option_names(group)) for group in taken_groups("train")}
    assert code == 0 and shown.startswith("crm-train: Train one customizable reward model, from votes to a folder")
    assert "loss:\n  name: ranking\n" in settings
    assert list(tmp_path.iterdir()) == [], "help leaves no run folder"
    for words in (["score", "model=x/y", "in=rows.jsonl", "--out=o.jsonl"], ["train", "data=absent.jsonl", "loss=cls"]):
        code, shown, error = command(*words, "--help")
        assert (code, error) == (0, "") and "== Settings ==" in shown, "a documented line can be asked about"
    recipe = tmp_path / "my recipes/experiment/mine.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text("# @package _global_\nseed: 5\n", encoding="utf-8")
    for asked in ("--cfg=job", "--help"):
        code, shown, error = command("train", "--config-dir", "my recipes", "experiment=mine", asked)
        assert (code, error) == (0, "") and "\nseed: 5\n" in shown, "a recipe of one's own"
    code, _, error = command("train", "los=ranking", "--help")
    assert code == 2 and "los" in error
    assert command("bank", "--version") == (0, f"crm {__version__}\n", "")


@pytest.mark.slow
def test_neither_import_nor_help_loads_what_only_a_run_needs() -> None:
    """Help of all commands, one after the other, so that it is quick."""
    heavy = ("torch", "transformers", "lightning", "pandas", "sklearn", "matplotlib", "datasets", "datasketch", "scipy")
    code = "import sys, crm; assert 'hydra' not in sys.modules; sys.argv = ['crm', '-h']; from crm import cli;"
    code += f"[getattr(cli, command)() for command in {tuple(ENTRY_POINTS)}];"
    code += f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert done.stdout.count("== Settings ==") == len(ENTRY_POINTS)


@pytest.mark.slow
def test_a_failing_job_is_named_and_the_others_go_on(command: Command, tmp_path: Path) -> None:
    words = ("-m", *TINY, "loss=cls", "loss.centre_scores=0.1,0", "trainer.progress=false", "hydra.sweep.dir=sweep")
    code, _, error = command("train", *words)
    assert code == 2 and "Traceback" not in error
    assert "loss.centre_scores=0.1: expected 0 with head=pairwise" in error
    assert "1 jobs of this sweep failed: 0" in error
    assert (tmp_path / "sweep/1/model/crm.json").is_file() and not (tmp_path / "sweep/0/model").exists()


@pytest.mark.slow
def test_a_sweep_that_is_repeated_trains_what_is_missing_and_nothing_else(command: Command, tmp_path: Path) -> None:
    words = ("-m", *TINY, "schedule.save_every=1", "trainer.progress=false", "hydra.sweep.dir=sweep")
    first, second = (tmp_path / "sweep" / job / "summary.json" for job in "01")
    assert command("train", *words, "seed=1")[0] == 0
    trained = first.read_bytes()
    assert command("train", *words, "seed=1,2")[0] == 0
    assert first.read_bytes() == trained and second.is_file()
    code, _, error = command("train", *words, "seed=1,3")
    assert code == 2 and "1 jobs of this sweep failed: 1" in error
    assert "a run with other settings is there: seed was 2, now 3. Give those of its config.yaml" in error
    second.unlink()  # as if it was interrupted after its last step
    assert command("train", *words, "seed=1,2")[0] == 0
    assert (first.read_bytes(), second.is_file()) == (trained, True)
    assert "goes on from its last checkpoint" in (second.parent / "train.log").read_text(encoding="utf-8")
    assert command("train", *words, "seed=1", "overwrite=true")[0] == 0
    assert first.read_bytes() != trained, "it says how long it took"


@pytest.mark.slow
def test_a_command_that_is_stopped_while_it_loads_says_so(tmp_path: Path) -> None:
    """Python prints what it has imported, so that the moment of the signal is always the same."""
    # A shell that starts us in the background has its children ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process: Any = subprocess.Popen(
        [sys.executable, "-X", "importtime", ROOT / "train.py", "hydra.run.dir=run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    for line in process.stderr:
        if line.split()[-1] == "antlr4.Token":
            break
    process.send_signal(signal.SIGINT)
    shown = [line for line in process.stderr if not line.startswith("import time:")]
    assert process.wait(60) == 130
    assert len(shown) == 1 and shown[0].startswith("crm-train: stopped")
