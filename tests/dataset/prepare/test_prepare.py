"""From votes to a dataset folder: what is in it, what is never in it, and what does not move."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from crm.config import compose
from crm.criteria.topics.taxonomy import PAPER_TOPICS
from crm.dataset.noise import CriteriaPool
from crm.dataset.suites import draw_suite, fixed_suites
from crm.io.parquet import read_parquet, read_rows
from crm.schema import Comparison, Preference, prompt_key
from crm.votes.own import dataset
from crm.votes.splits import prompt_groups

pytestmark = pytest.mark.slow

PARTS = ("train", "validation", "D", "T", "C")


def rows_of(folder: Path, part: str) -> list[Preference]:
    return list(read_parquet(folder / "splits" / f"{part}.parquet", Preference))


def counts(folder: Path, stage: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "stages" / f"{stage}.json").read_text())["counts"]
    return found


def home(folder: Path) -> dict[str, str]:
    return {row["id"]: row["part"] for row in read_rows(folder / "stages" / "split.parquet", ["id", "part"])}


def test_a_dataset_holds_every_vote_once_and_no_prompt_twice(whole: Path) -> None:
    folder = whole
    parts = {part: rows_of(folder, part) for part in PARTS}
    assert all(parts.values())
    for_c = {name for name, part in home(folder).items() if part == "unseen_criteria"}
    only_c = [row for row in parts["C"] if row.id in for_c]
    disjoint = [*(parts[name] for name in ("train", "validation", "D", "T")), only_c]
    ids = [row.id for rows in disjoint for row in rows]
    assert len(ids) == len(set(ids)) == counts(folder, "dataset")["rows"]
    assert len(ids) + counts(folder, "split").get("left_out", 0) == 300
    groups = prompt_groups([row.prompt for rows in disjoint for row in rows])
    of_part = [{groups[prompt_key(row.prompt)] for row in rows} for rows in disjoint]
    assert sum(map(len, of_part)) == len(set.union(*of_part)), "a group of near-duplicates is in one part"
    assert {row.id for row in parts["C"]} <= {row.id for row in parts["D"]} | for_c


def test_what_is_held_out_is_trained_on_nowhere(prepare: Any, votes_file: Path) -> None:
    folder = prepare("data=records", f"data.path='{votes_file}'", "split.held_out_criteria=[Humor]")
    topics = {part: {row.topic for row in rows_of(folder, part)} for part in PARTS}
    assert not topics["T"] & (topics["train"] | topics["validation"] | topics["D"])
    assert len(topics["T"]) == 2
    broad = {
        part: {name for row in rows_of(folder, part) for name in row.criteria_topics_a + row.criteria_topics_b}
        for part in PARTS
    }
    assert broad["C"] == {"Humor"}
    assert not any("Humor" in broad[part] for part in PARTS if part != "C")
    wanted = {text for row in rows_of(folder, "C") for text in row.criteria_a + row.criteria_b}
    trained = {text for row in rows_of(folder, "train") for text in row.criteria_a + row.criteria_b}
    assert wanted
    assert not wanted & trained


def test_prompts_about_which_only_held_out_criteria_speak_are_suite_c(prepare: Any, tmp_path: Path) -> None:
    """Two users with prompts of their own, as in sets of personas; one of them is held out."""
    say = {"response_a": [{"role": "assistant", "content": "x"}], "response_b": [{"role": "assistant", "content": "y"}]}
    rows = [
        {"id": f"{user}-{n}", "prompt": [{"role": "user", "content": f"{user} asks about {word * 9}"}], "winner": "a"}
        | {**say, "criteria_a": [f"as {user} likes it"], "criteria_topics_a": [user]}
        for user in ("anna", "boris")
        for n, word in enumerate("abcdefghijklmnopqrstuvwxyz")
    ]
    path = tmp_path / "users.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = prepare("data=records", f"data.path='{path}'", "split.unseen_topics=0", "split.held_out_criteria=[boris]")
    assert {row.id for row in rows_of(folder, "C")} == {f"boris-{n}" for n in range(26)}
    seen = [row.id for part in ("train", "validation", "D") for row in rows_of(folder, part)]
    assert sorted(seen) == sorted(f"anna-{n}" for n in range(26))


def test_a_second_run_makes_nothing_and_a_new_seed_splits_again(prepare: Any, votes_file: Path) -> None:
    words = ("data=records", f"data.path='{votes_file}'")
    folder = prepare(*words)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    prepare(*words)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    prepare(*words, "split.noises=[none]")
    changed = {path.name for path in before if path.exists() and path.stat().st_mtime_ns != before[path]}
    assert {"D+.parquet", "README.md"} <= changed
    assert not {"ingest.parquet", "train.parquet", "topics.parquet"} & changed


def test_the_same_votes_give_the_same_bytes(prepare: Any, votes_file: Path, whole: Path) -> None:
    one, two = whole, prepare("data=records", f"data.path='{votes_file}'", "seed=7")
    files = [path.relative_to(one) for path in one.rglob("*.parquet")]
    assert len(files) > 30
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file


def test_votes_that_are_added_move_no_old_one(prepare: Any, votes_file: Path, tmp_path: Path) -> None:
    lines = votes_file.read_text(encoding="utf-8").splitlines(keepends=True)
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text("".join(lines[150:]), encoding="utf-8")
    named = ("split.held_out_topics=['Gaming & Virtual Worlds']", "split.unseen_criteria=0")
    old = home(prepare("data=records", f"data.path='{fewer}'", *named, out="old"))
    new = home(prepare("data=records", f"data.path='{votes_file}'", *named, out="new"))
    moved = [name for name, part in old.items() if new[name] != part]
    joined = len(moved)  # only rows whose group of near-duplicates has grown may move
    assert joined <= 0.02 * len(old)


def test_suites_are_drawn_with_the_seed_of_the_dataset_and_read_by_every_evaluation(whole: Path) -> None:
    folder = whole
    splits = dataset.load(folder)
    assert set(splits.suites) == {"D", "T", "C"}
    pool = CriteriaPool.from_preferences(splits.train)
    for name in ("D+", "D-", "T-_add", "C+", "D+_replace"):
        written = list(read_parquet(folder / "suites" / f"{name}.parquet", Comparison))
        assert written == draw_suite(name, splits.suites, pool, seed=7)[0]
        assert written == fixed_suites([name], splits, written=folder)[name][0]
        assert written


def test_datasets_loads_the_folder(whole: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    folder = whole
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in loaded.items()} == {part: len(rows_of(folder, part)) for part in PARTS}
    first = rows_of(folder, "train")[0]
    assert loaded["train"][0]["prompt"] == [{"role": "user", "content": first.query}]
    suites = load_dataset(str(folder), "suites", cache_dir=str(tmp_path / "cache"))
    assert len(suites["D_minus_add"]) == counts(folder, "suites")["D-_add"] > 0


def test_leakage_is_found_exactly_and_nearly_and_kept_out_of_training(
    prepare: Any, votes_file: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in votes_file.read_text(encoding="utf-8").splitlines()]
    plain = prepare("data=records", f"data.path='{votes_file}'", "split.unseen_topics=0", out="plain")
    trained = [row for row in rows if home(plain)[row["id"]] == "train"]
    exact = [row["prompt"][0]["content"].upper() + "  " for row in trained[:3]]
    near = ["Well, " + row["prompt"][0]["content"] for row in trained[3:5] if len(row["prompt"][0]["content"]) > 40]
    bank = tmp_path / "bank"
    bank.mkdir()
    (bank / "bank.json").write_text('{"name": "mine", "baseline": "x"}')
    queries = [
        {"id": str(n), "prompt": [{"role": "user", "content": text}], "topic": "t"}
        for n, text in enumerate([*exact, *near, "A query that nobody has asked in any vote so far, I believe"])
    ]
    (bank / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    answers = [{"author": "x", "query_id": query["id"], "text": "y"} for query in queries]
    (bank / "responses.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    words = ("data=records", f"data.path='{votes_file}'", "split.unseen_topics=0", f"banks=['{bank}']")
    folder = prepare(*words, f"split.drop_leaked=['{bank}']", out="dropped")
    found = counts(folder, "leakage")
    assert found["sets"] == 1
    assert found[f"{bank}_exact"] == len(exact)
    assert found[f"{bank}_near"] >= len(near) > 0
    leaked = {name for name, part in home(folder).items() if part == "leaked"}
    assert {row["id"] for row in trained[:3]} <= leaked
    assert not leaked & {row.id for row in rows_of(folder, "train") + rows_of(folder, "validation")}
    assert f"For it, {len(leaked)} rows were left out" in (folder / "README.md").read_text()


def judged(text: str) -> dict[str, Any] | None:
    """Verdicts and criteria of a model that finds every question about a setting objective."""
    if "Name the topic" in text:
        return {"name": "About " + text.split("Keywords: ")[1].split(",")[0]}
    if '"subjective"' in text:
        return {"subjective": "setting" not in text, "why": "because"}
    return {"criteria_a": ["Likes what A has"], "criteria_b": ["Likes what B has"]}


@pytest.fixture
def bare_votes(votes_file: Path, tmp_path: Path) -> Path:
    """60 votes without criteria and topics."""
    path = tmp_path / "bare.jsonl"
    names = ("id", "prompt", "response_a", "response_b", "winner")
    rows = [json.loads(line) for line in votes_file.read_text(encoding="utf-8").splitlines()[:60]]
    path.write_text("".join(json.dumps({name: row[name] for name in names}) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_model_filters_and_writes_criteria_and_is_asked_again_only_for_what_failed(
    prepare: Any, make_endpoint: Callable[..., Any], bare_votes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRM_API_KEY", "secret")
    queries = [json.loads(line)["prompt"][0]["content"] for line in bare_votes.read_text(encoding="utf-8").splitlines()]
    out = sum("setting" in query for query in queries)
    assert 0 < out < 30
    broken = [query for query in queries if "setting" not in query][:7]
    down = make_endpoint(lambda text: None if any(json.dumps(q)[1:-1] in text for q in broken) else judged(text))
    words = [
        "data=records",
        f"data.path='{bare_votes}'",
        "split.unseen_topics=0",
        *down.settings,
        "annotator.concurrency=2",
    ]
    folder = prepare(*words)
    verdicts, written = counts(folder, "filter"), counts(folder, "criteria")
    assert verdicts == {"rows": 60, "dropped": out, "failed:server_error": 7, "kept": 53 - out}
    assert written == {"rows": 60, "dropped": out, "extracted": 53 - out, "failed:server_error": 7}
    assert down.keys == {"Bearer secret"}
    assert not any("secret" in path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    for row in rows_of(folder, "train"):
        assert (row.criteria_a == ("Likes what A has",)) != (row.query in broken), "a failed row has no criteria"
    down.asked.clear()
    down.answer = judged
    prepare(*words)
    again = [text for text in down.asked if "Name the topic" not in text]
    assert len(again) == 14, "the seven that failed, once for each stage"
    assert counts(folder, "criteria") == {"rows": 60, "dropped": out, "extracted": 60 - out}
    down.asked.clear()
    prepare(*words)
    assert not down.asked
    found = counts(folder, "topics")
    assert (found["queries_named"], found["failed_names_of_queries"]) == (found["queries_topics"], 0)
    assert all(str(row.topic).startswith("About ") for row in rows_of(folder, "train"))


def test_a_dry_run_asks_nobody_and_says_what_it_would_cost(
    prepare: Any, make_endpoint: Callable[..., Any], bare_votes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = make_endpoint(judged)
    words = ["data=records", f"data.path='{bare_votes}'", *endpoint.settings]
    with caplog.at_level("INFO"):
        folder = prepare(*words, "dry_run=true")
    assert not endpoint.asked
    said = [record.getMessage() for record in caplog.records if "dry run" in record.getMessage()]
    assert [text.split(":")[1].strip() for text in said] == ["filter", "criteria"]
    assert all("60 calls (0 more are answered already)" in text for text in said)
    assert not (folder / "splits").exists()
    prepare(*words, "split.unseen_topics=0")
    assert sum("Name the topic" not in text for text in endpoint.asked) <= 120
    caplog.clear()
    with caplog.at_level("INFO"):
        prepare(*words, "dry_run=true")
    assert "filter: 0 calls (60 more are answered already)" in caplog.text


def test_without_a_model_traits_stand_in_for_criteria(prepare: Any, bare_votes: Path) -> None:
    folder = prepare("data=records", f"data.path='{bare_votes}'", "split.unseen_topics=0", "split.unseen_criteria=0")
    written = counts(folder, "criteria")
    assert written["rows"] == 60 == sum(written.values()) - 60
    assert written["described"] > 20
    assert "a first guess from traits" in (folder / "README.md").read_text()


def test_a_set_to_be_measured_on_is_one_suite(prepare: Any, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Write a poem"}, {"role": "assistant", "content": "Roses"}]
    other = [turns[0], {"role": "assistant", "content": "Violets"}]
    row = {"prompt": "Write a poem", "model_a": turns, "model_b": other, "criteria": ["short"], "preference": "model_a"}
    path = tmp_path / "eval.jsonl"
    path.write_text("".join(json.dumps({"idx": n, **row}) + "\n" for n in range(3)))
    folder = prepare("data=eval_rows", f"data.path='{path}'")
    assert {part: len(rows_of(folder, part)) for part in PARTS} == {"train": 0, "validation": 0, "D": 3, "T": 0, "C": 0}
    assert list(dataset.load(folder).suites) == ["D"]


@pytest.mark.parametrize("own", [False, True])
def test_a_taxonomy_names_the_topics(prepare: Any, bare_votes: Path, own: bool) -> None:
    names = {"Poetry", "Rest"} if own else set(PAPER_TOPICS)
    words = ["topic_model=taxonomy", *(["topic_model.names={Poetry: poem, Rest: setting}"] if own else [])]
    folder = prepare("data=records", f"data.path='{bare_votes}'", *words, "split.unseen_topics=0")
    found = {row.topic for part in PARTS for row in rows_of(folder, part)}
    assert found <= names | {"Other"}
    assert len(found & names) > 1
    assert "Silhouette" in (folder / "README.md").read_text()


def test_two_runs_do_not_write_into_one_folder(prepare: Any, bare_votes: Path, tmp_path: Path) -> None:
    folder = prepare("data=records", f"data.path='{bare_votes}'", "stages=[ingest]")
    with FileLock(folder / "stages" / ".lock"), pytest.raises(ValueError, match="another run is at work there"):
        prepare("data=records", f"data.path='{bare_votes}'", "split.unseen_topics=0")


def test_a_stage_left_out_is_not_taken_for_one_with_other_settings(prepare: Any, bare_votes: Path) -> None:
    words = ("data=records", f"data.path='{bare_votes}'", "split.unseen_topics=0")
    prepare(*words, "stages=[ingest,filter,criteria,topics]")
    with pytest.raises(ValueError, match="stages: topics was made of other data, settings or code"):
        prepare(*words, "topic_model.count=2", "stages=[split,dataset]")


def test_mistakes_are_said_in_a_sentence(prepare: Any, votes_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"split\.held_out_topics: no row has 'Cooking'; there are Arts & Culture"):
        prepare("data=records", f"data.path='{votes_file}'", "split.held_out_topics=[Cooking]")
    with pytest.raises(ValueError, match="stages: filter has not been run"):
        prepare("data=records", f"data.path='{votes_file}'", "stages=[ingest,split]", out="new")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(ValueError, match="no preference could be made of 0 rows"):
        prepare("data=records", f"data.path='{empty}'", out="none")
    with pytest.raises(ValueError, match=r"annotator\.base_url=None: expected a value for annotator=openai"):
        compose("prepare", ["annotator=openai"])
