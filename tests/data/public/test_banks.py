"""Published banks as their authors publish them: what the files hold comes back, what is left out is counted."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from crm.data.public.banks import read_published
from crm.io.draws import turn
from crm.schema import prompt_key
from tests.made_files import write_banks, write_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    asked = {"three.json.gz": ["Why?", "Who?", "When?"], "four-4.5.json": ["Who?", "Why?", "why?  "]}
    write_banks(tmp_path, justeval=("one", "two"), alpacaeval=asked)
    return tmp_path


def test_justeval_has_the_first_topic_and_the_first_answer_of_each_query(root: Path) -> None:
    bank = read_published("justeval", root)
    assert set(bank.queries.values()) == {"Why?", "How?", "Where?"}
    assert bank.queries[f"justeval-{prompt_key(turn('user', 'How?'))}"] == "How?"
    assert bank.topics["Why?"] == "stem" and bank.topics["How?"] == "lifestyle"
    assert bank.answers == {llm: {"Why?": f"{llm} 0", "How?": f"{llm} 1", "Where?": f"{llm} 3"} for llm in bank.answers}
    assert set(bank.answers) == {"one", "two"}


def test_alpacaeval_has_what_all_answered_and_topics_of_the_other(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        bank = read_published("alpacaeval", str(root))
    assert set(bank.queries.values()) == {"Who?", "Why?"}
    assert bank.topics["Why?"] == "stem" and "Who?" not in bank.topics
    assert bank.answers["four-4.5"]["Why?"] == "four-4.5 on Why?"
    assert "2 queries, left out: {'not_answered_by_all': 2, 'equal_queries': 0}" in caplog.text


def test_without_tags_nothing_has_a_topic(root: Path) -> None:
    (root / "bank_justeval" / "tags_list.json.gz").unlink()
    assert not read_published("alpacaeval", root).topics


def test_what_is_missing_or_malformed_is_named(root: Path) -> None:
    with pytest.raises(
        ValueError, match=r"bank.root='nowhere': has no folder 'bank_justeval'.*fetch=justeval out=nowhere"
    ):
        read_published("justeval", "nowhere")
    for row, reason in (
        ({"instruction": "Why?", "output": None}, "output: expected a valid string, got None"),
        ({"output": "Because."}, "instruction: "),
    ):
        write_files(root, {"bank_alpacaeval/third.json": [row]})
        with pytest.raises(ValueError, match=rf"third.json:1: {reason}"):
            read_published("alpacaeval", root)
    for path in (root / "bank_alpacaeval").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"no file \*.json or \*.json.gz"):
        read_published("alpacaeval", root)
