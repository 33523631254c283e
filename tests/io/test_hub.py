"""Datasets of a hub, by a stand-in for its client: what is asked for, and what each trouble is called."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from crm.data.catalogue import SOURCES, location
from crm.io.hub import dataset_folder
from crm.io.rows import Intake


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

    def repo_info(self, name: str, **_: Any) -> None:
        if self.error:
            raise self.error


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(stand_in: Hub) -> Hub:
        monkeypatch.setattr("huggingface_hub.snapshot_download", stand_in.snapshot_download)
        monkeypatch.setattr("huggingface_hub.HfApi", lambda: stand_in)
        return stand_in

    return install


def test_a_dataset_is_downloaded_once_by_commit_and_data_files_only(tmp_path: Path, install: Any) -> None:
    there = install(Hub(tmp_path, cached=False))
    assert dataset_folder("hf://owner/votes@v2") == tmp_path
    (asked,) = there.downloads
    assert (asked["name"], asked["revision"], asked["repo_type"]) == ("owner/votes", "v2", "dataset"), (
        "a commit leaves no name"
    )
    assert "*.parquet" in asked["allow_patterns"]
    assert "README.md" in asked["allow_patterns"], "it says which files belong to which split"
    assert not any(pattern.endswith(".py") for pattern in asked["allow_patterns"])


def made_cache(cache: Path, *files: str, listed: tuple[str, ...] = ()) -> Path:
    """A snapshot as the hub's client leaves it, with the listing of its tree where all of it was asked for."""
    commit = "0" * 40
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(commit)
    for file in files:
        (cache / "snapshots" / commit).mkdir(parents=True, exist_ok=True)
        (cache / "snapshots" / commit / file).write_text("{}")
    if listed:
        (cache / "trees").mkdir()
        tree = {"format_version": 1, "files": {file: {"size": 2, "blob_id": "1" * 40} for file in listed}}
        (cache / "trees" / f"{commit}.json").write_text(json.dumps(tree))
    return cache / "snapshots" / commit


SHARDS = ("train-0.jsonl", "train-1.jsonl")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a dataset ``owner/votes``, read by the real client without a network."""

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", unreachable)
    return tmp_path / "datasets--owner--votes"


def test_what_is_cached_in_full_needs_no_hub(cache: Path) -> None:
    folder = made_cache(cache, *SHARDS, listed=(*SHARDS, ".gitattributes", "votes.py"))
    assert dataset_folder("hf://datasets/owner/votes") == folder


@pytest.mark.parametrize("listed", [(), SHARDS], ids=["one file was asked for", "a download was cut"])
def test_a_part_of_a_dataset_in_the_cache_is_not_read_as_all_of_it(cache: Path, listed: tuple[str, ...]) -> None:
    made_cache(cache, SHARDS[0], listed=listed)
    with pytest.raises(ValueError, match="not cached here, and the hub cannot be reached"):
        dataset_folder("hf://owner/votes")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        *((address, "expected hf://owner/name") for address in ("hf://votes", "hf://a/b/c/d", "hf://", "hf://a/b:x:y")),
        ("hf://owner/votes", "not cached here, and the hub cannot be reached; give the folder of a copy"),
    ],
)
def test_a_dataset_that_cannot_be_had_is_one_sentence(address: str, why: str, tmp_path: Path, install: Any) -> None:
    install(Hub(tmp_path, cached=False, error=ConnectionError("no network\nat all")))
    with pytest.raises(ValueError, match=f"^data.path={address}: {why}[^\n]*$"):
        dataset_folder(address)


CARD = """---
configs:
- config_name: chats
  default: true
  data_files:
  - {split: train, path: chats.jsonl}
  - {split: test, path: chats_test.jsonl}
- config_name: essays
  data_files: [{split: train, path: essays.jsonl}]
---
"""


@pytest.fixture
def with_splits(tmp_path: Path, install: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset of two configurations, the first of them with two splits, cached here."""
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    for name in ("chats", "chats_test", "essays"):
        row = f'{{"prompt": "of {name}", "chosen": "a \u2028 b", "rejected": "c"}}\n'
        (folder / f"{name}.jsonl").write_text(row, encoding="utf-8")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    install(Hub(folder, cached=True))
    return folder


@pytest.mark.parametrize(
    ("address", "query"),
    [
        ("hf://owner/votes:train", "of chats"),
        ("hf://owner/votes/chats:test", "of chats_test"),
        ("hf://owner/votes/essays", "of essays"),
        ("hf://datasets/owner/votes/essays:train@main", "of essays"),
    ],
)
def test_the_rows_of_one_split(address: str, query: str, with_splits: Path) -> None:
    for _ in range(2):  # made, then from the cache
        rows = list(SOURCES["trl"].read(location("trl", root="", path=address), Intake(strict=True)))
        assert [row.query for row in rows] == [query]
        assert {rows[0].response_a[0].content, rows[0].response_b[0].content} == {"a \u2028 b", "c"}


@pytest.mark.parametrize("address", ["hf://owner/votes:gone", "hf://owner/votes/gone:train"])
def test_a_split_that_is_not_there_is_one_sentence(address: str, with_splits: Path) -> None:
    with pytest.raises(ValueError, match=f"^data.path={address}: [^\n]*gone[^\n]*see the dataset's card[^\n]*$"):
        dataset_folder(address)
