"""Its sample files in, and what its own evaluation reads out: the best of the first k, in the order of the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crm.criteria.profiles import teller
from crm.rewards.best_of_n.personalized_rewardbench import (
    by_id,
    candidates_of,
    posts,
    read_samples,
    write_scored,
)

PROFILE = "Post 1 (Category: art):\nI paint.\nA lot.\nPost 2 (Category: music):\nI sing."


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    rows = [
        {"id": name, "query": f"What of {name}?", "profile": PROFILE, "sample_idx": number, "aspects": "colour, cost"}
        | {"generated_response": f"{name} {number}"}
        for name in ("7", "9")
        for number in range(4)
    ]
    path = tmp_path / "Art_samples.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_judge_is_told_the_posts_the_rubric_or_nothing(samples: Path) -> None:
    read, tell = read_samples(samples), teller("first", posts=1)
    assert tell is not None and posts(PROFILE) == ["I paint.\nA lot.", "I sing."]
    told = {name: candidates_of(read, name, tell)[0].criteria for name in ("nothing", "profile", "aspects")}
    assert told == {"nothing": (), "profile": ("Has asked before: I paint. A lot.",), "aspects": ("colour, cost",)}
    assert [own.responses for own in candidates_of(read, "nothing", tell)] == [
        ("7 0", "7 1", "7 2", "7 3"),
        ("9 0", "9 1", "9 2", "9 3"),
    ]


def test_files_are_those_of_its_score_script(samples: Path, tmp_path: Path) -> None:
    """By its rule, written down again: the first k rows of an id, the highest score, the earlier of two equals."""
    scores = np.array([[0.1, 0.9, 0.9, 0.2], [np.nan, -2.0, -3.0, 1.0]])
    read = read_samples(samples)
    write_scored(tmp_path / "out", "Art", read, scores, (1, 2, 4, 8))
    rows = {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in (tmp_path / "out").iterdir()
    }
    assert set(rows) == {"Art_scored", "Art_k1", "Art_k2", "Art_k4", "Art_k8"}
    assert [row["score"] for row in rows["Art_scored"]] == [0.1, 0.9, 0.9, 0.2, None, -2.0, -3.0, 1.0]
    assert {key: value for key, value in rows["Art_scored"][0].items() if key != "score"} == read[0].row
    for k in (1, 2, 4, 8):
        for row, (name, own), values in zip(rows[f"Art_k{k}"], by_id(read).items(), scores, strict=True):
            scored = [(value, sample) for value, sample in zip(values, own, strict=True) if value == value][:k]
            score, sample = max(scored, key=lambda pair: pair[0])
            assert row == {
                "id": name,
                "query": sample.query,
                "output": sample.response,
                "aspects": "colour, cost",
                "score": score,
            }


def test_a_row_without_a_response_is_refused(samples: Path) -> None:
    with samples.open("a", encoding="utf-8") as file:
        file.write('{"id": "7", "query": "What?"}\n')
    with pytest.raises(ValueError, match=r"Art_samples\.jsonl:9: generated_response: expected text"):
        read_samples(samples)
