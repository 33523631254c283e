"""What the server opens before it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.judges.crm_judge import CrmJudge
from crm.judges.open import OpenedJudge
from crm.page import run
from crm.page.profile import Profile


def test_once_a_bank_is_read_the_tokens_of_few_texts_are_kept(
    late: CrmJudge, bank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each visitor writes new words; memory would grow with every one."""
    monkeypatch.setattr(run, "TEXTS", 3)
    monkeypatch.setattr(run, "open_bank", lambda settings: bank)
    monkeypatch.setattr("crm.judges.open_judge", lambda config: OpenedJudge(late, "late", tmp_path))
    monkeypatch.setattr("crm.judges.check_judge", lambda config: None)
    monkeypatch.setattr("crm.model.export.checkpoint_folder", Path)
    monkeypatch.setattr("crm.model.manifest.read_manifest", lambda folder: {"head": "late"})
    ranker, name = run.make_ranker(compose("app", ["checkpoint=some/model", "progress=false", "threads=0"], tmp_path))
    assert name == "late"
    for letter in "abcdefg":
        ranker.rank(Profile(criteria=(f"Wants {letter}",)))
    kept = late.encoder._body.cache_info()
    assert kept.misses > 3 and kept.currsize <= 3


@pytest.fixture
def late(make_model: Any, make_encoder: Any) -> CrmJudge:
    return CrmJudge(make_model("late"), make_encoder("late", max_length=600), batch_size=8, model_digest="m")


def refused(*words: str, folder: Path) -> str:
    with pytest.raises(ValueError) as error:
        run.make_ranker(compose("app", list(words), folder))
    return str(error.value)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["judge=length"], "python leaderboard.py judge=length"),
        (
            ["judge=llm", "judge.base_url=http://127.0.0.1:1/v1", "judge.model=m"],
            "python leaderboard.py judge=llm judge.base_url=http://127.0.0.1:1/v1 judge.model=m",
        ),
        (
            ["judge=coin", "bank=folder", "bank.path=my bank"],
            "judge=coin bank=folder 'bank.path=my bank'",
        ),
    ],
)
def test_other_judges_are_sent_to_the_leaderboard(words: list[str], command: str, tmp_path: Path) -> None:
    said = refused(*words, folder=tmp_path)
    assert f"{command} 'criteria=[\"Prefers concise answers\"]'" in said and words[0] in said


def test_a_head_that_is_not_late_is_sent_to_the_leaderboard_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.judges.check_judge", lambda config: None)
    monkeypatch.setattr("crm.judges.open_judge", lambda config: pytest.fail("loaded for nothing"))
    monkeypatch.setattr("crm.model.export.checkpoint_folder", Path)
    monkeypatch.setattr("crm.model.manifest.read_manifest", lambda folder: {"head": "scalar"})
    said = refused("checkpoint=runs/a/model", folder=tmp_path)
    assert said.startswith("checkpoint=runs/a/model: head=scalar reads all responses again for each person")
    assert "python leaderboard.py checkpoint=runs/a/model 'criteria=" in said
