"""Folders and hub ids of models that others trained: what is fetched, what stands for them, what is refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from crm.judges.hub_files import model_digest, model_folder, read_config_and_tokenizer
from crm.model import backbone
from crm.model.backbone import missing_files

COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture()
def folder(make_model, tokenizer, tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    make_model("scalar").backbone.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture()
def cached(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshot of ``someone/cached`` in a cache, its branch and a tag, without a network."""

    def blocked(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    repository = tmp_path / "models--someone--cached"
    (repository / "refs").mkdir(parents=True)
    for name in ("main", "v1"):
        (repository / "refs" / name).write_text(COMMIT)
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        (snapshot / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", blocked)
    monkeypatch.setattr(socket.socket, "connect", blocked)
    return snapshot


@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_a_cached_model_needs_no_network_and_its_commit_stands_for_it(cached: Path, revision: str | None) -> None:
    found = model_folder("someone/cached", revision)
    assert found == cached
    assert model_digest("someone/cached", found) == f"someone/cached@{COMMIT}"
    config, tokenizer = read_config_and_tokenizer("someone/cached", found)
    assert (config.model_type, tokenizer.is_fast) == ("qwen3", True)


def test_half_of_a_cached_model_is_fetched_again(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cached / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"^judge\.path=someone/cached: not cached here, and the hub cannot be"):
        model_folder("someone/cached", None)
    asked: list[dict[str, Any]] = []

    def snapshot(path: str, **settings: Any) -> str:
        asked.append({"path": path, **settings})
        return str(cached)

    monkeypatch.setattr(backbone, "snapshot_download", snapshot)
    monkeypatch.setattr(backbone, "get_hf_file_metadata", lambda *_, **__: None)
    model_folder("someone/cached", "v1")
    assert [(call["revision"], call.get("local_files_only", False)) for call in asked] == [("v1", True), ("v1", False)]
    assert not any(form.endswith((".bin", ".py", ".pt")) or form == "*" for form in asked[1]["allow_patterns"])


def test_all_parts_of_a_large_model_are_asked_for(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    parts = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    assert missing_files(folder) == [parts["b"]]
    with pytest.raises(ValueError, match=r"^judge\.path=here: model-00002-of-00002\.safetensors not there"):
        read_config_and_tokenizer("here", folder)
    (folder / "model.safetensors.index.json").write_text("[]")
    assert missing_files(folder) == ["model.safetensors.index.json"]


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_one_bit_of_a_folder_is_another_model(name: str, folder: Path) -> None:
    before = model_digest(str(folder), folder)
    (folder / "notes.md").write_text("of a user")
    assert model_digest(str(folder), folder) == before
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    assert model_digest(str(folder), folder) != before
