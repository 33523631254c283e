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
    monkeypatch.setattr(run, "open_judge", lambda config: OpenedJudge(late, "late", tmp_path))
    ranker, name = run.make_ranker(compose("app", ["judge=oracle", "progress=false", "threads=0"], tmp_path))
    assert name == "late"
    for wish in "abcdefg":
        list(ranker.rank(Profile((f"Wants {wish}",))))
    kept = late.encoder._body.cache_info()
    assert kept.misses > 3 and kept.currsize <= 3
