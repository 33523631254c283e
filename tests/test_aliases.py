"""Names of TRL, Hugging Face and Lightning: each is understood, or answered with the right one."""

from __future__ import annotations

from pathlib import Path

import pytest

from crm.cli.aliases import ANSWERS, SAME, rewrite_aliases
from crm.cli.mistakes import taken_groups
from crm.config import compose, schemas, setting_names

KNOWN = [*setting_names(schemas()["train"]), *taken_groups("train")]


def understood(*words: str, command: str = "train") -> list[str]:
    known = [*setting_names(schemas()[command]), *taken_groups(command)]
    return rewrite_aliases(words, known, f"crm-{command}")


@pytest.mark.parametrize("name", sorted(SAME))
def test_every_alias_names_a_setting_that_is_there(name: str) -> None:
    assert SAME[name] in KNOWN or SAME[name] == "hydra.run.dir"
    assert name not in KNOWN, "a setting of our own needs no alias"


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_every_other_name_is_answered(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: no such setting; "):
        understood(f"{name}=1")


def test_a_command_line_of_another_library_composes_as_it_was_meant() -> None:
    typed = "learning_rate=2e-5 num_train_epochs=2 eval_steps=7 max_length=300 lora_r=4 precision=bf16 dataset=trl"
    words = understood(*typed.split(), "model_name_or_path=a/b", "max_grad_norm=0.5", "data.path=x")
    config = compose("train", words, Path("run"))
    assert (config.optimizer.lr, config.schedule.epochs, config.schedule.validate_every) == (2e-5, 2, 7)
    assert (config.model.path, config.model.max_length, config.model.lora_rank) == ("a/b", 300, 4)
    assert (config.trainer.precision, config.optimizer.clip, config.data.name) == ("bf16-mixed", 0.5, "trl")
    assert (config.optimizer.name, config.schedule.name) == ("adamw", "paper")


def test_a_command_keeps_the_names_that_are_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("devices=2", "precision=32-true", "batch_size=4", "checkpoint=x")
    assert understood(*words, command="evaluate") == list(words)
    assert capsys.readouterr().err == ""
    assert understood("lr=1e-3") == ["optimizer.lr=1e-3"]
    assert capsys.readouterr().err == "crm-train: lr=1e-3 is read as optimizer.lr=1e-3\n"


def test_a_hub_id_or_a_folder_is_a_pretrained_model(tmp_path: Path) -> None:
    for path in ("Qwen/Qwen3-4B", str(tmp_path)):
        words = understood(f"model={path}", "data=simulation")
        assert words == ["model=pretrained", f'model.path="{path}"', "data=simulation"]
        assert compose("train", words, Path("run")).model.path == path
    assert understood("model.path=a/b") == ["model=pretrained", "model.path=a/b"]
    assert understood("model=tiny", "model.path=a/b") == ["model=tiny", "model.path=a/b"]
    assert understood("model=qwen3_4b", "-p", "model") == ["model=qwen3_4b", "-p", "model"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [("suite=D+", ["D+"]), ("suite=D+,D-_add", ["D+", "D-_add"]), ("suite=[C_axes+,D-]", ["C_axes+", "D-"])],
)
def test_suites_by_their_names(typed: str, names: list[str]) -> None:
    assert (
        compose("evaluate", ["judge=length", *understood(typed, command="evaluate")], Path("run")).suite.names == names
    )
    assert understood("suite=all", command="evaluate") == ["suite=all"]
