"""`bench.users` at toy size: both ways agree, and its files have the shape they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import users
from bench.models import SMALL


@pytest.mark.slow
@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])  # all heads: tests/leaderboard/test_cached_judge.py
def test_both_files_are_written(head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "DEMO", SMALL)
    monkeypatch.setattr(users, "IN_ONE_GO", 2)
    words = ["--users", "3", "1", "--rounds", "1", "--queries", "1", "--head", head, "--out", str(tmp_path)]
    assert users.main(words) == 0
    found = json.loads((tmp_path / "users.json").read_text("utf-8"))
    full, half = (found["agreement"][dtype] for dtype in ("float32", "bfloat16"))
    assert full["largest_difference"] <= 1e-4 < full["spread_of_logits"] and full["same_decisions"] == 1
    assert full["megabytes"] == 2 * half["megabytes"]
    assert [row["users"] for row in found["users"]] == [1, 3]
    assert found["users"][0]["kept"]["wall"] < found["users"][1]["kept"]["wall"]
    assert set(found["ratio"]) == {"first", "further", "from_files"} and found["head"] == head
    assert (found["sizes"]["queries"], found["seeds"]) == (12, [0]) and found["commit"] and found["versions"]["torch"]
    assert (tmp_path / "users.md").read_text("utf-8") == users.to_markdown(found)


def test_a_hundred_users_differ_and_sizes_are_by_hand() -> None:
    drawn = users.tastes(100)
    assert len(set(drawn)) == 100 and {len(user) for user in drawn} == {1, 2, 3}
    assert all(len(set(user)) == len(user) for user in drawn)
    found = users.arithmetic()
    assert found["Qwen3-4B"]["bfloat16"] == pytest.approx(30 * 804 * 360 * 2 * 36 * 8 * 128 * 2 / 1e9)
    assert found["SmolLM2-135M"]["float32"] == pytest.approx(400.1, abs=0.1)
