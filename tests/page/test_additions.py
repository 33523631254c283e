"""Models that people add: kept, there again after a restart, removed by whoever has the token and nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crm.io.chat.endpoint import Endpoint
from crm.page.additions import Added, Additions, TokenError
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker
from tests.page.test_ranker import responses
from tests.repeating_endpoint import repeating_endpoint


@pytest.fixture
def ranker(make_ranker: Any, judge: Any, bank: Any) -> Ranker:
    made: Ranker = make_ranker(judge, bank)
    return made


def add(additions: Additions, name: str, bank: Any, tmp_path: Path) -> Added:
    return additions.add_file(name, responses(tmp_path / "all.jsonl", bank))


def test_the_token_removes_the_model_and_no_other_does(ranker: Ranker, bank: Any, tmp_path: Path) -> None:
    additions = Additions(ranker, tmp_path / "added")
    first, second = (add(additions, name, bank, tmp_path) for name in ("one", "two"))
    assert first.token != second.token and "one" in second.bank.authors
    for name, token in (("one", second.token), ("one", ""), ("wordy", first.token), ("three", first.token)):
        with pytest.raises(TokenError, match="token: this is not the token"):
            additions.remove(name, token)
    assert additions.remove("one", first.token).authors == ("base", "brief", "middle", "two", "wordy")
    with pytest.raises(ProfileError, match="'one' is not in the bank"):
        ranker.known(Profile(models=("one",)))
    with pytest.raises(TokenError):
        additions.remove("one", first.token)


def test_a_file_is_never_written_over_and_holds_no_token(ranker: Ranker, bank: Any, tmp_path: Path) -> None:
    """Also after the one before it was removed."""
    additions = Additions(ranker, tmp_path / "added")
    first, second = (add(additions, name, bank, tmp_path) for name in ("one", "two"))
    additions.remove("one", first.token)
    third = add(additions, "three", bank, tmp_path)
    files = sorted((tmp_path / "added").glob("*.json"))
    assert [json.loads(file.read_text("utf-8"))["author"] for file in files] == ["two", "three"]
    assert not any(one.token in file.read_text("utf-8") for one in (second, third) for file in files)


def test_after_a_restart_the_token_still_counts(make_ranker: Any, judge: Any, bank: Any, tmp_path: Path) -> None:
    added = add(Additions(make_ranker(judge, bank), tmp_path / "added"), "one", bank, tmp_path)
    again = Additions(make_ranker(judge, bank), tmp_path / "added")
    assert again.restore() == ["one"]
    assert again.remove("one", added.token) == bank
    assert Additions(make_ranker(judge, bank), tmp_path / "added").restore() == []


def test_a_damaged_file_is_named_at_the_start_and_stops_nobody_before(
    make_ranker: Any, judge: Any, bank: Any, tmp_path: Path
) -> None:
    """Also one of another format; files of other names are not ours."""
    running = Additions(make_ranker(judge, bank), tmp_path / "added")
    first, _ = (add(running, name, bank, tmp_path) for name in ("one", "two"))
    damaged = tmp_path / "added" / "001.json"
    content = damaged.read_bytes()
    taken = json.dumps({"author": "wordy", "responses": json.loads(content)["responses"], "token": ""}).encode()
    contents = [content[:cut] for cut in range(0, len(content) - 1, len(content) // 9)]
    contents += [content.replace(b'"q3": "', b'"q3": "x'), content.replace(b'"two"', b'"twq"'), b"\xff" * 9, taken]
    contents += [b"{}", b"[]", b"null", b'"x"', b"[" * 5000, b'{"author": "x"}', b'{"author": 1, "responses": {}}']
    contents += [
        b'{"author": "x", "responses": {}}',
        b'{"author": "x", "responses": ["a"]}',
        b'{"author": "x", "responses": {"q0": 1}}',
        b'{"format": 99}',
    ]
    for wrong in contents:
        damaged.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"001.json: .*move it away, and add the model again$"):
            Additions(make_ranker(judge, bank), tmp_path / "added").restore()
    (tmp_path / "added" / "notes.json").write_text("mine")
    assert add(running, "three", bank, tmp_path).model == "three"
    assert "one" not in running.remove("one", first.token).authors
    damaged.unlink()
    assert Additions(make_ranker(judge, bank), tmp_path / "added").restore() == ["three"]


def test_the_endpoint_is_asked_and_the_last_step_is_the_model(ranker: Ranker, bank: Any, tmp_path: Path) -> None:
    with repeating_endpoint("nothing") as (address, asked):
        endpoint = Endpoint(base_url=address, model="echo")
        *steps, last = Additions(ranker, tmp_path / "added", endpoint).ask("echo")
    assert isinstance(last, Added) and steps[-1] == (8, 8) and sum(asked.values()) == 8
    assert last.bank.responses["echo"]["q0"] == "re: question number 0 about trains"
