"""Rankings of an indexed bank: whole at once; other baselines, topics, dislikes and reasons read nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from scipy.special import expit

from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.indexed_bank import index_bank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.page.api import make_api
from crm.page.picks import Picking
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import IndexScorer, Ranker
from crm.page.reasons import duels
from crm.picking.pool import read_pool


@pytest.fixture
def ranker(late: CrmJudge, bank: Any, tmp_path: Path) -> Ranker:
    indexed = index_bank(late, bank, tmp_path, progress=False)
    assert indexed is not None
    return Ranker(IndexScorer(indexed))


def count_readings(ranker: Ranker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    read: list[int] = []
    assert isinstance(ranker.scorer, IndexScorer)
    reader = ranker.scorer.indexed.reader
    responses_of = reader.responses
    counted = lambda texts: (read.append(len(texts)), responses_of(texts))[1]  # noqa: E731
    monkeypatch.setattr(reader, "responses", counted)
    return read


def test_one_step_with_the_numbers_of_single_readings(
    ranker: Ranker, late: CrmJudge, bank: Any, tmp_path: Path
) -> None:
    profile = Profile(("Prefers concise answers",))
    only = ranker.rank(profile)
    assert only.failed == 0 and only.board is not None
    matches, _ = score_bank(late, bank, profile.told, baseline="base", folder=tmp_path / "kept", progress=False)
    assert only.board.win_rates() == pytest.approx(Leaderboard(matches).win_rates(), abs=2e-3)
    assert len(only.part.queries) == 8 and only.part.baseline == "base" and len(only.board.rows) == 4


def test_other_baselines_topics_and_models_read_nothing(ranker: Ranker, monkeypatch: pytest.MonkeyPatch) -> None:
    read = count_readings(ranker, monkeypatch)
    mine = ranker.rank(Profile(("Wants sources",))).board
    turned = ranker.rank(Profile(("Wants sources",), baseline="wordy")).board
    assert mine is not None and turned is not None and turned.baseline == "wordy"
    assert turned.win_rates()["base"] == pytest.approx(1 - mine.win_rates()["wordy"], abs=1e-6)
    part = ranker.rank(Profile(("Wants sources",), topics=("T",), models=("brief",)))
    assert part.board is not None and set(part.board.topics) == {"T"} and part.part.authors == ("base", "brief")
    by_topic = next(row for row in mine.rows if row.model == "brief").topics["T"]
    assert part.board.win_rates()["brief"] == pytest.approx(by_topic.mean)
    assert read == []


def test_a_dislike_is_the_opposite_of_a_wish(ranker: Ranker) -> None:
    liked, disliked = (ranker.rank(profile).board for profile in (Profile(("Jargon",)), Profile((), ("Jargon",))))
    assert liked is not None and disliked is not None
    for name, rate in liked.win_rates().items():
        assert disliked.win_rates()[name] == pytest.approx(1 - rate, abs=1e-6)


def test_reasons_are_those_of_the_ranking(ranker: Ranker) -> None:
    progress = ranker.rank(Profile(("Wants sources",)))
    found = duels(progress, "wordy")
    assert progress.board is not None and len(found) == 8
    rate = sum(duel.probability for duel in found) / 8
    assert rate == pytest.approx(progress.board.win_rates()["wordy"], abs=1e-9)
    assert [duel.response for duel in found] == ["wordy wordy wordy wordy"] * 8
    assert found[0].probability == pytest.approx(float(expit(progress.logits("wordy")[found[0].query_id])))


def test_what_cannot_be_ranked_is_a_sentence(ranker: Ranker) -> None:
    with pytest.raises(ProfileError, match="baseline: 'gpt' is not in the bank"):
        ranker.rank(Profile(baseline="gpt"))
    words = "x y z " * 83
    with pytest.raises(ProfileError, match="is longer than the 600 tokens that are read"):
        ranker.rank(Profile((("é" * 499),)))
    assert ranker.rank(Profile((words[:40],))).board is not None


def test_api_and_page_answer_at_once(ranker: Ranker) -> None:
    client = TestClient(make_api(ranker, Picking(ranker, read_pool()), judge="late", version="1"))
    assert client.post("/api/rank", json={"criteria": ["Wants sources"]}).json()["queries"] == 8
    assert client.get("/api/health").json() == {"status": "ok"}
    other = {"first": {"criteria": ["Wants sources"]}, "second": {"dislikes": ["Wants sources"]}}
    assert client.post("/api/compare", json=other).json()["tau"] < 0
    assert client.get("/api/export/csv?criteria=Wants+sources").status_code == 200
    assert client.post("/api/rank", json={"criteria": ["é" * 499]}).status_code == 422
