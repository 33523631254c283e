"""``data=<path>`` on a command line, as Hydra reads what it becomes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from crm.cli.words import rewrite


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("pairs.jsonl", "b.csv", "plain"):
        (tmp_path / name).touch()
    return tmp_path


def read(words: list[str]) -> dict[str, object]:
    """Name to value, as Hydra's own parser takes the rewritten words."""
    settings = [word for word in rewrite(words) if not word.startswith("-")]
    return {each.key_or_group: each.value() for each in OverridesParser.create().parse_overrides(settings)}


@pytest.mark.parametrize(
    "path", ["pairs.jsonl", "./pairs.jsonl", "plain", ".", "hf://owner/name@v2", "hf://owner/name/config:train"]
)
def test_what_exists_or_is_of_a_hub_becomes_the_path_of_a_file(path: str) -> None:
    assert read(["seed=1", f"data={path}"]) == {"seed": 1, "data": "file", "data.path": path}


@pytest.mark.parametrize(
    "name", ['it\'s "mine", a=b {c} [d].jsonl', "a, b.json", "two words.csv.gz", "x\\.tsv", "ü.parquet"]
)
def test_any_name_comes_through_quoted(name: str, here: Path) -> None:
    (here / name).touch()
    assert read([f"data={name}"]) == {"data": "file", "data.path": name}


@pytest.mark.parametrize(
    "word", ["data=trl", "data=summeval", "data.path=x/y.jsonl", "data=nosuch", "data=", "data=[a,b]"]
)
def test_options_and_everything_else_stay(word: str, here: Path) -> None:
    (here / "summeval").mkdir()
    assert rewrite([word]) == [word]


def test_an_option_of_a_folder_of_settings_stays(here: Path) -> None:
    (here / "mine" / "data").mkdir(parents=True)
    (here / "mine" / "data" / "plain.yaml").touch()
    for words in (
        ["--config-dir=mine", "data=plain"],
        ["--config-dir", "mine", "data=plain"],
        ["data=plain", "-cd", "mine"],
    ):
        assert rewrite(words) == words


@pytest.mark.parametrize("path", ["nosuch.jsonl", "votes/", "nosuch.csv.gz", "no/where", "nosuch.PARQUET"])
def test_a_path_that_is_not_there_is_named(path: str, here: Path) -> None:
    with pytest.raises(ValueError) as error:
        rewrite([f"data={path}"])
    assert str(error.value) == f"data={path}: no such file or folder in {here}; check the path"


def test_a_home_folder_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert read(["data=~/pairs.jsonl"])["data.path"] == str(here / "pairs.jsonl")


def test_a_sweep_has_a_job_for_each_path() -> None:
    words = rewrite(["-m", "data=pairs.jsonl,b.csv"])
    assert words == ["-m", "data=file", "data.path=pairs.jsonl,b.csv"]
    swept = OverridesParser.create().parse_overrides(words[1:])[1]
    assert swept.is_sweep_override() and list(swept.sweep_string_iterator()) == ["pairs.jsonl", "b.csv"]
    with pytest.raises(ValueError, match=r"pairs.jsonl is a path and trl an option; sweep over one kind at a time"):
        rewrite(["-m", "data=trl,pairs.jsonl"])
    with pytest.raises(ValueError, match=r"data=pairs.jsonl,c.csv: no such file or folder in .*"):
        rewrite(["-m", "data=pairs.jsonl,c.csv"])
    assert rewrite(["-m", "data=trl,arena"]) == ["-m", "data=trl,arena"]


def test_a_path_twice_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"data=b.csv data.path=pairs.jsonl: both name the data; leave one of them out"
    ):
        rewrite(["data=b.csv", "data.path=pairs.jsonl"])
