"""From votes to a dataset folder: what is in it, what is never in it, and what does not move."""

import csv
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.catalogue import stem
from crm.data.own import load_prepared, read_preferences
from crm.data.simulation.arena import simulate
from crm.data.splits import prompt_groups
from crm.prepare.run import _write, run_prepare
from crm.schema import Preference, prompt_key, to_json
from tests.endpoint.fake_endpoint import Answer, chat_endpoint, completion
from tests.made_files import write_rows

Prepare = Callable[..., Path]


@pytest.fixture(scope="session")
def votes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 simulated votes with criteria and topics, as records."""
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    rows = simulate(seed=3, train=300, validation=0, suite=0).train
    path.write_text("".join(to_json(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """``prepare("data=...", ...)`` prepares into ``tmp_path/data`` without public sets, and returns the folder."""
    return preparing(tmp_path)


def preparing(folder: Path) -> Prepare:
    def run(*overrides: str, out: str = "data", root: str = "nowhere") -> Path:
        words = [f"out='{folder / out}'", f"data.root='{folder / root}'", "progress=false", *overrides]
        return run_prepare(compose("prepare", words))

    return run


def annotator(url: str) -> tuple[str, ...]:
    return f"annotator.base_url={url}", "annotator.model=fake", "annotator.attempts=1"


PARTS = ("train", "validation", "D", "T", "C")


def rows_of(folder: Path, part: str) -> list[Preference]:
    return read_preferences(folder / "splits" / f"{part}.parquet")


def counts(folder: Path, step: str) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "local" / "counts.json").read_text())[step]
    return found


def write_bank(folder: Path, queries: list[str]) -> Path:
    lines = [{"id": str(n), "prompt": [{"role": "user", "content": text}]} for n, text in enumerate(queries)]
    write_rows(folder / "queries.jsonl", lines)
    return folder


@pytest.fixture(scope="session")
def whole(votes_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of ``votes_file``; a bank has the first ten queries, five of them changed a little. To be read only.

    Topics and broad topics are taken out of the first hundred votes, so that they have to be found.
    """
    folder = tmp_path_factory.mktemp("whole")
    rows = [json.loads(line) for line in votes_file.read_text(encoding="utf-8").splitlines()]
    for row in rows[:100]:
        row |= {"topic": None, "criteria_topics_a": [], "criteria_topics_b": []}
    queries = [row["prompt"][0]["content"] for row in rows[:10]]
    bank = write_bank(
        folder / "bank", [*(text.upper() + " " for text in queries[:5]), *map("Well, {}".format, queries[5:])]
    )
    path = write_rows(folder / "votes.jsonl", rows)
    words = [f"banks=['{bank}']", f"split.drop_leaked=['{bank}']", "split.held_out_criteria=[Humor]", "seed=7"]
    return preparing(folder)("data=file", f"data.path='{path}'", *words)


def test_a_dataset_has_every_vote_once_and_no_prompt_twice(whole: Path) -> None:
    parts = {part: rows_of(whole, part) for part in PARTS}
    assert all(parts.values())
    in_d = {row.id for row in parts["D"]}
    disjoint = [*(parts[name] for name in PARTS[:-1]), [row for row in parts["C"] if row.id not in in_d]]
    ids = [row.id for rows in disjoint for row in rows]
    split = counts(whole, "split")
    assert len(ids) == len(set(ids)) == 300 - split["leaked"] - split.get("left_out", 0)
    groups = prompt_groups([row.prompt for rows in disjoint for row in rows])
    of_part = [{groups[prompt_key(row.prompt)] for row in rows} for rows in disjoint]
    assert sum(map(len, of_part)) == len(set.union(*of_part)), "a group of near-duplicates is in one part"


def test_held_out_topics_and_criteria_are_trained_on_nowhere(whole: Path) -> None:
    topics = {part: {row.topic for row in rows_of(whole, part)} for part in PARTS}
    assert len(topics["T"]) == 2
    assert not topics["T"] & (topics["train"] | topics["validation"] | topics["D"])
    broad = {
        part: {name for row in rows_of(whole, part) for name in row.criteria_topics_a + row.criteria_topics_b}
        for part in PARTS
    }
    assert broad["C"] == {"Humor"}
    assert not any("Humor" in broad[part] for part in PARTS if part != "C")


def test_missing_topics_are_found_and_given_ones_stay(whole: Path, votes_file: Path) -> None:
    given = {row["id"]: row for row in map(json.loads, votes_file.read_text(encoding="utf-8").splitlines()[100:])}
    rows = {row.id: row for part in PARTS for row in rows_of(whole, part)}
    assert all(rows[name].topic == row["topic"] for name, row in given.items() if name in rows)
    assert all(row.topic and len(row.criteria_a) == len(row.criteria_topics_a) for row in rows.values())
    found = counts(whole, "topics")
    assert (found["rows"], found["queries_with_own_topic"], found["queries_grouped"]) == (300, 200, 100)
    for name in ("queries", "criteria"):
        with (whole / "topics" / f"{name}.csv").open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) == found[f"topics_of_{name}"] > 1


def test_leaked_queries_are_counted_and_kept_out_of_training(whole: Path) -> None:
    bank = str(whole.parent / "bank")
    found = counts(whole, "leakage")
    assert found["sets"] == 1 and 9 <= found[bank] <= 10
    trained = {row.id for part in ("train", "validation") for row in rows_of(whole, part)}
    first = [json.loads(line)["id"] for line in (whole.parent / "votes.jsonl").read_text().splitlines()[:5]]
    assert not trained & set(first)
    card = (whole / "README.md").read_text(encoding="utf-8")
    assert f"For it, {counts(whole, 'split')['leaked']} rows were left out of train and validation" in card
    assert "`C`: the prompts of `D`" in card and "(`Humor`)" in card
    assert "Say under which licence the votes may be used" in card


@pytest.mark.slow
def test_datasets_loads_the_folder(whole: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    loaded = load_dataset(str(whole), cache_dir=str(tmp_path))
    assert {name: len(rows) for name, rows in loaded.items()} == {part: len(rows_of(whole, part)) for part in PARTS}
    assert loaded["train"][0]["prompt"] == [{"role": "user", "content": rows_of(whole, "train")[0].query}]


def write_table(path: Path, rows: range, **more: Callable[[int], str]) -> Path:
    """Votes on different prompts with answers that differ in length, and further columns."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["prompt", "response_a", "response_b", "winner", *more])
        for n in rows:
            query = f"Tell me about {' '.join(digit * 3 for digit in f'{n:04}')} of {chr(97 + n % 26) * 9}"
            table.writerow([query, "word " * 9, "word " * 90, "ab"[n % 2], *(make(n) for make in more.values())])
    return path


@pytest.mark.slow
def test_a_second_run_writes_the_same_bytes_and_nothing_of_the_first_stays(prepare: Prepare, tmp_path: Path) -> None:
    names = ["![x](http://e)", "a, b", "c", "d", "e", "f"]
    votes = write_table(tmp_path / "votes.csv", range(60), topic=lambda n: names[n % 6])
    words = ("data=file", f"data.path='{votes}'", f"split.held_out_topics={json.dumps(names[:1])}")
    folder = prepare(*words)
    first = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    assert len(first) == 5
    (folder / "topics").mkdir(exist_ok=True)
    (folder / "topics/queries.csv").write_text("of an earlier run")
    prepare(*words)
    assert first == {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    assert not (folder / "topics/queries.csv").exists()
    assert "held-out topics (`![x](http://e)`)" in (folder / "README.md").read_text(), "names cannot change the card"
    assert counts(folder, "criteria") == {"described": 60}


def test_a_set_for_evaluation_is_one_suite(prepare: Prepare, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Write a poem"}, {"role": "assistant", "content": "Roses"}]
    other = [turns[0], {"role": "assistant", "content": "Violets"}]
    row = {"prompt": "Write a poem", "model_a": turns, "model_b": other, "criteria": ["short"], "preference": "model_a"}
    path = write_rows(tmp_path / "eval.jsonl", [{"idx": n, **row} for n in range(3)])
    folder = prepare("data=file", f"data.path='{path}'", "license=MIT")
    assert "MIT, as stated by whoever prepared this dataset." in (folder / "README.md").read_text()
    assert {part: len(rows_of(folder, part)) for part in PARTS} == {"train": 0, "validation": 0, "D": 3, "T": 0, "C": 0}


def judged(text: str) -> dict[str, Any]:
    """Replies of a model that finds every question about a setting objective."""
    if '"subjective"' in text:
        return {"subjective": "setting" not in text, "why": "because"}
    return {"criteria_a": ["Likes what A has"], "criteria_b": ["Likes what B has"]}


@pytest.mark.slow
def test_a_model_filters_writes_criteria_and_is_asked_again_only_for_what_failed(
    prepare: Prepare, votes_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, names = tmp_path / "bare.jsonl", ("id", "prompt", "response_a", "response_b", "winner")
    rows = [json.loads(line) for line in votes_file.read_text(encoding="utf-8").splitlines()[:60]]
    write_rows(path, [{name: row[name] for name in names} for row in rows])
    queries = [row["prompt"][0]["content"] for row in rows]
    objective = sum("setting" in query for query in queries)
    broken, asked = [query for query in queries if "setting" not in query][:7], list[str]()

    def answer(body: dict[str, Any], _: object) -> Answer:
        asked.append("\n".join(turn["content"] for turn in body["messages"]))
        down = any(json.dumps(query)[1:-1] in asked[-1] for query in broken)
        return (500, "{}") if down else completion(json.dumps(judged(asked[-1])))

    with chat_endpoint(answer) as url, caplog.at_level(logging.INFO):
        words = ["data=file", f"data.path='{path}'", "split.unseen_topics=0", *annotator(url)]
        words.append("annotator.concurrency=1")
        prepare(*words, "dry_run=true")
        assert "dry run: filter: 60 calls (0 more are cached)" in caplog.text
        assert not asked
        folder = prepare(*words)
        assert counts(folder, "filter") == {"dropped": objective, "failed:server_error": 7, "kept": 53 - objective}
        assert counts(folder, "criteria") == {"extracted": 53 - objective, "failed:server_error": 7}
        assert "criteria: 7 requests failed (server_error: status 500: {}); run the same command" in caplog.text
        broken.clear()
        asked.clear()
        prepare(*words)
        assert counts(folder, "criteria") == {"extracted": 60 - objective}
        assert len(asked) == 2 * 7


@pytest.mark.slow
def test_an_endpoint_that_is_down_ends_the_run(prepare: Prepare, tmp_path: Path) -> None:
    votes = write_table(tmp_path / "votes.csv", range(12))
    message = r"annotator: no answer .* can be used \(status 500.*; check that it runs"
    with chat_endpoint(lambda *_: (500, "{}")) as url, pytest.raises(ValueError, match=message):
        prepare("data=file", f"data.path='{votes}'", *annotator(url))
    assert not (tmp_path / "data" / "README.md").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("split.drop_leaked=[x]", r"split\.drop_leaked: 'x' is not there; there are bank_alpacaeval"),
        ("split.held_out_topics=[Cooking]", r"split\.held_out_topics: 'Cooking' is not there; there are "),
        ("data.max_words=9", r"data\.max_words=9: expected 0 here, as votes are prepared whole"),
        ("topic_model.count=99", "count: 99 topics of 40 distinct texts"),
        ("out={votes}/new", r"out=.*: is in .*, where the votes are; name a folder elsewhere"),
    ],
)
def test_mistakes(prepare: Prepare, tmp_path: Path, words: str, sentence: str) -> None:
    votes = write_table(tmp_path / "votes" / "votes.csv", range(40)).parent
    (tmp_path / "public" / "bank_alpacaeval").mkdir(parents=True)
    words = words.format(votes=votes)
    with pytest.raises(ValueError, match=sentence):
        prepare("data=file", f"data.path='{votes}'", words, root="public")


def test_parts_of_two_runs_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, list[Preference]] = {part: [] for part in PARTS}
    _write(tmp_path, parts, {})
    assert load_prepared(tmp_path).rows == []

    def stopped(path: Path, rows: object) -> None:
        if path.name == "D.parquet":
            raise KeyboardInterrupt

    monkeypatch.setattr("crm.prepare.run.write_preferences", stopped)
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path, parts, {})
    with pytest.raises(ValueError, match=r"its last prepare\.py was stopped while it wrote"):
        load_prepared(tmp_path)


def test_without_out_a_dataset_of_other_votes_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(path: str, *more: str) -> Path:
        write_table(tmp_path / path, range(6))
        return run_prepare(compose("prepare", ["data=file", f"data.path={path}", "dry_run=true", *more]))

    assert run("a/votes.2024.csv") == run("a/votes.2024.csv") == Path("datasets/votes.2024")
    assert run("a/votes.2025.csv") == Path("datasets/votes.2025")
    why = r"out: not given, and datasets/votes.2024 was made of \S+/a/votes.2024.csv; name a folder, such as out=\S+_2$"
    with pytest.raises(ValueError, match=why):
        run("b/votes.2024.csv")
    run("b/votes.2024.csv", "out=datasets/votes.2024")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/votes.csv.gz", "votes"),
        ("a/v1.5/", "v1.5"),
        ("a/train-*", "train"),
        ("hf://owner/votes.v2@refs/pr/1", "votes.v2"),
        ("hf://datasets/owner/votes/chats:test", "votes-chats-test"),
    ],
)
def test_the_usual_name_of_a_dataset(path: str, name: str) -> None:
    assert stem(path) == name


def test_rows_that_cannot_be_read_are_listed(
    prepare: Prepare, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, rows in (("one", range(40)), ("two", range(40, 80))):
        write_table(tmp_path / "votes" / f"{name}.csv", rows, id=lambda n: str(n % 40 if n != 77 else n))
    words = ("data=file", f"data.path='{tmp_path / 'votes'}'", "data.test_fraction=0", "split.unseen_topics=0")
    with pytest.raises(ValueError, match=r"two\.csv:\d+: id: '0' is already at \S+one\.csv:\d+; ids must be unique"):
        prepare(*words)
    folder = prepare(*words, "data.strict=false", "split.unseen_criteria=0")
    found = counts(folder, "read")
    assert (found["read"], found["rejected"], found["preferences"]) == (80, 39, 41)
    assert len((folder / "local" / "rejected.csv").read_text().splitlines()) == 1 + 39
    assert "suites: all are empty" in caplog.text
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match="no row is left to train on, of 0 rows"):
        prepare("data=file", "data.name=records", f"data.path='{tmp_path / 'empty.jsonl'}'")
