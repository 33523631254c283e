"""Models in folders, runs and on a hub: what is out of reach is a sentence within seconds."""

import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub.constants
import pytest
import torch

from crm.model import folders
from crm.model.backbone import load_backbone
from crm.model.export import export_model, load_checkpoint
from crm.model.folders import check_reachable, checkpoint_folder

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

    def blocked(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", blocked)
    monkeypatch.setattr(socket.socket, "connect", blocked)
    return Path(shutil.copytree(folder, kept / "snapshots" / COMMIT))


def test_folders_runs_and_cached_names_need_no_network(snapshot: Path, folder: Path) -> None:
    for place in (str(folder), folder, folder.parent, f"{folder.parent}/"):
        assert checkpoint_folder(place) == folder
    for name in ("someone/ranker", "someone/ranker@v1", f"hf://someone/ranker@{COMMIT}"):
        assert checkpoint_folder(name) == snapshot
    loaded, expected = (load_checkpoint(place)[0] for place in ("someone/ranker", folder))
    assert all(torch.equal(one, expected.state_dict()[key]) for key, one in loaded.state_dict().items())
    check_reachable("someone/ranker")
    check_reachable(str(folder))


@pytest.mark.parametrize("offline", [True, False], ids=["HF_HUB_OFFLINE=1", "no network"])
@pytest.mark.parametrize(
    ("look", "name", "message"),
    [
        (checkpoint_folder, "someone/other", "checkpoint=someone/other: not cached here.*give a run folder"),
        (checkpoint_folder, "someone/ranker@v2", "checkpoint=someone/ranker: not cached here.*give a run folder"),
        (checkpoint_folder, "runs/model", "checkpoint=runs/model: not cached here.*give a run folder"),
        (check_reachable, "someone/other", "model.path=someone/other: not cached here.*model=tiny"),
        (lambda path: load_backbone(path, None), "someone/other", "model.path=someone/other: not cached here"),
    ],
)
@pytest.mark.usefixtures("snapshot")
def test_what_is_neither_here_nor_reachable_is_one_sentence_at_once(
    look: Any, name: str, message: str, offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    started = time.perf_counter()
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        look(name)
    assert "\n" not in str(caught.value) and time.perf_counter() - started < 15


def test_a_folder_without_config_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config.json in this folder; model=tiny"):
        check_reachable(str(tmp_path))


def test_half_of_one_is_fetched_again_without_pickles_or_code(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"^checkpoint=someone/ranker: not cached here"):
        checkpoint_folder("someone/ranker")
    asked: list[dict[str, Any]] = []

    def download(path: str, **given: Any) -> str:
        asked.append({"path": path, **given})
        return str(snapshot)

    for module in (folders, huggingface_hub):
        monkeypatch.setattr(module, "snapshot_download", download)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: SimpleNamespace(repo_info=lambda *_, **__: None))
    assert checkpoint_folder("someone/ranker@v1") == snapshot
    assert [(call["revision"], call.get("local_files_only", False)) for call in asked] == [("v1", True), ("v1", False)]
    assert not any(form.endswith((".bin", ".py", ".pt")) or form == "*" for form in asked[1]["allow_patterns"])


@pytest.mark.parametrize("name", ["justaname", "a/b/c", "/gone/model", "./gone"])
def test_what_cannot_be_a_hub_s_name_is_a_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("the hub was asked"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"^checkpoint={name}: no such folder; give a run folder of train.py, the `mo"):
        load_checkpoint(name)
    with pytest.raises(ValueError, match=f"^model.path={name}: no such folder; .*model=tiny needs no d"):
        check_reachable(name)


def test_a_wrong_folder_is_answered_with_what_is_there(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, "runs/old/model")
    Path("runs/was killed/checkpoints").mkdir(parents=True)
    Path("runs/was killed/checkpoints/last.ckpt").write_text("")
    shutil.copytree(folder, "bought", ignore=shutil.ignore_patterns("crm.json"))
    give = "give a run folder of train.py, the `model` folder in it, or owner/name of a hub"
    answers = {
        "old": f"no such folder; {give}",
        "runs": f"no model there; {give}",
        "runs/old/model/model.safetensors": f"no model there; {give}",
        "runs/was killed": "its training has not ended; go on with: python train.py resume='runs/was killed'",
        "bought": "no crm.json there: not a model of train.py, or not all of it; other reward models: "
        "judge=reward_model judge.path=bought; to train from it: model.path=bought",
    }
    for given, answer in answers.items():
        with pytest.raises(ValueError, match="checkpoint=") as caught:
            checkpoint_folder(given)
        assert str(caught.value) == f"checkpoint={given}: {answer}"
