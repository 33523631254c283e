"""The benchmark on small made-up files in the public sets' formats, then on the real ones where present."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pandas as pd
import pytest

from experiments.topics import benchmark
from experiments.topics.benchmark import main
from experiments.topics.labelled import load_labelled

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[3] / "shared" / "data"))


WORDS = {
    "cooking": ("Tomato sauce for fresh pasta, a recipe", ("easy", "quick", "old", "good", "new")),
    "space": ("A rocket brings the satellite into orbit", ("soon", "today", "again", "safely")),
    "chess": ("Queen, bishop and knight in a chess opening", ("first", "later", "both")),
}
GROUPS = {topic: [f"{text}: {word}" for word in words] for topic, (text, words) in WORDS.items()}


def write_gz(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    rows = [
        {
            "id": index,
            "instruction": text,
            "topics": [topic, "second"],
            "task_types": ["info"] if index % 2 else ["write"],
        }
        for index, (topic, text) in enumerate((topic, text) for topic, own in GROUPS.items() for text in own)
    ]
    write_gz(tmp_path / "bank_justeval" / "tags_list.json.gz", [*rows, rows[0], {"instruction": 3}])
    for topic, own in GROUPS.items():
        task, scenario = topic.capitalize(), "All of it"
        write_gz(
            tmp_path / "rmb" / "Pairwise_set" / "Helpfulness" / task / f"{scenario}.json.gz",
            [
                {
                    "conversation_input": [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}],
                    "category_path": f"Pairwise_set/Helpfulness/{task}/{scenario}",
                }
                for text in own
            ],
        )
    return tmp_path


def test_sets_are_read_with_counts(root: Path) -> None:
    sets, absent = load_labelled(root)
    assert absent == []
    assert [data.name for data in sets] == ["just-eval topics", "just-eval task_types", "rmb tasks", "rmb scenarios"]
    assert sets[0].counts == {"read": 14, "rejected": 1, "repeated": 1}
    assert sets[0].tags[0] == ["cooking", "second"]
    assert sets[3].tags[-1] == ["Space/All of it"]
    assert all(len(data.texts) == 12 for data in sets)


def test_absent_sets_are_skipped_with_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path), "--out", str(tmp_path / "out"), "--simulated", "0"]) == 1
    said = capsys.readouterr()
    assert "just-eval: " in said.out and "rmb: " in said.out and "skipped" in said.out
    assert "error: root: no known set" in said.err


@pytest.mark.slow
def test_the_table(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)  # no model
    (root / "bank_justeval" / "tags_list.json.gz").unlink()
    assert main(["--root", str(root), "--out", str(tmp_path / "out"), "--simulated", "0"]) == 0
    table = pd.read_csv(tmp_path / "out" / "results.csv")
    assert len(table) == 2 * 2
    row = table.set_index(["set", "method"]).loc[("rmb tasks", "clusters, 3")]
    assert (row["ami"], row["topics"], row["n"]) == (1, 3, 12)
    assert "1.000 [1.000, 1.000]" in (tmp_path / "out" / "results.md").read_text()


def test_simulated_sets_carry_their_topics() -> None:
    queries, criteria = benchmark.simulated(200)
    assert len({own[0] for own in queries.tags}) == 12
    assert len(queries.texts) == len(queries.tags) == 200
    assert len(set(criteria.texts)) == len(criteria.tags) > 200


def test_real_sets() -> None:
    sets, absent = load_labelled(ROOT)
    if absent:
        pytest.skip("; ".join(absent))
    sizes = {data.name: (len(data.texts), len({own[0] for own in data.tags}), data.counts["rejected"]) for data in sets}
    assert sizes == {
        "just-eval topics": (781, 7, 0),
        "just-eval task_types": (781, 7, 0),
        "rmb tasks": (1803, 12, 0),
        "rmb scenarios": (1803, 35, 0),
    }
    assert all("category_is_not_the_folder" not in data.counts for data in sets)
