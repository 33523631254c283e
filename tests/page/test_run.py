"""What the server opens before it serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from crm.config import compose
from crm.page import run


def refused(*words: str, folder: Path) -> str:
    with pytest.raises(ValueError) as error:
        run.make_ranker(compose("app", list(words), folder))
    return str(error.value)


def test_other_judges_are_sent_to_the_leaderboard(tmp_path: Path) -> None:
    message = refused("judge=length", folder=tmp_path)
    assert message.startswith("judge=length: this judge reads all responses again for each person")
    assert "python leaderboard.py judge=length 'criteria=[\"Prefers concise answers\"]'" in message


def test_a_head_that_is_not_late_is_sent_to_the_leaderboard_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.judges.open.check_judge", lambda config: None)
    monkeypatch.setattr("crm.judges.open.open_judge", lambda config: pytest.fail("loaded for nothing"))
    monkeypatch.setattr("crm.model.folders.checkpoint_folder", Path)
    monkeypatch.setattr("crm.model.manifest.read_manifest", lambda folder: {"head": "scalar"})
    message = refused("checkpoint=runs/a/model", folder=tmp_path)
    assert message.startswith("checkpoint=runs/a/model: head=scalar reads all responses again for each person")
    assert "python leaderboard.py checkpoint=runs/a/model 'criteria=" in message
