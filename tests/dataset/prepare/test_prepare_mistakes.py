"""What goes wrong around a preparation is said early and in a sentence; nothing is lost or taken for another thing."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.dataset.prepare import stages
from crm.dataset.prepare.preparation import Preparation
from crm.dataset.prepare.run import run_prepare
from crm.dataset.prepare.workspace import FILTER, Workspace, with_findings
from crm.io.parquet import count_rows, read_parquet, write_parquet, write_rows
from crm.schema import Preference, to_json
from crm.votes.simulation.arena import simulate

pytestmark = pytest.mark.slow

COLUMNS = ("prompt", "response_a", "response_b", "winner")


def write_votes(path: Path, rows: range, **more: Callable[[int], str]) -> Path:
    """Votes on different prompts with answers that differ in length, and further columns."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*COLUMNS, *more])
        for n in rows:
            query = f"Tell me about {' '.join(digit * 3 for digit in f'{n:04}')} of {chr(97 + n % 26) * 9}"
            table.writerow([query, "word " * 9, "word " * 90, "ab"[n % 2], *(make(n) for make in more.values())])
    return path


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return write_votes(tmp_path / "votes.csv", range(60))


def counts(folder: Path, stage: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "stages" / f"{stage}.json").read_text())["counts"]
    return found


def test_findings_about_other_votes_are_no_findings(prepare: Any, votes: Path) -> None:
    words = ("data=table", f"data.path='{votes}'", "split.unseen_topics=0", "split.unseen_criteria=0")
    prepare(*words)
    write_votes(votes, range(100, 170))
    prepare(*words, "stages=[ingest]")
    for wanted in ("[criteria,topics]", "[split]", "[dataset]", "[card]"):
        with pytest.raises(ValueError, match="stages: filter was made of other data, settings or code; run it too"):
            prepare(*words, f"stages={wanted}")
    folder = prepare(*words)
    assert count_rows(folder / "preferences.parquet") == 70


def test_the_guard_below_compares_every_id(prepare: Any, votes: Path) -> None:
    folder = prepare("data=table", f"data.path='{votes}'", "stages=[ingest]")
    space = Workspace(folder)
    rows = [row for row, _ in zip(read_parquet(space.findings("ingest"), Preference), "abc", strict=False)]
    write_parquet(
        space.findings("ingest"), Preference, [replace(row, id=name) for row, name in zip(rows, "abc", strict=True)]
    )
    for ids in ("ab", "abcd", "abx"):
        write_rows(space.findings("filter"), FILTER, ({"id": name, "status": "kept", "why": None} for name in ids))
        with pytest.raises(ValueError, match=r"is about other rows than ingest\.parquet; run filter again"):
            list(with_findings(space, "filter"))


def test_an_id_in_two_files_is_refused_or_counted(prepare: Any, tmp_path: Path) -> None:
    for name, rows in (("one", range(40)), ("two", range(40, 80))):
        write_votes(tmp_path / "votes" / f"{name}.csv", rows, id=lambda n: str(n % 40 if n != 77 else n))
    words = ("data=table", f"data.path='{tmp_path / 'votes'}'")
    with pytest.raises(ValueError, match="data: id: '0' is also in another file; leave the copy out, or"):
        prepare(*words)
    folder = prepare(*words, "data.strict=false", "split.unseen_topics=0")
    found = counts(folder, "ingest")
    assert (found["read"], found["rejected"], found["preferences"]) == (80, 39, 41)
    assert len((folder / "stages" / "rejected.csv").read_text().splitlines()) == 1 + 39


def test_what_would_fail_in_the_end_is_said_before_the_first_stage(prepare: Any, votes: Path, tmp_path: Path) -> None:
    words = ("data=table", f"data.path='{votes}'")
    for more, sentence in (
        (
            "split.drop_leaked=[nonsuch]",
            r"split\.drop_leaked: no set 'nonsuch' is compared with; there are none; public",
        ),
        ("banks=[nowhere]", r"banks=\[nowhere\]: no such folder; give folders that hold a bank"),
        ("push_to=me/votes", "push_to: table has no licence"),
        ("push_to='my votes'", "push_to"),
        ("data.train=100", r"data\.train=100: expected 0 here"),
    ):
        with pytest.raises(ValueError, match=sentence):
            prepare(*words, more)
    assert not (tmp_path / "data").exists()


def test_known_sets_are_named(prepare: Any, votes: Path, tmp_path: Path) -> None:
    (tmp_path / "public" / "bank_alpacaeval").mkdir(parents=True)
    words = ("data=table", f"data.path='{votes}'")
    with pytest.raises(ValueError, match="no set 'alpacaeval' is compared with; there are bank_alpacaeval; public"):
        prepare(*words, "split.drop_leaked=[alpacaeval]", root="public")


def test_the_folder_of_the_dataset_can_be_written_and_holds_no_votes(tmp_path: Path) -> None:
    votes = write_votes(tmp_path / "votes" / "votes.csv", range(30))
    base = ["data=table", f"data.path='{votes.parent}'", "data.root=none", "progress=false"]
    for out in (votes.parent, votes.parent / "new", votes.parent / ".." / "votes"):
        with pytest.raises(
            ValueError, match=r"out=.*: is in .*, where the votes are read from; name a folder elsewhere"
        ):
            run_prepare(compose("prepare", [*base, f"out='{out}'"]))
    assert [path.name for path in votes.parent.iterdir()] == ["votes.csv"]
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "new"):
        with pytest.raises(ValueError, match=r"out=.*: no folder can be made there \(.*\); name another"):
            run_prepare(compose("prepare", [*base, f"out='{out}'"]))
    assert (tmp_path / "file").read_text() == "mine"


def test_an_endpoint_that_is_down_ends_the_run(prepare: Any, make_endpoint: Callable[..., Any], tmp_path: Path) -> None:
    rows = 40
    votes = write_votes(tmp_path / "votes.csv", range(rows))
    endpoint = make_endpoint(lambda text: None)
    words = ["data=table", f"data.path='{votes}'", *endpoint.settings, "split.unseen_topics=0"]
    with pytest.raises(
        ValueError, match=r"annotator: the endpoint does not answer \(status 500.*; see that it runs"
    ) as found:
        prepare(*words)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "data" / "stages" / "filter.json").exists()
    endpoint.answer = lambda text: {"subjective": True, "why": "because"} if '"subjective"' in text else None
    with pytest.raises(ValueError, match="annotator: the endpoint does not answer"):
        prepare(*words)
    assert counts(tmp_path / "data", "filter") == {"rows": rows, "kept": rows}


def test_a_key_variable_that_is_not_set_is_refused_without_its_value(
    prepare: Any, make_endpoint: Callable[..., Any], votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = make_endpoint(lambda text: None)
    words = ["data=table", f"data.path='{votes}'", *endpoint.settings]
    with pytest.raises(
        ValueError, match=r"annotator\.key_variable: no environment variable of that name is set"
    ) as found:
        prepare(*words, "annotator.key_variable=sk-secret")
    assert "sk-secret" not in str(found.value)
    monkeypatch.setenv("MY_KEY", "two words")
    with pytest.raises(ValueError, match="annotator: api_key: empty, or holds spaces"):
        prepare(*words, "annotator.key_variable=MY_KEY")
    assert not endpoint.asked


def test_another_address_is_asked_anew(prepare: Any, make_endpoint: Callable[..., Any], tmp_path: Path) -> None:
    votes = write_votes(tmp_path / "votes.csv", range(12))

    def judged(text: str) -> dict[str, Any]:
        if '"subjective"' in text:
            return {"subjective": True, "why": "because"}
        return {"criteria_a": ["Likes few words"], "criteria_b": ["Likes many words"]}

    words = ["data=table", f"data.path='{votes}'", "stages=[ingest,filter,criteria]"]
    one, two = make_endpoint(judged), make_endpoint(judged)
    prepare(*words, *one.settings)
    prepare(*words, *two.settings)
    assert len(two.asked) == len(one.asked) == 24


def test_nothing_of_an_earlier_run_stays_beside_the_new(prepare: Any, tmp_path: Path, votes_file: Path) -> None:
    words = ("data=records", f"data.path='{votes_file}'")
    folder = prepare(*words, "split.noises=[none,add]")
    prepare(*words, "split.noises=[none]")
    assert {path.stem for path in (folder / "suites").iterdir()} == {"D+", "D-", "T+", "T-", "C+", "C-"}
    assert (folder / "plots" / "criteria.png").exists()
    ties = [replace(row, winner="tie") for row in simulate(seed=3, train=100, validation=0, suite=0).train]
    path = tmp_path / "ties.jsonl"
    path.write_text("".join(to_json(row) + "\n" for row in ties), encoding="utf-8")
    prepare("data=records", f"data.path='{path}'")
    assert {path.name for path in (folder / "plots").iterdir()} == {"topics.png"}


def test_the_card_is_made_again_when_a_plot_or_what_it_tells_of_has_changed(prepare: Any, votes_file: Path) -> None:
    words = ("data=records", f"data.path='{votes_file}'")
    folder = prepare(*words)
    (folder / "plots" / "lengths.png").unlink()
    prepare(*words)
    assert (folder / "plots" / "lengths.png").exists()
    (folder / "stages" / "leakage.json").unlink()
    with pytest.raises(ValueError, match="stages: leakage has not been run"):
        prepare(*words, "stages=[card]")


def test_what_the_card_depends_on_is_among_its_inputs(whole: Path, votes_file: Path) -> None:
    words = ["data=records", f"data.path='{votes_file}'", "data.root=none", "progress=false"]
    config = compose("prepare", [*words, f"out='{whole}'"])
    read = {path.relative_to(whole).as_posix() for path in Preparation(config, Workspace(whole)).stage("card").inputs}
    assert {"stages/leakage.parquet", "stages/split.parquet", "topics/quality.csv", "splits/D.parquet"} <= read


def test_the_model_in_a_folder_is_an_input_of_the_topics(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    words = ["topic_model.embedder=sentence_transformers", f"topic_model.model='{tmp_path / 'model'}'"]
    config = compose("prepare", [*words, f"out='{tmp_path / 'data'}'"])
    assert tmp_path / "model" in Preparation(config, Workspace(tmp_path / "data")).stage("topics").inputs


def test_the_template_of_the_card_is_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "crm" / "dataset" / "prepare"
    place.mkdir(parents=True)
    (tmp_path / "crm" / "schema.py").write_text("")
    (place / "card.md.j2").write_text("one")
    monkeypatch.setattr(stages, "__file__", os.fspath(place / "stages.py"))
    first = stages.code_digest.__wrapped__()
    (place / "card.md.j2").write_text("two")
    second = stages.code_digest.__wrapped__()
    (tmp_path / "crm" / "schema.py").write_text("x = 1")
    assert len({first, second, stages.code_digest.__wrapped__()}) == 3


def test_names_of_topics_cannot_change_the_card(prepare: Any, tmp_path: Path) -> None:
    names = ["![x](http://e)", "a, b", "one\ntwo"]
    votes = write_votes(tmp_path / "votes.csv", range(60), topic=lambda n: [*names, "c", "d", "e"][n % 6])
    held_out = json.dumps(names[:2])
    folder = prepare("data=table", f"data.path='{votes}'", f"split.held_out_topics={held_out}")
    assert "held-out topics (`![x](http://e)`, `a, b`)" in (folder / "README.md").read_text()


def test_empty_suites_are_said(prepare: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    votes = write_votes(tmp_path / "votes.csv", range(3))
    with caplog.at_level("WARNING"):
        prepare("data=table", f"data.path='{votes}'", "data.test_fraction=0")
    assert "suites: all are empty" in caplog.text
