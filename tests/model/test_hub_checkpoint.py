"""A hub's name in place of a checkpoint's folder: only what the manifest lists is fetched; what fails is a sentence."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from crm.config import compose
from crm.judges.open import check_judge, open_judge
from crm.model import export
from crm.model.export import checkpoint_folder, export_model, load_checkpoint
from tests.model.test_backbone import block_network

COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    export_model(make_model("scalar"), tokenizer, folder, {"max_length": 256, "seed": 3})
    return folder


@pytest.fixture()
def snapshot(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as the hub client keeps it, under ``someone/ranker``, with no network."""
    kept = tmp_path / "models--someone--ranker"
    (kept / "refs").mkdir(parents=True)
    for revision in ("main", "v1"):
        (kept / "refs" / revision).write_text(COMMIT)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    block_network(monkeypatch)
    return Path(shutil.copytree(folder, kept / "snapshots" / COMMIT))


@pytest.mark.parametrize("name", ["someone/ranker", "someone/ranker@v1", f"someone/ranker@{COMMIT}"])
def test_a_cached_one_loads_by_its_name_without_a_network(snapshot: Path, folder: Path, name: str) -> None:
    (snapshot / "generation_config.json").write_text("{}")
    assert checkpoint_folder(name) == snapshot
    loaded, expected = (load_checkpoint(place)[0] for place in (checkpoint_folder(name), folder))
    assert all(torch.equal(one, expected.state_dict()[key]) for key, one in loaded.state_dict().items())


def test_it_is_a_judge_whose_predictions_stay_out_of_the_cache(snapshot: Path, tmp_path: Path) -> None:
    config = compose("evaluate", ["checkpoint=someone/ranker", "data=simulation"], tmp_path / "run")
    check_judge(config)
    opened = open_judge(config)
    assert opened.name == "scalar" and opened.seeds == (3,)
    assert opened.predictions == Path("outputs/predictions")


@pytest.mark.parametrize("offline", [True, False], ids=["HF_HUB_OFFLINE=1", "no network"])
@pytest.mark.parametrize("name", ["someone/other", "someone/ranker@v2", "runs/model"])
def test_what_is_neither_here_nor_reachable_is_one_sentence_at_once(
    snapshot: Path, name: str, offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    started, path = time.perf_counter(), name.partition("@")[0]
    with pytest.raises(ValueError, match=f"^checkpoint={path}: not cached here.*give a run folder") as caught:
        checkpoint_folder(name)
    assert "\n" not in str(caught.value) and time.perf_counter() - started < 15


def test_half_of_one_is_fetched_again(snapshot: Path) -> None:
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"^checkpoint=someone/ranker: not cached here"):
        checkpoint_folder("someone/ranker")


def test_a_damaged_one_is_refused_as_a_folder_is(snapshot: Path) -> None:
    (snapshot / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json is missing or damaged"):
        load_checkpoint(checkpoint_folder("someone/ranker"))


def test_only_files_that_the_manifest_lists_are_fetched_and_no_code(folder: Path, tmp_path, monkeypatch) -> None:
    """The hub holds a pickle, code and an adapter beside the model; none of them is asked for."""
    asked: list[Any] = []

    def download(path: str, revision: str | None, allow_patterns: list[str], local_files_only: bool = False) -> str:
        if local_files_only:
            raise FileNotFoundError(path)
        asked.append((path, revision, sorted(allow_patterns)))
        return str(folder)

    monkeypatch.setattr(export, "snapshot_download", download)
    monkeypatch.setattr(export, "ask_hub", lambda *given: None)
    assert checkpoint_folder("someone/ranker@v1") == folder
    listed = {path.name for path in folder.iterdir()} - {"README.md"}
    assert asked == [("someone/ranker", "v1", names) for names in (["crm.json"], sorted(listed))]
    manifest = {"files": {"model.safetensors": "", "pytorch_model.bin": "", "code.py": "", "*.json": ""}}
    monkeypatch.setattr(export, "read_manifest", lambda place: manifest)
    checkpoint_folder("someone/ranker")
    assert asked[-1][2] == ["[*].json", "crm.json", "model.safetensors"]


@pytest.mark.parametrize("name", ["justaname", "a/b/c", "/gone/model", "./gone"])
def test_what_cannot_be_a_hub_s_name_is_a_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*given: Any) -> Any:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"^checkpoint={name}: no such folder; give a run folder of train.py, the `mo"):
        load_checkpoint(name)


def test_a_run_folder_and_a_hub_address_are_as_good_as_the_model_folder(snapshot: Path, folder: Path) -> None:
    given: list[str | Path] = [str(folder), folder, folder.parent, f"{folder.parent}/"]
    assert [checkpoint_folder(place) for place in given] == [folder] * 4
    assert checkpoint_folder("hf://someone/ranker@v1") == snapshot


def test_a_wrong_folder_is_answered_with_what_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, run in enumerate(("runs/old", "outputs/train/2026-01-01/08-00-00")):
        shutil.copytree(folder, Path(run) / "model")
        os.utime(Path(run) / "model/crm.json", (number, number))
    Path("runs/killed/checkpoints").mkdir(parents=True)
    Path("runs/killed/checkpoints/last.ckpt").write_text("")
    shutil.copytree(folder, "bought", ignore=shutil.ignore_patterns("crm.json"))
    Path("runs/old/notes").mkdir()
    newest_first = "trained models nearby, newest first: outputs/train/2026-01-01/08-00-00, runs/old; give one of these"
    answers = {
        "old": f"no such folder; {newest_first}",
        "runs": f"no model there; {newest_first}",
        "runs/old/notes": f"no model there; {newest_first}",
        "runs/old/model/model.safetensors": f"no model there; {newest_first}",
        "runs/killed": "its training has not ended; go on with resume=true hydra.run.dir=runs/killed",
        "bought": "no crm.json there: not a model of train.py, or not all of it; other reward models: "
        "judge=reward_model judge.path=bought; to train from it: model.path=bought",
    }
    for given, answer in answers.items():
        with pytest.raises(ValueError, match="checkpoint=") as refused:
            checkpoint_folder(given)
        assert str(refused.value) == f"checkpoint={given}: {answer}"
