"""What is sent to a hub, by a stand-in for its client; what may not be sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.utils import filter_repo_objects

from crm.dataset.prepare import upload as module
from crm.dataset.prepare.licence import about, note
from crm.dataset.prepare.upload import check_upload, upload


class Hub:
    """Keeps what it is asked; fails as told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error = error

    def create_repo(self, name: str, **words: Any) -> None:
        if self.error:
            raise self.error
        self.calls.append((name, words))

    def upload_folder(self, **words: Any) -> SimpleNamespace:
        self.calls.append((words["repo_id"], words))
        return SimpleNamespace(commit_url="https://hub/commit")


def test_the_folder_goes_up_without_the_stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = Hub()
    monkeypatch.setattr(module, "HfApi", lambda: hub)
    assert upload(tmp_path, "me/votes", "summeval", None, private=True) == "https://hub/commit"
    (name, created), (_, sent) = hub.calls
    assert (name, created["private"], created["repo_type"]) == ("me/votes", True, "dataset")
    assert sent["folder_path"] == tmp_path
    assert "stages/*" in sent["ignore_patterns"]


def test_a_draft_that_a_killed_run_left_stays_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = Hub()
    monkeypatch.setattr(module, "HfApi", lambda: hub)
    upload(tmp_path, "me/votes", "dsp", None, private=True)
    paths = ["README.md", ".README.md.12.tmp", "splits/train.parquet", "splits/.train.parquet.12.tmp", "stages/a/b"]
    sent = filter_repo_objects(paths, ignore_patterns=hub.calls[1][1]["ignore_patterns"])
    assert list(sent) == ["README.md", "splits/train.parquet"]


def test_a_name_that_the_hub_would_refuse_is_refused_here(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"push_to='my votes': .*; give a name such as me/votes"):
        check_upload("my votes", "dsp", None)


@pytest.mark.parametrize("source", ["records", "table", "personas8"])
def test_texts_without_a_licence_stay_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str) -> None:
    hub = Hub()
    monkeypatch.setattr(module, "HfApi", lambda: hub)
    with pytest.raises(ValueError, match=f"push_to: {source} has no licence"):
        upload(tmp_path, "me/votes", source, None, private=True)
    assert not hub.calls
    upload(tmp_path, "me/votes", source, "CC-BY-4.0", private=False)
    assert hub.calls


class ClientError(Exception):
    """As the HTTP libraries under the hub's client raise: none of Python's own kinds."""


@pytest.mark.parametrize("kind", [ConnectionError, ClientError])
def test_an_unreachable_hub_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[Exception]
) -> None:
    monkeypatch.setattr(module, "HfApi", lambda: Hub(kind("cannot connect\nlong story")))
    with pytest.raises(
        ValueError, match=r"push_to=me/votes: cannot connect; the dataset is ready in .*log in"
    ) as caught:
        upload(tmp_path, "me/votes", "dsp", None, private=True)
    assert "\n" not in str(caught.value)


def test_the_card_says_whose_the_texts_are() -> None:
    assert "Linear95/DSP" in about("dsp")
    assert "as its source gives it" in note("dsp", None)
    assert "do not pass it on" in note("personas8", None)
    assert "Not stated" in note("records", None)
    assert note("records", "MIT") == "MIT, as stated by whoever prepared this dataset."
    assert note("simulation", None).startswith("Apache-2.0")
