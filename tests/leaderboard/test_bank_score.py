"""`bank.py score`: columns by a language model, by models of every head, by people; stopped runs, and the ranking."""

import json
import logging
import multiprocessing
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet as pq

from crm import load_judge
from crm.config import compose
from crm.criteria.counting import MEASURES
from crm.criteria.pool import read_criteria
from crm.judges.crm_judge import open_checkpoint
from crm.judges.judge import Judge
from crm.leaderboard import bank_score
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank_score import run_bank_score
from crm.leaderboard.matrix import CriteriaMatrix, open_matrix
from crm.leaderboard.run import run_leaderboard
from crm.model.export import export_model
from crm.schema import Comparison, Message
from tests.conftest import Command
from tests.endpoint.fake_endpoint import Answer, chat_endpoint, completion
from tests.leaderboard.test_own_words import made_bank

ASKED = [each.name for each in read_criteria() if each.name not in MEASURES]
OWN = """
- {name: Brevity, more: Prefers concise answers, less: Prefers detailed answers, definition: How short it is.}
- {name: Naval law, more: "cites naval law, and cases", less: no law, definition: How much naval law it cites.}
"""
HUMOUR = {"lister": 3, "long": 9, "short": 6}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made_bank().save(tmp_path / "bank")
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    return tmp_path / "bank"


def score(folder: Path, *words: str) -> CriteriaMatrix:
    bank = [] if any(word.startswith("bank=") for word in words) else ["bank=folder", f"bank.path='{folder}'"]
    return run_bank_score(compose("bank_score", [*bank, "progress=false", *words], folder.parent / "run"))


def endpoint(url: str, *words: str) -> tuple[str, ...]:
    named = (f"judge.base_url={url}", "judge.model=tester", "judge.concurrency=2", "judge.attempts=2")
    return "judge=llm", *named, *words


def author_of(body: dict[str, Any]) -> str:
    text = json.loads(body["messages"][1]["content"])["response"]
    return "short" if text.startswith("It is") else "long" if text.startswith("The") else "lister"


def graded(body: dict[str, Any], **grades: Any) -> Answer:
    """Fives for all that is asked, but for ``grades``."""
    named = body["messages"][0]["content"].split("by name:\n")[1].partition("\n\nReply")[0]
    return completion(json.dumps(dict.fromkeys(json.loads(named), 5) | grades))


def funny(body: dict[str, Any], _: object = None) -> Answer:
    return graded(body, Humour=HUMOUR[author_of(body)])


def scores_of(matrix: CriteriaMatrix, name: str = "Humour") -> int:
    return int((~np.isnan(matrix.raw(name))).sum())


def table(folder: Path) -> Any:
    return pq.read_table(folder / "criteria.parquet")


def test_a_language_model_s_column_ranks_and_is_named(folder: Path, command: Command, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    bodies: list[dict[str, Any]] = []
    with chat_endpoint(lambda body, _: (bodies.append(body), funny(body))[1]) as url:
        words = ("bank=folder", f"bank.path={folder}", "progress=false", *endpoint(url))
        code, shown, error = command("bank", "score", *words)
        assert code == 0, error
        assert len(bodies) == 72, "one call a response"
        command("bank", "score", *words, "predictions=elsewhere")
        assert len(bodies) == 72, "what is there is not asked again, also without the replies"
    assert "72 of 72 responses graded; 2,376 of 2,376 grades" in shown
    assert "HTTP Request" not in shown + error, "a line a call would bury the progress bar"
    found = table(folder)
    facts = json.loads(found.schema.metadata[b"crm"])
    assert [each["criterion"] for each in facts.values()] == ASKED and len(ASKED) == 33
    assert facts["Humour by llm tester"]["more"] == "humour"
    assert found["Humour by llm tester"].to_pylist() == [3, 9, 6] * 24
    given = ("judge=traits", "bank=folder", f"bank.path={folder}", "progress=false", 'criteria=["funny answers"]')
    board = run_leaderboard(compose("leaderboard", list(given), folder.parent / "ranked"))
    assert list(board.win_rates()) == ["long", "short", "lister"]
    (read,) = json.loads((folder.parent / "ranked/understood.json").read_text(encoding="utf-8"))
    assert (read["criterion"], read["why"], read["scored_by"]) == ("Humour", "", "llm tester")
    assert load_judge("traits").rank(folder, "funny answers")["model"].tolist() == ["long", "short", "lister"]


def test_what_has_no_grade_is_missing_and_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    asked: list[str] = []
    answers: dict[int, Callable[[dict[str, Any]], Answer]] = {
        0: lambda _: completion("I'm sorry, but I can't grade this."),
        1: lambda _: completion('{"Humour": 7, "Dep'),
        2: lambda _: completion('{"Humour": 7}', "length"),
        3: lambda _: completion(""),
        4: lambda _: (500, "{}"),
        5: lambda body: graded(body) if asked.count(body["messages"][1]["content"]) > 1 else (429, "{}"),
        6: lambda body: graded(body, **dict.fromkeys(ASKED)),
        7: lambda body: graded(body, Humour=0, Depth=11, Clarity=None),
        8: lambda _: (time.sleep(1.5), completion("{}"))[1],
        9: lambda _: completion('{"Humour": "8/10"}'),
    }

    def answer(body: dict[str, Any], _: object) -> Answer:
        asked.append(body["messages"][1]["content"])
        number = int(json.loads(asked[-1])["conversation"][0]["content"].removeprefix("question "))
        return answers.get(number, funny)(body) if author_of(body) == "short" else funny(body)

    with chat_endpoint(answer) as url:
        matrix = score(folder, *endpoint(url, "judge.call_deadline_s=0.5"))
        humour, depth = matrix.raw("Humour"), matrix.raw("Depth")
        calls = len(asked)
        assert np.isnan(humour[:, 2]).tolist() == [True] * 5 + [False, True, True, True] + [False] * 15
        assert np.isnan(depth[:, 2]).tolist() == [True] * 5 + [False, True, True, True, True] + [False] * 14
        assert (humour[5, 2], humour[9, 2]) == (5, 8) and not np.isnan(humour[:, :2]).any()
        assert np.isnan(matrix.raw("Clarity")[7, 2]) and matrix.raw("Empathy")[7, 2] == 5
        lost = "cannot tell 1, empty 1, not_json 1, refusal 1, server_error 1, timeout 1, truncated 1"
        assert f"65 of 72 responses graded, {lost};" in caplog.text
        assert scores_of(matrix) == 64
        answers.clear()
        score(folder, *endpoint(url, "judge.call_deadline_s=0.5"))
    assert len(asked) - calls == 6, "asks again for what got no grades, and for nothing that has a reply"
    given = ["judge=traits", "bank=folder", f"bank.path='{folder}'", "progress=false", "criteria=[funny answers]"]
    board = run_leaderboard(compose("leaderboard", given, folder.parent / "ranked"), show=False)
    assert board.left_out == 2 and dict(board.unanswered) == {"short": 2}, "a missing grade is no loss"


def test_a_dry_run_and_a_budget(folder: Path, command: Command) -> None:
    with chat_endpoint(lambda *_: pytest.fail("asked")) as url:
        words = ("bank=folder", f"bank.path={folder}", "progress=false", *endpoint(url))
        code, shown, _ = command("bank", "score", "--dry-run", *words)
    assert code == 0 and re.search(r"72 calls, about \d\d,\d{3} tokens in, 73,728 out at most", shown)
    assert not list(folder.glob("*criteria*")) and not list(folder.parent.rglob("*.sqlite"))
    with chat_endpoint(funny) as url:
        matrix = score(folder, *endpoint(url, "judge.budget_calls=10"))
        assert scores_of(matrix) == 10
        matrix = score(folder, *endpoint(url, "judge.budget_calls=62"))
    assert scores_of(matrix) == 72, "the second budget pays for the rest alone"


def test_a_larger_pool_keeps_its_columns_and_another_address_does_not_mix(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made_bank().of_queries(made_bank().queries[:2]).save(folder)
    with chat_endpoint(lambda body, _: graded(body)) as url, chat_endpoint(lambda body, _: graded(body)) as other:
        score(folder, *endpoint(url, "pool=own.yaml"))
        wit = "- {name: Wit, more: wit, less: no wit, definition: How witty it is.}\n"
        (tmp_path / "own.yaml").write_text(OWN + wit, encoding="utf-8")
        matrix = score(folder, *endpoint(url, "pool=own.yaml", "judge.budget_calls=1"))
        assert [int(np.isnan(matrix.raw(name)).sum()) for name in ("Brevity", "Naval law", "Wit")] == [0, 0, 5]
        assert "new scores replace" not in caplog.text
        matrix = score(folder, *endpoint(other, "pool=own.yaml", "judge.budget_calls=1"))
    assert int(np.isnan(matrix.raw("Brevity")).sum()) == 5, "the same name elsewhere may be another model"
    assert "new scores replace 3 columns, such as 'Brevity by llm tester': their words, settings or" in caplog.text


def test_an_endpoint_that_grades_nothing_leaves_no_column(folder: Path) -> None:
    with chat_endpoint(lambda *_: completion("{}")) as url, pytest.raises(ValueError, match="0 of 72 responses graded"):
        score(folder, *endpoint(url))
    assert not (folder / "criteria.parquet").exists()


@pytest.mark.slow
def test_killed_several_times_it_ends_with_the_same_matrix(folder: Path) -> None:
    """By SIGKILL in the middle of a call. Processes are forked, so that each costs its work and not its imports."""
    fork, calls, running = multiprocessing.get_context("fork"), 0, []
    kill_at = [20, 41, 43, 60]

    def answer(body: dict[str, Any], _: object) -> Answer:
        nonlocal calls
        calls += 1
        if calls in kill_at:
            running[-1].kill()
        return funny(body)

    with chat_endpoint(answer) as url:
        words = endpoint(url, "judge.concurrency=1")
        while not running or running[-1].exitcode:
            running.append(fork.Process(target=score, args=(folder, *words)))
            running[-1].start()
            running[-1].join(60)
            if len(running) == 2:
                stayed = CriteriaMatrix(made_bank(), folder / "criteria.parquet")
                assert scores_of(stayed) == 32, "portions stay"
        assert [process.exitcode for process in running] == [-signal.SIGKILL] * 4 + [0]
        assert calls <= 72 + 4, "a kill costs the call that was under way"
        other = folder.parent / "other/bank"
        made_bank().save(other)
        score(other, *endpoint(url, f"predictions='{folder.parent / 'elsewhere'}'"))
    assert table(folder).equals(table(other)) and table(folder).schema.metadata == table(other).schema.metadata


def test_people_s_ratings_make_columns(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rows = ["query,model,criterion,score", "q00,long,humour,2", "q00,long,Humour,4", "question 1,short,Humour,5"]
    rows += ["q00,long,Length,1", "q77,long,Humour,5", "q01,longe,Humour,5"]
    (tmp_path / "ratings.csv").write_text("\n".join(rows), encoding="utf-8")
    matrix = score(folder, "ratings=ratings.csv")
    assert matrix.columns["Humour"].by == "people (ratings.csv)" and scores_of(matrix) == 2
    assert (matrix.raw("Humour")[0, 1], matrix.raw("Humour")[1, 2]) == (3, 5), "the mean of two; a query by its text"
    assert "2 criteria: 4 ratings; 2 rows are about other queries or models, such as query 'q77'" in caplog.text
    assert ", model 'longe'; did you mean long?" in caplog.text
    assert matrix.scorer("Length") == "counting", "one rating is not enough"


def test_people_in_two_folders_and_a_model_by_its_path_have_their_own_names(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("alice", "bob"):
        (tmp_path / who).mkdir()
        (tmp_path / who / "ratings.csv").write_text("query,model,criterion,score\nq00,long,Humour,2\n")
        score(folder, f"ratings={who}/ratings.csv")
    assert {f"Humour by people ({who}/ratings.csv)" for who in ("alice", "bob")} <= set(table(folder).schema.names)
    asked: list[str | None] = []
    monkeypatch.setattr(bank_score, "check_judge", lambda config: asked.append(config.checkpoint))
    monkeypatch.setattr(bank_score, "_by_judge", lambda *_: None)
    score(folder, "judge=reward_model", "judge.path=other/model", "checkpoint=runs/mine")
    assert asked == [None], "and not that of a checkpoint that is not read"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("q00,long,Humor,3", r"ratings.csv:2: criterion: 'Humor' is not in the pool; did you mean humour\?"),
        ("q00,long,Humour,high", r"ratings.csv:2: score: expected a valid number, .* got 'high'"),
        ("q99,long,Humour,3", "no row is about a query and a model of bank 'made', such as query 'q99'"),
        ("query,model,criteria,score\nq00,long,Humour,3", "ratings.csv:2: criterion: missing"),
    ],
)
def test_ratings_that_cannot_be_read_are_named(folder: Path, tmp_path: Path, row: str, message: str) -> None:
    text = row if "\n" in row else f"query,model,criterion,score\n{row}"
    (tmp_path / "ratings.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        score(folder, "ratings=ratings.csv")
    assert not (folder / "criteria.parquet").exists()


def test_a_model_that_can_read_nothing_leaves_no_column(folder: Path, monkeypatch: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    opened, scores = (
        SimpleNamespace(judge=SimpleNamespace(digest="x"), name="mine", predictions=folder),
        np.ones((24, 3)),
    )
    for name, found in {"check_judge": None, "open_judge": opened, "_scores": scores}.items():
        monkeypatch.setattr(bank_score, name, lambda *_, found=found: found)
    monkeypatch.setattr("crm.leaderboard.index.index_bank", lambda *_, **__: None)
    words = ("judge=reward_model", "judge.path=other/model")
    scores[:] = np.nan
    with pytest.raises(ValueError, match="bank=made: mine could score no response; shorten the responses"):
        score(folder, *words)
    assert not (folder / "criteria.parquet").exists()
    scores[:18] = 1
    assert not np.isnan(score(folder, *words).raw("General quality")[:18]).any()
    assert "1 criteria by mine (25.0% missing)" in caplog.text
    with pytest.raises(ValueError, match="expected one that reads criteria"):
        score(folder, "judge=oracle")


@pytest.mark.parametrize("head", ["scalar", "late", "pairwise"])
def test_a_model_s_column_is_more_less_less(
    head: str, make_model: Any, tokenizer: Any, folder: Path, tmp_path: Path
) -> None:
    export_model(make_model(head), tokenizer, tmp_path / head, {"max_length": 2048, "seed": 1})
    bank = made_bank().of_queries(made_bank().queries[:2])
    bank.save(folder)
    matrix = score(folder, f"checkpoint='{tmp_path / head}'", "pool=own.yaml")
    judge, _ = open_checkpoint(tmp_path / head, batch_size=4)
    for name, sides in (("Brevity", TASTES), ("Naval law", ("cites naval law, and cases", "no law"))):
        expected = read_alone(judge, bank, sides[0]) - read_alone(judge, bank, sides[1])
        assert np.abs(expected).max() > 1e-4
        np.testing.assert_allclose(matrix.raw(name), expected, atol=2e-3)
        assert matrix.columns[name].by == head and scores_of(matrix, name) == 6


TASTES = ("Prefers concise answers", "Prefers detailed answers")


def read_alone(judge: Judge, bank: Bank, criterion: str) -> np.ndarray:
    """(Q, M) scores, or mean log-odds against the baseline, a comparison at a time."""
    found = np.zeros((len(bank.queries), len(bank.authors)))
    for row, query in enumerate(bank.queries):
        texts = [bank.responses[name][query.id] for name in (*bank.authors, bank.baseline)]
        turns = [(Message("assistant", text),) for text in texts]
        for column in range(len(bank.authors)):
            one = Comparison(f"{row} {column}", "x", (criterion,), query.prompt, turns[column], turns[-1], "tie")
            readings = [next(iter(judge.read([(one, order)])))[0] for order in ("ab", "ba")]
            pointwise = getattr(judge, "pointwise", False)
            values = [each.score_a if pointwise else each.preference_logit for each in readings]
            found[row, column] = np.mean(values) if pointwise or bank.authors[column] != bank.baseline else 0.0
    return found


def test_the_newest_counts_unless_one_is_named(folder: Path, tmp_path: Path) -> None:
    bank = made_bank().of_queries(made_bank().queries[:8])
    bank.save(folder)
    for name, order in (("a.csv", "long lister short"), ("b.csv", "short lister long")):
        rows = ["query,model,criterion,score"]
        for place, who in enumerate(order.split()):
            rows += [f"q{n:02},{who},{what},{-place}" for n in range(8) for what in ("Humour", "Length")]
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
        score(folder, f"ratings={name}")
    assert set(score(folder, "judge=traits").columns) == {*MEASURES, "Humour"}
    words = ["judge=traits", "bank=folder", f"bank.path='{folder}'", "progress=false", "criteria=[x]"]
    config = compose("leaderboard", words, tmp_path / "ranked")

    def first(line: str, scored_by: str | None = None) -> str:
        chosen = replace(config, criteria=[line], scored_by=scored_by)
        return next(iter(run_leaderboard(chosen, show=False).win_rates()))

    assert (first("funny answers"), first("long answers")) == ("short", "short")
    assert first("funny answers", "people (a.csv)") == "long"
    assert first("long answers", "counting") == "long", "counts are there, and the oldest"
    assert first("funny answers", "counting") == "short", "who has not scored it leaves it to the newest"
    why = r"scored_by='gpt': has scored nothing in .*; choose one of counting, people \(a"
    with pytest.raises(ValueError, match=why):
        first("funny answers", "gpt")
    assert open_matrix(bank, folder).columns["Humour"].by == "people (b.csv)"
    score(folder, "ratings=a.csv")
    assert first("funny answers") == "long", "scored again, it is the newest"
