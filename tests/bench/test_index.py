"""`bench.index` at toy size: its files have the shape they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import index
from bench.models import SMALL


def test_the_files_have_what_they_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "DEMO", SMALL)
    monkeypatch.setattr(index, "SIZE", 16)
    monkeypatch.setattr(index.StandIn, "size", 16)
    words = ["--users", "10", "--queries", "1", "--rounds", "2", "--shrink", "50"]
    assert index.main([*words, "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "index.json").read_text("utf-8"))
    wanted = {"further_share", "users_per_s", "index_s", "index_mb_30x804", "n", "seeds", "versions", "commit"}
    assert wanted | {f"further_s_{name}" for name in index.NAMED} <= set(found)
    assert found["index_shape"] == [13, 12] and found["further_share"] < 1
    assert len(found["resident_mb"]) == 11
    assert (tmp_path / "index.md").read_text("utf-8") == index.to_markdown(found)
