"""A file of another format is refused in one sentence that names the file and the next step."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from crm.evaluation.predictions import read_predictions
from crm.io.chat.cache import ReplyCache
from crm.sealed import read_sealed, sealed_text


@pytest.mark.parametrize("written", [{"format": 1}, {"format": 3}, {"format": "2"}, {}])
def test_a_sealed_file_of_another_format_is_refused(written: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(sealed_text({**written, "steps": 6}))
    named = repr(written.get("format"))
    with pytest.raises(ValueError, match=rf"summary.json: format {named}, this version reads 2; run the job again"):
        read_sealed(path, "run the job again", version=2)
    path.write_text(sealed_text({"format": 2, "steps": 6}))
    assert read_sealed(path, "run the job again", version=2) == {"steps": 6}


def test_a_line_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "D+.jsonl").write_text(json.dumps({"comparison_id": "x", "seal": "3-00000000"}) + "\n")
    with pytest.raises(ValueError, match=r"D\+.jsonl:1: seal: '3-00000000': expected 2-.*remove the line and run ag"):
        read_predictions(tmp_path / "D+.jsonl")


@pytest.mark.parametrize("version", [0, 1, 3])
def test_replies_of_another_format_are_refused_and_untouched(version: int, tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE replies (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("INSERT INTO replies VALUES ('k', 'It rains.')")
        database.execute(f"PRAGMA user_version={version}")
    database.close()
    with pytest.raises(ValueError, match=rf"replies.sqlite: .*its format is {version}, this version reads 2"):
        ReplyCache(path)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT * FROM replies").fetchall() == [("k", "It rains.")]
    database.close()
