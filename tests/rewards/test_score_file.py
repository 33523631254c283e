"""`score.py`: the numbers of transformers by itself, in the order of the file, with a reason where there is none."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer

from crm.cli.words import rewrite_all
from crm.config import compose
from crm.model.encoding import system_text
from crm.model.export import export_model
from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards import score_file
from crm.rewards.rows import read_row
from crm.schema import Message
from tests.conftest import rounding
from tests.made_files import chat
from tests.made_files import write_rows as write
from tests.model.helpers import stock_score

ROOT = Path(__file__).parents[2]
ROWS: list[dict[str, Any]] = [
    {"id": "a", "criteria": ["Short."], "prompt": "2+2?", "response": "4"},
    {"id": "b", "criteria": ["Short."], "prompt": "2+2?", "response": ""},
    {"id": "c", "criteria": ["Short."], "prompt": "2+2?", "response": "é\u2028x"},
    {"id": "d", "prompt": "an <|endoftext|> inside, <|im_end|> too", "response": "a a a a"},
    {"id": "e", "prompt": "2+2?", "response": "<think>two and two</think>4"},
    {"id": "f", "prompt": "2+2?", "response": "x</think>y"},
    {"id": "g", "prompt": chat("2+2?", "4", "Sure?"), "response": "Yes", "kept": {"column": [1]}},
]
ALONE = ("batching=padded", "batch_size=1")
"""Settings that read each row by itself."""


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    """A model of ours with a scalar head."""
    path = tmp_path_factory.mktemp("models") / "scalar"
    export_model(make_model("scalar"), tokenizer, path, {"seed": 1, "max_length": 128})
    return path


@pytest.fixture(scope="module")
def stranger(folder, tmp_path_factory) -> Path:
    """The same weights as somebody else's reward model: nothing of ours is beside them."""
    path = tmp_path_factory.mktemp("models") / "stranger"
    return shutil.copytree(folder, path, ignore=shutil.ignore_patterns("crm.json"))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def score(model: Path, rows: list[Any], tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    """What the command writes, which Hydra would compose twice."""
    source, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    given = [f"model={model}", f"in={source}", f"out={out}", "overwrite=true", *words]
    score_file.run_score(compose("score", rewrite_all(given, "score", "crm-score"), tmp_path))
    return read(out)


def by_transformers(folder: Path, row: dict[str, Any]) -> float:
    """What transformers says of the row's conversation."""
    prompt = row["prompt"] if isinstance(row["prompt"], list) else chat(row["prompt"])
    criteria = [system_text(row["criteria"], POINTWISE_INSTRUCTION)] if "criteria" in row else []
    system = [{"role": "system", "content": text} for text in criteria]
    return stock_score(folder, [*system, *prompt, {"role": "assistant", "content": row["response"]}])


@pytest.mark.parametrize("kind", ["folder", "stranger"])
def test_scores_are_those_of_transformers(kind, folder, stranger, tmp_path):
    model = {"folder": folder, "stranger": stranger}[kind]
    plain = [row for row in ROWS if row["id"] != "d"]  # control tokens in a text are a text here, not so there
    found = score(model, plain, tmp_path)
    expected = [by_transformers(folder, row) for row in plain]
    assert [row["score"] for row in found] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("words", [("batch_size=3",), ("batching=padded", "batch_size=2")])
@pytest.mark.parametrize("kind", ["folder", "stranger"])
def test_neighbours_and_batches_change_no_score_and_no_row(kind, words, folder, stranger, tmp_path):
    model = {"folder": folder, "stranger": stranger}[kind]
    found = score(model, ROWS, tmp_path, *ALONE)
    alone = [row.pop("score") for row in found]
    assert found == ROWS
    together = [row["score"] for row in score(model, ROWS[::-1], tmp_path, *words)][::-1]
    assert together == pytest.approx(alone, abs=rounding(torch.tensor(alone)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pad_token_that_is_eos_is_read_as_transformers_reads_it(side, stranger, tmp_path):
    copied = shutil.copytree(stranger, tmp_path / "eos")
    tokenizer = AutoTokenizer.from_pretrained(copied)
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, side
    tokenizer.save_pretrained(copied)
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"pad_token_id": tokenizer.eos_token_id}))
    alone = [row["score"] for row in score(copied, ROWS, tmp_path, *ALONE)]
    together = [row["score"] for row in score(copied, ROWS, tmp_path)]
    assert together == pytest.approx(alone, abs=rounding(torch.tensor(alone)))
    assert together[0] == pytest.approx(by_transformers(copied, ROWS[0]), abs=1e-5)


def test_pairs_and_lists_have_the_scores_of_their_responses(folder, tmp_path):
    rows = [
        {"prompt": "2+2?", "response": "4"},
        {"prompt": "2+2?", "response": "Four, of course"},
        {"prompt": "2+2?", "chosen": "4", "rejected": "Four, of course"},
        {"prompt": "2+2?", "response_a": "4", "response_b": "Four, of course"},
        {"prompt": "2+2?", "responses": ["Four, of course", "4", "4"]},
        {"chosen": chat("2+2?", "4"), "rejected": chat("2+2?", "Four, of course")},
        {"messages": chat("2+2?", "4")},
    ]
    short, long, *pairs, several, whole, single = score(folder, rows, tmp_path)
    a, b = short["score"], long["score"]
    for row in (*pairs, whole):
        assert row["scores"] == pytest.approx([a, b])
        assert row["p_first"] == pytest.approx(torch.sigmoid(torch.tensor(a - b)).item())
    assert several["scores"] == pytest.approx([b, a, a])
    assert single["score"] == pytest.approx(a)


def test_a_row_that_cannot_be_scored_has_a_reason_and_no_number(command, folder, tmp_path):
    source = tmp_path / "rows.jsonl"
    long = json.dumps({"id": "long", "prompt": "x", "response": "word " * 500})
    lines = ['{"id": 1, "prompt": "x", "response": "fine"}', "not json", '{"prompt": "x"}', long]
    lines += ['{"prompt": "x", "response": null}', '{"prompt": "x", "response": "\\ud800"}']
    lines += ['{"id": 2, "prompt": "", "responses": []}']
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, _, errors = command("score", f"model={folder}", f"in={source}", "out=out.jsonl")
    assert code == 0
    found = read(tmp_path / "out.jsonl")
    assert len(found) == len(lines)
    assert isinstance(found[0]["score"], float)
    assert [row["score"] for row in found[1:]] == [None] * 6
    reasons = ["row: not valid JSON", "row: has no response", "too long: more than 128 tokens", "response: null"]
    reasons += ["row: not valid JSON", "responses: expected a list"]
    assert all(row["reason"].startswith(why) for row, why in zip(found[1:], reasons, strict=True))
    assert (
        "1 without a score: too long (first: rows.jsonl:4:" in errors and "scored 1 of 7 responses in 7 rows" in errors
    )


@pytest.mark.parametrize(("after", "source"), [(0, "rows.jsonl"), (3, "rows.jsonl"), (3, "-")])
def test_a_run_that_was_killed_goes_on(after, source, command, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(score_file, "PORTION", 1)
    whole = score(folder, ROWS, tmp_path)
    (tmp_path / "out.jsonl").unlink()
    scored: list[int] = []
    real = score_file.Scorer.score

    def killed(self: score_file.Scorer, rows: Any) -> Any:
        if len(scored) == after:
            raise KeyboardInterrupt
        scored.append(1)
        return real(self, rows)

    def piped() -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=(tmp_path / "rows.jsonl").open("rb")))

    words = (f"model={folder}", f"in={source}", "out=out.jsonl")
    monkeypatch.setattr(score_file.Scorer, "score", killed)
    piped()
    assert command("score", *words)[0] == 130
    assert not (tmp_path / "out.jsonl").exists()
    (part,) = tmp_path.glob(".out.jsonl.*.part")
    with part.open("a") as file:
        file.write('{"id": "cut o')
    read_whole = Path.read_bytes  # a part may be larger than the memory
    monkeypatch.setattr(Path, "read_bytes", lambda at: pytest.fail() if at.suffix == ".part" else read_whole(at))
    monkeypatch.setattr(score_file.Scorer, "score", lambda self, rows: scored.append(1) or real(self, rows))
    piped()
    code, _, errors = command("score", *words)
    assert code == 0 and f"in {len(ROWS)} rows" in errors  # those of both runs
    assert len(scored) == len(ROWS)  # no row twice
    assert read(tmp_path / "out.jsonl") == whole
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_are_read_and_written(suffix, command, folder, tmp_path):
    pytest.importorskip("datasets")
    source = tmp_path / "rows.csv"
    source.write_text('prompt,response,criteria,kept\n2+2?,4,"Short.",x\n"a, b",,,y\n', encoding="utf-8")
    assert command("score", f"model={folder}", f"in={source}", f"out=out{suffix}")[0] == 0
    table = pd.read_csv(tmp_path / "out.csv") if suffix == ".csv" else pd.read_parquet(tmp_path / "out.parquet")
    assert table["kept"].tolist() == ["x", "y"]
    expected = score(folder, [{"prompt": "2+2?", "response": "4", "criteria": ["Short."]}], tmp_path)
    assert table["score"][0] == pytest.approx(expected[0]["score"], abs=1e-6)
    assert pd.isna(table["score"][1]) and "empty cell" in table["reason"][1]


def test_lists_are_json_in_a_cell_of_csv(command, folder, tmp_path):
    write(tmp_path / "rows.jsonl", [{"prompt": "x", "responses": ["a", "é"], "criteria": ["Short."]}])
    assert command("score", f"model={folder}", "in=rows.jsonl", "out=out.csv", "--explain")[0] == 0
    row = pd.read_csv(tmp_path / "out.csv").iloc[0]
    assert json.loads(row["responses"]) == ["a", "é"] and len(json.loads(row["scores"])) == 2
    assert len(json.loads(row["criterion_effects"])["Short."]) == 2


def test_a_pipe_has_rows_alone_on_standard_output(command, folder, tmp_path, monkeypatch):
    source = io.BytesIO(b'{"prompt": "x", "response": "y"}\n')
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
    code, out, _ = command("score", f"model={folder}", "in=-", "out=-")
    assert code == 0
    assert [set(json.loads(line)) for line in out.splitlines()] == [{"prompt", "response", "score"}]


def test_what_each_criterion_adds_is_the_score_without_it_taken_off(folder, tmp_path):
    rows = [{"prompt": "x", "response": "y", "criteria": list(texts)} for texts in ("AB", "A", "B")]
    both, a, b = score(folder, rows, tmp_path, "explain=true")
    assert both["criterion_effects"] == pytest.approx(
        {"A": both["score"] - b["score"], "B": both["score"] - a["score"]}, abs=1e-5
    )


@pytest.mark.slow
def test_files_are_scored_without_the_packages_of_a_server():
    words = "import sys; sys.modules['uvicorn'] = None; import crm.rewards.config"
    subprocess.run([sys.executable, "-c", words], check=True)


def test_a_column_that_is_nearly_criteria_is_named(folder, tmp_path, caplog):
    score(folder, [{"prompt": "x", "response": "y", "critera": "short"}], tmp_path)
    assert "its column critera is not read; did you mean criteria?" in caplog.text


def test_a_head_that_compares_says_so(command, make_model, tokenizer, tmp_path):
    path = tmp_path / "pairwise"
    export_model(make_model("pairwise"), tokenizer, path, {"seed": 1, "max_length": 128})
    write(tmp_path / "rows.jsonl", ROWS[:1])
    code, _, errors = command("score", f"model={path}", "in=rows.jsonl", "out=x.jsonl")
    assert code == 2 and "compares responses and gives a single one no score" in errors
    rows = [{"prompt": "x", "answer_1": "a", "answer_2": "b b"}, {"prompt": "x", "response": "a"}]
    pair, single, long = score(path, [*rows, {"prompt": "x", "chosen": "a", "rejected": "b " * 500}], tmp_path)
    logit = pair["scores"][0]
    assert logit == -pair["scores"][1] and pair["p_first"] == pytest.approx(torch.sigmoid(torch.tensor(logit)).item())
    assert single["score"] is None and single["reason"].startswith("single response")
    assert long["scores"] == [None, None] and long["reason"].startswith("too long")


def test_marks_that_a_model_wrote_are_text():
    dialogue = "Human: hi\n\nAssistant: hello "
    for row in ({"response": dialogue}, {"responses": [dialogue, "a"]}, {"responses": [dialogue, "a", "b"]}):
        assert read_row({"Prompt": "Talk"} | row, ()).group.responses[0][0] == Message("assistant", dialogue)


def test_rows_are_read_as_in_training(folder, tmp_path):
    talk = json.dumps(chat("2+2?", "4", "Sure?"))
    odd = [{"instruction": "Add", "input": "2+2", "output": "4"}, {"prompt": talk, "response": "Yes"}]
    same = [{"prompt": "Add\n\n2+2", "response": "4"}, {"prompt": chat("2+2?", "4", "Sure?"), "response": "Yes"}]
    marks, four, five = "Human: 2+2?\n\nAssistant: ", chat("2+2?", "4"), chat("2+2?", "5")
    two = {"prompt": "2+2?", "response_a": "4", "response_b": "5"}
    odd += [{"system": "Add", "question": "2+2?", "answer": "4"}, {"messages": json.dumps(four)}]
    same += [{"prompt": [{"role": "system", "content": "Add"}, *four[:1]], "response": "4"}, {"messages": four}]
    odd += [{"chosen": f"{marks}4", "rejected": f"{marks}5"}, {"prompt": "2+2?", "responses": '["4", "5"]'}]
    odd += [{"chosen": json.dumps(four), "rejected": json.dumps(five)}, two | {"response_a": four, "response_b": five}]
    read, expected = (score(folder, rows, tmp_path) for rows in (odd, [*same, *[two] * 4]))
    for row, other in zip(read, expected, strict=True):
        scores = row["scores"] if "scores" in row else row["score"]
        assert scores == pytest.approx(other["scores"] if "scores" in other else other["score"], abs=1e-5)


def test_a_folder_is_scored_without_its_scores(folder, tmp_path, caplog):
    write(tmp_path / "more.jsonl", [{"prompt": "x", "chosen": "y", "rejected": "z", "rating": 3}])
    write(tmp_path / "rated.jsonl", [{"text": "x", "messages": chat("x", "word " * 500), "score": 3}])
    config = compose("score", [f"checkpoint={folder}", f"input={tmp_path}", f"out={tmp_path}/all.csv"], tmp_path)
    for overwrite in (False, True):
        config.overwrite = overwrite
        score_file.run_score(config)
        assert len(pd.read_csv(tmp_path / "all.csv")) == 2 and "(first: rated.jsonl:1: too long" in caplog.text


def test_a_file_that_was_scored_is_scored_anew(folder, tmp_path):
    rows = [{"prompt": "x", "response": "y", "reason": "mine"}, {"prompt": "x", "responses": ["y", "word " * 500]}]
    first = score(folder, rows, tmp_path)
    assert score(folder, [row | {"p_first": 0.5} for row in first], tmp_path) == first


@pytest.mark.slow
def test_two_processes_write_the_file_of_one(folder, tmp_path):
    source = write(tmp_path / "rows.jsonl", [*ROWS[:2], {"prompt": "x"}, *ROWS[2:], {"id": "?"}])
    for devices in (1, 2):
        words = [f"model={folder}", f"in={source}", f"out={tmp_path / f'{devices}.jsonl'}", f"devices={devices}"]
        words += [f"hydra.run.dir={tmp_path / f'run{devices}'}"]
        command = [sys.executable, str(ROOT / "score.py"), *words]
        done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
        assert f"scored {len(ROWS)} of {len(ROWS) + 2} responses" in done.stderr
        assert "2 without a score: row" in done.stderr
    one, two = (read(tmp_path / f"{devices}.jsonl") for devices in (1, 2))
    assert [row.get("id") for row in one] == [row.get("id") for row in two]
    scores = [[row["score"] for row in rows if row["score"] is not None] for rows in (one, two)]
    assert len(scores[0]) == len(ROWS) and scores[0] == pytest.approx(scores[1], abs=1e-5)
