"""Datasets of a hub, by a stand-in for its client: what is asked for, and what each trouble is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from crm.io import hub
from crm.io.hub import dataset_folder
from crm.io.intake import Intake
from crm.votes.catalogue import SOURCES, location


class Hub:
    """Holds one dataset, cached or not."""

    def __init__(self, folder: Path, cached: bool, error: Exception | None = None) -> None:
        self.folder, self.cached, self.error = folder, cached, error
        self.downloads: list[dict[str, Any]] = []

    def snapshot_download(self, name: str, **words: Any) -> str:
        if words.get("local_files_only"):
            if not self.cached:
                raise LocalEntryNotFoundError("not cached")
        else:
            self.downloads.append({"name": name, **words})
        return str(self.folder)

    def dataset_info(self, name: str, revision: str | None, timeout: float) -> SimpleNamespace:
        if self.error:
            raise self.error
        return SimpleNamespace(sha=f"commit of {revision}")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(stand_in: Hub) -> Hub:
        monkeypatch.setattr(hub, "snapshot_download", stand_in.snapshot_download)
        monkeypatch.setattr(hub, "HfApi", lambda: stand_in)
        return stand_in

    return install


def test_a_dataset_is_downloaded_once_by_commit_and_data_files_only(tmp_path: Path, install: Any) -> None:
    there = install(Hub(tmp_path, cached=False))
    assert dataset_folder("hf://owner/votes@v2") == tmp_path
    (asked,) = there.downloads
    assert (asked["name"], asked["revision"], asked["repo_type"]) == ("owner/votes", "commit of v2", "dataset")
    assert "*.parquet" in asked["allow_patterns"]
    assert not any(pattern.endswith(".py") for pattern in asked["allow_patterns"])
    there.cached = True
    dataset_folder("hf://datasets/owner/votes")
    assert len(there.downloads) == 1


def test_its_rows_are_read_from_the_folder_inside(tmp_path: Path, install: Any) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "README.md").write_text("# votes")
    (tmp_path / "data" / "train-0.jsonl").write_text('{"prompt": "q", "chosen": "a", "rejected": "b"}\n')
    install(Hub(tmp_path, cached=True))
    place = location("trl", root="", path="hf://owner/votes")
    assert [row.query for row in SOURCES["trl"].read(place, Intake(strict=True))] == ["q"]


@pytest.mark.parametrize("address", ["hf://votes", "hf://a/b/c", "hf://", "hf://a b/c"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ValueError, match="expected hf://owner/name"):
        dataset_folder(address)


def test_an_absent_hub_is_one_sentence(tmp_path: Path, install: Any) -> None:
    install(Hub(tmp_path, cached=False, error=ConnectionError("no network\nat all")))
    with pytest.raises(ValueError, match="not cached here, and the hub cannot be reached") as caught:
        dataset_folder("hf://owner/votes")
    assert "\n" not in str(caught.value)
