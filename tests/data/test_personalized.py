"""Personalized RewardBench as an evaluation: what a judge sees of a user, on small files of the published shape."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from crm.data.comparisons import make_comparisons
from crm.data.config import DataConfig
from crm.data.load import load_data
from crm.data.public.plain import by_bm25, personalized_rewardbench
from crm.data.splits import Splits
from crm.io.intake import Intake
from crm.schema import GENERIC_CRITERION, Preference
from tests.made_files import write_rows


def row(name: str, posts: Sequence[str] | None = ("Red yarn?", "Oak table?", "  "), **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "question": f"How do I oil an oak table, {name}?",
        "profile": posts and [{"id": str(i), "category": "diy", "text": post} for i, post in enumerate(posts)],
        "rubric_aspects": [{"aspect": "Food safe", "reason": "SECRET", "evidence": "SECRET"}],
        "narrative": "SECRET narrative",
        "category": "diy",
        "chosen": "Use linseed oil.",
        "rejected": "Use paint.",
    } | changes


def load(path: Path, criteria: str = "own", **given: Any) -> Splits:
    return load_data(DataConfig(name="personalized_rewardbench", root="", path=str(path), **given), criteria)


def chosen_criteria(record: Preference) -> tuple[str, ...]:
    """Of the side that says linseed oil; the other side has none."""
    a, b = record.criteria_a, record.criteria_b
    first = record.response_a[0].content == "Use linseed oil."
    assert (record.winner == "a") == first
    assert (b if first else a) == ()
    return a if first else b


def test_the_profile_speaks_for_the_chosen_side_the_nearest_post_first(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    rows = [*(row(str(index)) for index in range(8)), row("new", ()), row("null", None)]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    splits = load(path, profile="bm25")
    shown = [chosen_criteria(record) for record in splits.suites["D"]]
    both = ("Has asked before: Oak table?", "Has asked before: Red yarn?")
    assert shown == [both] * 8 + [(GENERIC_CRITERION,)] * 2
    assert {record.winner for record in splits.suites["D"]} == {"a", "b"}
    one = load(path, profile="bm25", profile_posts=1)
    assert chosen_criteria(one.suites["D"][0]) == both[:1]
    assert (one.counts["profile_texts_shown"], one.counts["profile_texts_left_out"]) == (8, 8)
    cut = personalized_rewardbench(path, Intake(strict=True), profile="first", max_words=1)
    assert chosen_criteria(next(cut))[0] == "Has asked before: Red ..."
    assert not any(word in repr(splits) for word in ("SECRET", "Food safe"))


def test_without_a_profile_the_generic_criterion_is_asked_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [row("1"), row("2")])
    with pytest.raises(ValueError, match=r"no record has criteria.*data\.profile=bm25.*criteria=none"):
        load(path)
    splits = load(path, criteria="none")
    assert splits.counts["given_generic_criterion"] == 2
    for direction, made in (("original", 2), ("reverse", 0)):
        rows, _ = make_comparisons(
            splits.suites["D"], direction=direction, noise="none", pool=None, seed=0, epoch=0, criteria_mode="none"
        )
        assert [item.criteria for item in rows] == [(GENERIC_CRITERION,)] * made


def test_bm25_puts_rare_and_repeated_words_first() -> None:
    pytest.importorskip("bm25s")
    oak, bread, most = posts = ["Which oak grows fast?", "Bread without yeast", "Oak, oak and more oak for a table"]
    assert by_bm25("oak", posts) == [most, oak, bread]
    assert by_bm25("fast oak", posts) == [oak, most, bread]
    assert by_bm25("yeast", posts) == [bread, oak, most]
    assert by_bm25("elm", posts) == posts
