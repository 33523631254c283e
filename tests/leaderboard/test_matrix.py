"""A matrix of criteria: what is counted, what comes from a file, what is missing, and what stays on disk."""

from pathlib import Path

import numpy as np
import pytest

from crm.criteria.counting import DIGEST, MEASURES
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.matrix import COUNTED, Column, CriteriaMatrix
from tests.made_files import bank_of

TEXTS = {
    "brief": ("Yes.", "No."),
    "lister": ("- one\n- two\n- three\n- four", "- a\n- b\n- c"),
    "wordy": ("A long answer that goes on and on about the matter. " * 5, "Another long answer with many words. " * 6),
}


def bank(*models: str) -> Bank:
    return bank_of({name: TEXTS[name].__getitem__ for name in models}, ["all"] * 2, baseline=models[0])


def test_a_column_is_counted_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "criteria.parquet"
    first = CriteriaMatrix(bank("brief", "lister"), path)
    first.count(["Length", "Lists"])
    expected = [[MEASURES["Length"](TEXTS[name][row]) for name in ("brief", "lister")] for row in range(2)]
    np.testing.assert_allclose(first.raw("Length"), expected, rtol=1e-6)
    monkeypatch.setitem(MEASURES, "Length", lambda text: pytest.fail("counted again"))
    again = CriteriaMatrix(bank("brief", "lister"), path)
    again.count(["Length"])
    np.testing.assert_array_equal(again.raw("Length"), first.raw("Length"))
    assert again.columns == {name: Column(name, COUNTED, DIGEST) for name in ("Length", "Lists")}
    monkeypatch.setattr("crm.leaderboard.matrix.DIGEST", "other rules")
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        CriteriaMatrix(bank("brief", "lister"), path).count(["Length"])


def test_the_bank_may_grow_a_model_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "criteria.parquet"
    CriteriaMatrix(bank("brief", "lister"), path).count(["Lists"])
    grown = CriteriaMatrix(bank("brief", "lister", "wordy"), path)
    assert np.isnan(grown.raw("Lists")[:, 2]).all() and not np.isnan(grown.raw("Lists")[:, :2]).any()
    grown.count(["Lists"])
    assert not np.isnan(grown.raw("Lists")).any()
    smaller = CriteriaMatrix(bank("brief", "lister"), path)
    smaller.count(["Length"])
    assert not np.isnan(CriteriaMatrix(bank("brief", "lister", "wordy"), path).raw("Lists")).any(), "other rows stay"


def test_weights_make_scores_in_clear_differences(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    matrix.count(["Length", "Lists"])
    matrix.add([Column("Humour", "people")], [1, 3, 2, 4])
    expected = 2 * matrix.raw("Lists") / MEASURES["Lists"].clear - matrix.raw("Humour") / np.std([1, 3, 2, 4])
    np.testing.assert_allclose(matrix.scores({"Lists": 2, "Humour": -1}), expected, rtol=1e-5)


def test_a_missing_score_is_missing(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    matrix.add([Column("Humour", "people")], [1, np.nan, 2, 4])
    assert np.isnan(matrix.scores({"Humour": 1})).tolist() == [[False, True], [False, False]]


def test_scores_of_another_digest_never_mix(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    old, new = (Column("Humour", "llm", digest) for digest in ("old", "new"))
    matrix.add([old], [1, 2, 3, np.nan])
    matrix.add([old], [np.nan, 5, np.nan, 4])
    assert matrix.raw("Humour").ravel().tolist() == [1, 5, 3, 4], "the same judge fills up"
    assert np.isnan(matrix.scored([new])).all()
    matrix.add([new], [np.nan, 7, np.nan, np.nan])
    np.testing.assert_array_equal(matrix.scored([new])[:, 0], [np.nan, 7, np.nan, np.nan])
    assert np.isnan(matrix.scored([old])).all()


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    first, second = (CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet") for _ in range(2))
    first.add([Column("Humour", "llm")], [1, 2, 3, 4])
    second.count(["Length"])
    first.add([Column("Depth", "llm")], [1, 2, 3, 4])
    assert set(CriteriaMatrix(second.bank, second.path).columns) == {"Humour", "Length", "Depth"}


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "criteria.parquet"
    path.write_text("no parquet")
    with pytest.raises(ValueError, match=r"criteria\.parquet: no criteria matrix that can be read .*; remove it"):
        CriteriaMatrix(bank("brief", "lister"), path)
