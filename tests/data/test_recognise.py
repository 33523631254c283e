"""``data=<file>``: files as strangers have them, read to the last field, and files that no format or several fit."""

import logging
import shlex
from pathlib import Path
from typing import Any

import datasets
import pytest

from crm.config import compose
from crm.data.config import DataConfig
from crm.data.load import read_source
from crm.data.recognise import recognise
from crm.io.rows import Intake
from crm.schema import Message, Preference
from tests.data.test_own import EVERY
from tests.made_files import chat
from tests.made_files import write_rows as write


def read(path: Path | str) -> list[Preference]:
    """The records, as ``python train.py data=<path>`` reads them."""
    return list(read_source(DataConfig(name="file", root="", path=str(path)), Intake(strict=True)))


def of_winner(record: Preference) -> tuple[str, str, str, tuple[str, ...]]:
    """Prompt, the better response, the other, the criteria of the better; of a tie A is better."""
    sides = [(record.response_a[-1].content, record.criteria_a), (record.response_b[-1].content, record.criteria_b)]
    better, other = sides[::-1] if record.winner == "b" else sides
    return record.prompt[-1].content, better[0], other[0], better[1]


PLAIN = {"prompt": "Why?", "chosen": "So.", "rejected": "Because."}
UNDER = {"question": "Why?", "chosen": "So.", "rejected": "Because."}
MARKED = "\n\nHuman: Why?\n\nAssistant:"
WHOLE = {"chosen": chat("Why?", "So."), "rejected": chat("Why?", "Because.")}
VOTE = {"question": "Why?", "answer_a": "So.", "answer_b": "Because.", "preferred": "a"}
HELPSTEER3 = {
    "domain": "general",
    "language": "english",
    "context": chat("Hello", "Hi", "Why?"),
    "response1": "So.",
    "response2": "Because.",
    "overall_preference": -2,
    "individual_preference": [{"score": -2}],
}
BY_AUTHOR = {"prompt": "Why?", "response_1": "Because.", "response_2": "So.", "model_1": "x", "model_2": "y"}
CAPITALS = {"Question": "Why?", "Answer 1": "Because.", "Answer 2": "So.", "Preferred": "Answer 2"}
CAPITAL_PAIR = {"Prompt": "Why?", "Chosen": "So.", "Rejected": "Because."}
TWO = ["short", "kind"]
TOPICS = {"a_criteria": TWO, "a_broad_criteria_topic": ["Length", "Tone"]}
READ: dict[str, tuple[str, str, dict[str, Any]]] = {
    "trl": ("pairs.jsonl", "trl", PLAIN),
    "trl, messages and a prompt": ("pairs.parquet", "trl", WHOLE | {"prompt": "Why?"}),
    "trl, criteria": ("pairs.jsonl", "trl", PLAIN | {"criteria": ["short", "kind"]}),
    "trl, criteria as text": ("pairs.jsonl", "trl", PLAIN | {"criteria": "short; kind"}),
    "trl, system": ("pairs.jsonl", "trl", PLAIN | {"topic": "Art", "system": "Be kind."}),
    "trl, marks": ("pairs.jsonl", "trl", PLAIN | {"topic": "Art", "prompt": MARKED}),
    "pairs in capitals, criteria": ("a.csv", "table", CAPITAL_PAIR | {"Criteria": "short; kind"}),
    "pairs under a question": ("a.tsv", "table", UNDER),
    "pairs under a question, system": ("a.tsv", "table", UNDER | {"system": "Be kind."}),
    "pairs under a question, marks": ("a.csv", "table", UNDER | {"question": MARKED}),
    "votes": ("votes.csv", "table", VOTE),
    "votes, in capitals": ("votes.csv", "table", CAPITALS),
    "votes, of the page": ("picks.csv", "table", {"query": "Why?", "a": "Because.", "b": "So.", "winner": "b"}),
    "votes, by author": ("votes.json", "table", BY_AUTHOR | {"winner": "y"}),
    "helpsteer3": ("train.jsonl.gz", "table", HELPSTEER3),
    "arena": ("arena.jsonl", "arena", EVERY["arena"][1]("So.", "Because.")),
    "arena 55k": ("arena.csv", "arena", EVERY["arena 55k"][1]("So.", "Because.")),
    "records, criteria": ("votes.jsonl", "records", EVERY["records"][1]("So.", "Because.") | {"criteria_a": TWO}),
    "train_rows, criteria": ("rows.jsonl", "train_rows", EVERY["train_rows"][1]("So.", "Because.") | TOPICS),
    "eval_rows, criteria": ("rows.jsonl", "eval_rows", EVERY["eval_rows"][1]("So.", "Because.") | {"criteria": TWO}),
}
"""File, source, row; in every one "So." is the better response, and with criteria they are short and kind."""


@pytest.mark.parametrize("case", READ)
def test_files_as_strangers_have_them(case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, name, row = READ[case]
    path = write(tmp_path / file, [row])
    with caplog.at_level(logging.INFO):
        (record,) = read(path)
    assert recognise(str(path)).name == name
    assert of_winner(record) == ("Why?", "So.", "Because.", ("short", "kind") if "criteria" in case else ())
    assert ("system" in case) == (record.prompt[0] == Message("system", "Be kind."))
    assert f"{path}: read with " in caplog.text


def test_the_sign_of_helpsteer3_is_its_own(tmp_path: Path) -> None:
    rows = [HELPSTEER3 | {"overall_preference": vote, "response1": f"So {vote}"} for vote in range(-3, 4)]
    records = read(write(tmp_path / "train.parquet", rows))
    assert [record.winner for record in records] == ["a", "a", "a", "tie", "b", "b", "b"]
    signed = VOTE | {"preferred": -1}
    why = r"preferred: '-1': not known; say what each means, .*'data.winners=\[\"-1=a\"\]"
    with pytest.raises(ValueError, match=why):
        read(write(tmp_path / "signed.jsonl", [signed]))


def test_what_is_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        found = recognise(str(write(tmp_path / "votes.csv", [VOTE] * 2)))
    assert caplog.messages[-1] == (
        f'{tmp_path}/votes.csv: read with \'data.columns=["prompt=question","response_a=answer_a",'
        '"response_b=answer_b","winner=preferred"]\' (question, answer_a, answer_b, preferred)'
    )
    columns = {"prompt": "question", "response_a": "answer_a", "response_b": "answer_b", "winner": "preferred"}
    assert found.columns == columns
    odd = {"Question": "Why?", "Answer (1)": "So.", "Answer, 2": "Because.", "It's best": "1", "best": "1"}
    path = write(tmp_path / "my votes.csv", [odd])
    words = ["data=file", f"data.path='{path}'", *shlex.split(recognise(str(path)).words())]
    config = compose("train", words, Path()).data
    assert (config.path, config.columns["response_b"]) == (str(path), "Answer, 2")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two prompts": (
        VOTE | {"context": "x"},
        r"can be read in 2 ways, add one: 'data.columns=\[\"prompt=question\",.*\]' \(.*\); 'data.columns=\[.*=con",
    ),
    "pairs and votes": (PLAIN | VOTE, r"can be read in 2 ways, add one: data.name=trl .*; 'data.columns="),
    "votes with criteria": (
        VOTE | {"criteria": "short"},
        r"which response does its column criteria speak for\? .* add 'data.columns=\[.*"
        r"criteria_a=criteria\"\]' or .*criteria_b=criteria\"\]'; or leave it unread: 'data.columns=.*preferred\"\]'$",
    ),
    "a bank": (
        {"instruction": "Why?", "output": "So.", "generator": "x"},
        r"has one response a row \(output\), and a preference is between two; .* instruction, output, generator; to "
        r"rank LLMs by it: python bank.py out=my_bank author=<model> queries=\S+ responses=\S+$",
    ),
    "two responses of other names": (
        {"instruction": "Why?", "orig_response_A": "So.", "orig_response_B": "As.", "output": "A", "score": "1"},
        r"its columns are .*, which no format has; .* Say which column is which: 'data.columns=\{p",
    ),
    "half a pair": (
        {"prompt": "Why?", "Chosen": "So.", "response": "Because."},
        r"its columns are prompt, Chosen, response, which no format has; .*'data.columns=\{prompt: ..., chosen: ",
    ),
    "demonstrations": (
        {"messages": chat("Why?", "So.")},
        r"has one response a row \(messages\).*the columns messages$",
    ),
    "nothing": (
        {"foo": "Why?", "bar": "So."},
        r"its columns are foo, bar, which no format has; pairs have chosen and rejected, .*, and votes have prompt, "
        r"response_a, response_b and winner. Say which column is which: 'data.columns=\{p",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_recognised_says_what_to_type(case: str, tmp_path: Path) -> None:
    row, sentence = REFUSED[case]
    path = write(tmp_path / "file.jsonl", [row])
    with pytest.raises(ValueError, match=f"^{path}: {sentence}"):
        recognise(str(path))


def test_folders_of_save_to_disk_are_read(tmp_path: Path) -> None:
    votes = datasets.Dataset.from_list([PLAIN])
    votes.save_to_disk(tmp_path / "votes")
    assert of_winner(*read(tmp_path / "votes"))[:3] == ("Why?", "So.", "Because.")
    datasets.DatasetDict({"train": votes, "test": votes}).save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match=f"holds the parts test, train; name one, as data.path={tmp_path}/both/train"):
        read(tmp_path / "both")


def test_files_of_a_folder_are_alike(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "votes" / "a.jsonl", [PLAIN])
    write(tmp_path / "votes" / "b.parquet", [PLAIN | {"prompt": "How?", "criteria": ["short"]}] * 2)
    with caplog.at_level(logging.INFO):
        assert recognise(str(tmp_path / "votes")).name == "trl"
    assert caplog.messages[-1].endswith("read with data.name=trl (prompt, chosen, rejected, criteria)")
    write(tmp_path / "votes" / "c.csv", [VOTE])
    why = r"c.csv would be read with 'data.columns=.*, the files before it with data.name=trl; "
    with pytest.raises(ValueError, match=why):
        recognise(str(tmp_path / "votes"))


@pytest.mark.parametrize(
    ("files", "parts", "one"),
    [
        (["human-00000-of-00001-25f4", "gpt4_pair-00000-of-00001-c0b4"], "gpt4_pair, human", "gpt4_pair"),
        (["test_sft-00000-of-00001", "train_prefs-00000-of-00001"], "test_sft, train_prefs", "train_prefs"),
        (["dev", "a.train", "b-train-1"], "dev, train", "b-train"),
        (["dev/0", "test/0"], "dev, test", "dev"),
    ],
)
def test_one_of_several_parts_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], parts: str, one: str
) -> None:
    for file in files:
        write(tmp_path / f"data/{file}.jsonl", [PLAIN])
    monkeypatch.setattr("crm.data.catalogue.dataset_folder", lambda _: tmp_path)
    for path, how in (("hf://me/votes@v2", f"hf://me/votes:{one.split('-')[-1]}@v2"), (str(tmp_path), f"data/{one}")):
        with pytest.raises(ValueError, match=f"holds the parts {parts}; name one, as '?data.path=[^ ]*{how}") as error:
            recognise(path)
    typed = shlex.split(str(error.value))[-1].removeprefix("data.path=")
    assert recognise(typed).name == "trl", "what it says can be typed"


def test_a_file_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pairs.jsonl.*holds no rows"):
        recognise(str(write(tmp_path / "pairs.jsonl", [])))


def test_columns_given_make_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "odd.csv", [{"foo": "Why?", "x": "So.", "y": "Because.", "z": "first"}])
    words = [f"data.path={path}", "data.columns={prompt: foo, response_a: x, response_b: y, winner: z}"]
    data = compose("train", ["data=file", *words, "data.winners={first: a}"], Path()).data
    assert (data.name, data.winners) == ("table", {"first": "a"})
    path = write(tmp_path / "pairs.jsonl", [{"prompt": "Why?", "picked": "So.", "rejected": "Because."}])
    words = ["data=file", f"data.path={path}", "data.name=trl"]
    with pytest.raises(ValueError, match="no column 'chosen' for chosen; it has prompt, picked, rejected; ") as error:
        list(read_source(compose("train", words, Path()).data, Intake(strict=True)))
    words += shlex.split(str(error.value).partition("name one with ")[2].replace("...", "picked"))
    (record,) = read_source(compose("train", words, Path()).data, Intake(strict=True))
    assert of_winner(record)[:3] == ("Why?", "So.", "Because."), "what it says can be typed"
    path = write(tmp_path / "votes.csv", [VOTE | {"preferred": "first"}])
    data = compose("train", ["data=file", f"data.path={path}", "data.winners={first: a}"], Path()).data
    assert (data.name, data.winners, data.columns["winner"]) == ("table", {"first": "a"}, "preferred")
