"""Votes of somebody who follows one criterion of the pool, in a random judge's eyes: that criterion comes out."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm.io.draws import turn
from crm.judges.crm_judge import CrmJudge
from crm.model.late_reading import LateReader, added_up
from crm.picking.criteria import PoolEntry, read_pool
from crm.picking.from_votes import taste_of
from crm.picking.posterior import Posterior, weighted_criteria
from crm.schema import Preference

POOL = (
    PoolEntry("rain", "Wants rain", "Hates rain"),
    PoolEntry("short", "Be brief", "Write pages and pages"),
    PoolEntry("names", "xyzzy!", "Plain Words"),
)
WORDS = ("yes", "no", "rain", "see [1]", "Thus", "cold", "¿why?", "12", "and so on", "END")


@pytest.fixture(scope="module")
def reader(make_model: Any, make_encoder: Any) -> LateReader:
    judge = CrmJudge(make_model("late"), make_encoder("late", max_length=200), batch_size=8, model_digest="m")
    assert judge.late_reader is not None
    return judge.late_reader


def voted(reader: LateReader, like: str, opposite: str, count: int, longest: int = 9) -> list[Preference]:
    """Who prefers what ``like`` has over ``opposite`` in this judge's eyes."""
    rng = random.Random(7)
    rows = []
    for number in range(count):
        texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in "ab"]
        prompt = turn("user", f"Question {number}")
        one, other = reader.responses([(prompt, turn("assistant", text)) for text in texts])
        gap = float((one - other) @ added_up(reader.criterion_vectors([like, opposite]), [1, -1]))
        winner = "tie" if abs(gap) < 0.05 else "a" if gap > 0 else "b"
        rows.append(Preference(str(number), prompt, *(turn("assistant", text) for text in texts), winner=winner))
    return rows


@pytest.mark.parametrize(("entry", "turned"), [(0, False), (1, True), (2, False)])
def test_the_criterion_that_was_followed_comes_first_with_its_side(
    reader: LateReader, entry: int, turned: bool
) -> None:
    sides = (POOL[entry].like, POOL[entry].opposite)
    rows = voted(reader, *(sides[::-1] if turned else sides), count=80)
    found = taste_of(rows, reader, POOL)
    assert found.criteria[0].text == sides[turned]
    assert found.criteria[0].low > 0
    assert (found.votes, found.unread) == (80, 0)
    assert found.asked == sum(row.winner != "tie" for row in rows)
    assert found.agreed > 0.85 * found.asked


def test_votes_that_are_too_long_are_counted_and_all_of_them_are_refused(reader: LateReader) -> None:
    rows = voted(reader, POOL[0].like, POOL[0].opposite, count=6)
    long = [
        Preference(f"l{n}", turn("user", "?"), turn("assistant", "word " * 400), turn("assistant", "no"), winner="a")
        for n in range(2)
    ]
    assert taste_of(rows + long, reader, POOL).unread == 2
    with pytest.raises(ValueError, match="votes: none of 2 could be read"):
        taste_of(long, reader, POOL)


def test_only_what_matters_is_put_into_words() -> None:
    posterior = Posterior(np.array([-1.2, 0.2, 0.9]), np.diag([0.04, 0.0001, 4.0]))
    (one,) = weighted_criteria(posterior, POOL)
    assert one.text == "Hates rain"
    assert (one.weight, one.low, one.high) == pytest.approx((1.2, 1.2 - 0.392, 1.2 + 0.392), abs=1e-3)


def test_the_built_in_pool_and_files_that_are_none(tmp_path: Path) -> None:
    entries = read_pool()
    assert len(entries) == 12 and all(entry.like != entry.opposite for entry in entries)
    for text, refusal in (
        ("name: a\n", r"entries: expected a valid list, got \{'name': 'a'\}"),
        ("- {name: a, like: b, opposite: c}\n", r"should have at least 2 items"),
        ("- {name: a, like: b}\n" * 2, r"entries\[0\]\.opposite: missing"),
        ("- {name: a, like: b, opposite: 3}\n" * 2, r"entries\[0\]\.opposite: expected a valid string, got 3"),
        ("- {name: a, like: b, opposite: c}\n" * 2, r"two entries are named 'a'"),
        ("{", r"cannot be read"),
    ):
        path = tmp_path / "pool.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=rf"(?s)pool: .*{refusal}"):
            read_pool(path)
