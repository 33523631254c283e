"""What is sent to a hub, by a stand-in for its client; what may not be sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from huggingface_hub import HfApi
from huggingface_hub.utils import filter_repo_objects

from crm.prepare.card import check_upload, license_of, upload


class Hub:
    """Keeps the arguments of its calls, or raises ``error``."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[dict[str, Any]] = []
        self.error = error

    def create_repo(self, name: str, **words: Any) -> None:
        if self.error:
            raise self.error
        self.calls.append({"repo_id": name, **words})

    def upload_folder(self, **words: Any) -> SimpleNamespace:
        self.calls.append(words)
        return SimpleNamespace(commit_url="https://hub/commit")


def sent(hub: Hub, folder: Path) -> str:
    return upload(folder, "me/votes", private=True, ignored=["local/*"], api=cast(HfApi, hub))


def test_the_folder_is_uploaded_without_local_files(tmp_path: Path) -> None:
    hub = Hub()
    assert sent(hub, tmp_path) == "https://hub/commit"
    created, uploaded = hub.calls
    assert (created["repo_id"], created["private"], created["repo_type"]) == ("me/votes", True, "dataset")
    assert uploaded["folder_path"] == tmp_path
    paths = ["README.md", ".README.md.12.tmp", "splits/train.parquet", "splits/.train.parquet.12.tmp", "local/a"]
    kept = filter_repo_objects(paths, ignore_patterns=uploaded["ignore_patterns"])
    assert list(kept) == ["README.md", "splits/train.parquet"]


def test_an_unreachable_hub_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"push_to=me/votes: cannot connect; the dataset is ready in .*log in"
    ) as found:
        sent(Hub(ConnectionError("cannot connect\nlong story")), tmp_path)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("source", ["records", "table", "personas8"])
def test_texts_without_a_licence_stay_here(source: str) -> None:
    with pytest.raises(ValueError, match=f"push_to: {source} has no licence"):
        check_upload("me/votes", source, None)
    check_upload("me/votes", source, "CC-BY-4.0")
    assert (license_of(source, "MIT"), license_of("dsp", None)) == ("MIT", "CC-BY-NC-4.0")
