"""From votes to a dataset folder: what is in it, where each row goes, what does not move; sets that are fetched."""

import csv
import gzip
import json
import logging
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from crm.config import compose
from crm.data.catalogue import PUBLIC, source_named, stem
from crm.data.config import DataConfig
from crm.data.own import load_prepared, read_preferences
from crm.data.public.banks import FOLDERS
from crm.data.simulation.arena import simulate
from crm.data.splits import prompt_groups
from crm.io.rows import Intake
from crm.leaderboard.bank.opening import read_public_bank
from crm.prepare.config import SplitConfig
from crm.prepare.fetch import UNLICENSED, published
from crm.prepare.run import _write, run_prepare
from crm.prepare.split import divide, draw_topics, place
from crm.schema import Message, Preference, prompt_key, to_json
from tests.endpoint.fake_endpoint import Answer, chat_endpoint, completion
from tests.made_files import DATA_ROOT, write_rows

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


def test_parts_of_two_runs_are_not_read(tmp_path: Path) -> None:
    parts: dict[str, Any] = {part: [] for part in PARTS}
    _write(tmp_path, parts, {})
    assert load_prepared(tmp_path).rows == []
    with pytest.raises(TypeError):
        _write(tmp_path, parts | {"D": None}, {})
    with pytest.raises(ValueError, match=r"run prepare\.py again"):
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


def test_rows_that_cannot_be_read_are_listed(prepare: Prepare, tmp_path: Path, caplog: Any) -> None:
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


def row(criteria: str = "", topics: str = "", **changes: object) -> Preference:
    say = (Message("assistant", "x"),)
    facts = {
        "id": "1",
        "prompt": (Message("user", "q"),),
        "criteria_a": tuple(criteria.split()),
        "criteria_topics_a": tuple(topics.split()),
        "criteria_b": ("other",),
        "criteria_topics_b": ("Z",),
    }
    return Preference(response_a=say, response_b=say, winner="a", **{**facts, **changes})  # type: ignore[arg-type]


def test_drawn_topics_depend_on_names_and_seed_and_leave_enough_to_train_on() -> None:
    counts = Counter(dict.fromkeys("ABCDEFGHIJ", 10))
    two = draw_topics(counts, 2, seed=1)
    assert len(two) == 2
    assert two == draw_topics(Counter(dict(reversed(counts.items()))), 2, seed=1)
    assert set(two) <= set(draw_topics(counts + Counter(dict.fromkeys("KLMN", 1)), 14, seed=1))
    assert len({draw_topics(counts, 2, seed) for seed in range(20)}) > 5
    assert len(draw_topics(counts, 10, seed=1)) == 7, "three are left"
    assert draw_topics(Counter("ABCD"), 2, seed=1) == (), "each of four has more than a fifth of the rows"
    assert "Other" not in draw_topics(Counter({"Other": 1, **dict.fromkeys("ABCDEF", 6)}), 7, seed=1)


def test_criteria_are_divided_by_their_own_topic_or_where_unpaired_by_all() -> None:
    other, held_out = divide(row("one two three", "X Y X"), {"X"})
    assert (held_out.criteria_a, held_out.criteria_topics_a, held_out.criteria_b) == (("one", "three"), ("X", "X"), ())
    assert (other.criteria_a, other.criteria_topics_a, other.criteria_b) == (("two",), ("Y",), ("other",))
    assert [side.criteria_a for side in divide(row("one two three", "X Y"), {"X"})] == [(), ()]
    rest, all_held_out = divide(row("one two three", "X Y"), {"X", "Y"})
    assert (rest.criteria_a, all_held_out.criteria_a) == ((), ("one", "two", "three"))
    assert divide(row("one two", "X Y"), ())[0] == row("one two", "X Y")


def test_held_out_criteria_are_in_c_only() -> None:
    rows = [
        row("one two", "X Y", id=f"{n}", prompt=(Message("user", f"{n * 7} {word * 9}"),), topic="T" if n < 5 else "t")
        for n, word in enumerate("abcdefghijklmnopqrstuvwxyz")
    ]
    leaked = {rows[20].query}
    data, chosen = DataConfig(test_fraction=0.4), SplitConfig(held_out_topics=["T"], held_out_criteria=["Y"])
    placed = place(rows, chosen, data, leaked_queries=leaked)
    criteria = {part: {(own.criteria_a, own.criteria_b) for own in found} for part, found in placed.parts.items()}
    assert criteria.pop("C") == {(("two",), ())}
    assert set(map(frozenset, criteria.values())) == {frozenset({(("one",), ("other",))})}
    assert [own.id for own in placed.parts["T"]] == [own.id for own in rows[:5]]
    assert [own.id for own in placed.parts["C"]] == [own.id for own in placed.parts["D"]]
    assert "20" not in {own.id for part in ("train", "validation") for own in placed.parts[part]}
    again = row("one two", "X Y", id="again", prompt=(Message("user", rows[0].query.upper()),), topic="t")
    beside = place([*rows, again], chosen, data)
    assert beside.counts["left_out"] == 1 and "again" not in {own.id for part in beside.parts.values() for own in part}
    everything = place(rows, chosen, data, all_test=True)
    assert everything.parts["D"] == rows and everything.counts["test"] == 26


def test_prompts_about_which_only_held_out_criteria_speak_are_suite_c() -> None:
    """Two users with prompts of their own, as in sets of personas; one of them is held out."""
    rows = [
        row(user, user, id=f"{user}-{word}", prompt=(Message("user", f"{user} asks about {word * 9}"),), criteria_b=())
        for user in ("anna", "boris")
        for word in "abcdefghijklmnopqrstuvwxyz"
    ]
    placed = place(rows, SplitConfig(unseen_topics=0, held_out_criteria=["boris"]), DataConfig())
    assert {row.id for row in placed.parts["C"]} == {row.id for row in rows[26:]}
    assert sum(len(placed.parts[part]) for part in ("train", "validation", "D")) == 26


def test_nothing_left_to_train_on() -> None:
    rows = [row("one", "X", id=str(n), topic="only") for n in range(3)]
    with pytest.raises(ValueError, match="split: no row is left to train on, of 3 rows with 1 different prompts in 1"):
        place(rows, SplitConfig(held_out_topics=["only"]), DataConfig())


ADDED = ("autoj", "cot_rationales", "d2t", "pandalm", "personas8", "prefeval", "prometheus_hhh", "rmb")
ADDED += ("topicalchat", "vibecheck_arena")


@pytest.mark.parametrize("name", [name for name in (*PUBLIC, *ADDED) if name != "summeval"])
def test_files_are_those_of_one_commit_and_licences_are_the_catalogues(name: str) -> None:
    source, found = source_named(name), published(name)
    assert found.get("licence") == source.license
    at = re.fullmatch(r"https://raw\.githubusercontent\.com/([\w-]+/[\w-]+)/[0-9a-f]{40}", found["source"])
    assert at, "a repository at one commit"
    for file, pin in found["files"].items():
        address = urljoin(f"{found['source']}/", pin["url"])
        assert re.fullmatch(rf"https://raw\.githubusercontent\.com/{at[1]}/[0-9a-f]{{40}}/[\w./%-]+", address)
        assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
        assert file.startswith(f"{source.folder}/") and ".." not in file


@pytest.mark.parametrize("name", ["justeval", "autoj", pytest.param("llmbar", marks=pytest.mark.slow)])
def test_a_fetched_set_is_the_copy_at_hand(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The copy may be compressed here or there; the pins are of the content."""
    found, mirror, out = published(name), tmp_path / "mirror", tmp_path / "out"
    for file in found["files"]:
        copy, packed = DATA_ROOT / file, DATA_ROOT / f"{file}.gz"
        if not copy.is_file() and not packed.is_file():
            pytest.skip(f"no {file} under {DATA_ROOT}; set CRM_DATA_ROOT")
        (mirror / file).parent.mkdir(parents=True, exist_ok=True)
        (mirror / file).write_bytes(copy.read_bytes() if copy.is_file() else gzip.decompress(packed.read_bytes()))
    config = compose("prepare", [f"fetch={name}", f"out='{out}'", f"mirror='{mirror}'", "progress=false"])
    with caplog.at_level(logging.INFO):
        assert run_prepare(config) == out
        run_prepare(config)
    count, kind = len(found["files"]), "bank" if name in FOLDERS else "data"
    assert [line for line in caplog.messages if line.startswith((name, "use"))] == [
        f"{name}: {count} files of {found['source']}; licence: {found.get('licence', UNLICENSED)}",
        f"{name}: {count} files fetched, 0 were there already ({out})",
        f"use it as {kind}={name} {kind}.root={out}",
        f"{name}: {count} files of {found['source']}; licence: {found.get('licence', UNLICENSED)}",
        f"{name}: 0 files fetched, {count} were there already ({out})",
        f"use it as {kind}={name} {kind}.root={out}",
    ]
    if kind == "bank":
        assert read_public_bank(name, str(out)) == read_public_bank(name, str(DATA_ROOT))
    else:
        read, folder = source_named(name).read, str(source_named(name).folder)
        theirs, ours = (list(read(root / folder, Intake(strict=True))) for root in (DATA_ROOT, out))
        assert ours == theirs


def test_what_cannot_be_fetched_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "pandalm").mkdir()
    (tmp_path / "pandalm/LICENSE").write_text("mine")
    for words, message in (
        (["fetch=summeval"], r"^fetch=summeval: the package that adds it lists no files to fetch; its README says"),
        (
            ["fetch=pandalm", f"mirror='{tmp_path}'"],
            r"fetch: pandalm/LICENSE: has SHA-256 \w{12}\.\.\., expected .*cut",
        ),
        (["fetch=autoj", f"mirror='{tmp_path}'"], r"fetch: .*/autoj/\S+: cannot be fetched .* mirror=<folder>"),
    ):
        with pytest.raises(ValueError, match=message):
            run_prepare(compose("prepare", [*words, f"out='{tmp_path / 'out'}'", "progress=false"]))
