"""``prepare.py fetch=<set>``: pins of the owners' own files, checked against a copy of them where there is one."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from crm.config import compose, config_dir
from crm.data.catalogue import PUBLIC
from crm.data.public.banks import FOLDERS
from crm.io.intake import Intake
from crm.prepare.run import run_prepare

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[4] / "shared" / "data"))
BY_HAND = ("summeval", "summeval_aspects")
SETS = sorted(path.stem for path in (config_dir() / "fetch").glob("*.yaml"))
FETCHED = [name for name in SETS if name not in (*BY_HAND, *FOLDERS)]


def test_there_is_an_option_for_every_public_set_and_bank() -> None:
    assert set(SETS) == {*PUBLIC, *FOLDERS, "summeval_aspects"}


@pytest.mark.parametrize("name", FETCHED)
def test_files_are_those_of_one_commit_and_licences_are_the_catalogues(name: str) -> None:
    composed: Any = OmegaConf.create({"fetch": OmegaConf.load(config_dir() / "fetch" / f"{name}.yaml")})
    for parent in composed.fetch.pop("defaults", []):
        if isinstance(parent, str) and parent != "_self_":
            composed.fetch = OmegaConf.merge(OmegaConf.load(config_dir() / "fetch" / f"{parent}.yaml"), composed.fetch)
    fetch = composed.fetch
    assert fetch.name == name and fetch.get("licence", "") == (PUBLIC[name].license or "")
    repository, commit = PUBLIC[name].origin.split(" ")
    assert re.fullmatch(rf"https://raw\.githubusercontent\.com/{repository}/{commit}[0-9a-f]{{32}}", fetch.source)
    for place, pin in fetch.files.items():
        assert re.fullmatch(rf"https://raw\.githubusercontent\.com/{repository}/[0-9a-f]{{40}}/[\w./%-]+", pin.url)
        assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
        assert place.startswith(f"{PUBLIC[name].folder}/") and ".." not in place


@pytest.mark.parametrize("name", ["llmbar", pytest.param("dsp", marks=pytest.mark.slow)])
def test_a_fetched_set_is_the_copy_at_hand(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The copy has all files but those of licences."""
    if not (ROOT / str(PUBLIC[name].folder)).is_dir():
        pytest.skip(f"no {PUBLIC[name].folder} under {ROOT}; set CRM_DATA_ROOT")
    config = compose("prepare", [f"fetch={name}"])
    config.out, config.fetch.mirror, config.progress = str(tmp_path), str(ROOT), False
    config.fetch.files = {at: pin for at, pin in config.fetch.files.items() if (ROOT / at).exists()}
    with caplog.at_level(logging.INFO):
        assert run_prepare(config) == tmp_path
        run_prepare(config)
    count = len(config.fetch.files)
    assert f"{name}: {count} files of {config.fetch.source}; licence: {PUBLIC[name].license}" in caplog.messages
    assert f"{name}: {count} files fetched, 0 were there already ({tmp_path})" in caplog.messages
    assert caplog.messages[-2:] == [
        f"{name}: 0 files fetched, {count} were there already ({tmp_path})",
        f"use it as data={name} data.root={tmp_path}",
    ]
    assert next(iter(PUBLIC[name].read(tmp_path / str(PUBLIC[name].folder), Intake(strict=True)))).source


def test_a_set_that_is_only_a_pickle_says_what_to_do(tmp_path: Path) -> None:
    config = compose("prepare", ["fetch=summeval", f"out='{tmp_path}'"])
    with pytest.raises(ValueError, match=r"^fetch=summeval: its ratings .* a pickle, .* to summeval/ratings.jsonl.gz"):
        run_prepare(config)
    with pytest.raises(
        ValueError, match=r"fetch.name='dsp': expected alpacaeval or justeval; other sets: prepare.py fe"
    ):
        compose("bank", ["fetch=dsp", "out=here"])


def test_where_files_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_DATA_ROOT", "/elsewhere")
    assert compose("prepare", ["fetch=dsp"]).out == "/elsewhere"
    assert compose("prepare", ["fetch=dsp", "out=here"]).out == "here"
