"""Scoring a bank: outcomes and its index against scores worked out one response at a time; flawed responses."""

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crm.config import compose
from crm.io.processes import start
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard import index as indexing
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.index import IndexedBank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import run_leaderboard
from crm.leaderboard.scoring import bank_comparisons, score_bank, to_outcomes
from crm.leaderboard.validity import EMPTY, REPEATING, TRUNCATED, flaws
from crm.model.batching.batches import collate
from crm.model.export import export_model
from crm.model.late_reading import added_up
from crm.schema import GENERIC_CRITERION, Comparison, Message, Prediction
from tests.conftest import rounding
from tests.made_files import bank_of

CRITERIA = ("Likes it short", "東京")


@pytest.fixture(scope="module")
def bank() -> Bank:
    """Ids that a separator would confuse: query ``q`` by author ``x|y``, and query ``q|x`` by author ``y``."""
    queries = [
        BankQuery(name, (Message("user", f"Tell me {name}"),), f"topic {i % 2}")
        for i, name in enumerate(("q", "q|x", "r"))
    ]
    answers = {"base": "plain words here", "x|y": "two words", "y": "", "z": "a far longer answer to the question"}
    responses = {
        author: {query.id: f"{text} {query.topic}".strip() for query in queries} for author, text in answers.items()
    }
    return Bank("tiny", "base", tuple(queries), responses)


@pytest.mark.usefixtures("in_float64")
def test_outcomes_are_differences_of_scores_by_hand(make_model, make_encoder, bank, tmp_path) -> None:
    model, encoder = make_model("scalar"), make_encoder("scalar")
    judge = CrmJudge(model, encoder, batch_size=4)
    found, counts = score_bank(judge, bank, CRITERIA, folder=tmp_path, progress=False)
    assert counts == {"readings": 18, "already_there": 0, "made": 18, "too_long": 0}
    assert (found.queries, found.models) == (("q", "q|x", "r"), ("x|y", "y", "z", "base"))
    assert found.topics == ("topic 0", "topic 1", "topic 0") and found.answered.all()

    def alone(prompt: Any, text: str) -> float:
        twice = ((Message("assistant", text),),) * 2
        with torch.no_grad():
            scores = model(collate([encoder.encode(Comparison("c", "p", CRITERIA, prompt, *twice, "tie"))], 0)).scores
        return float(scores[0, 0])

    for row, query in enumerate(bank.queries):
        texts = [bank.responses[name][query.id] for name in found.models]
        scores = np.array([alone(query.prompt, text) for text in texts])
        assert found.scores is not None and found.scores[row] == pytest.approx(scores, abs=1e-12)
        assert found.logits[row] == pytest.approx(scores - scores[-1], abs=1e-12)
        assert found.words[row].tolist() == [len(text.split()) for text in texts]


def test_orders_are_averaged_and_one_order_alone_is_no_verdict(bank) -> None:
    rows = bank_comparisons(bank, CRITERIA)
    assert len({row.id for row in rows}) == len(rows) == 9

    def prediction(row: Comparison, order: str, logit: float, scores: tuple[Any, Any] = (None, None)) -> Prediction:
        return Prediction(row.id, order, logit, "tie", row.cluster, "tiny", "f", *scores)

    read = [
        prediction(rows[0], "ab", 2.0, (3.0, 1.0)),
        prediction(rows[0], "ba", -1.0, (2.0, 3.0)),
        prediction(rows[1], "ab", 4.0),
    ]
    found = to_outcomes(bank, read)
    assert found.logits[0, 0] == 0.5 and np.isnan(found.logits[:, :-1]).sum() == 8 and found.answered[:, :-1].sum() == 1
    assert found.scores is not None and (found.scores[0, 0], found.scores[0, -1]) == (2.5, 2.0)
    assert to_outcomes(bank, read, too_long=True).answered.all()


STEPS = ("Boil", "Warm", "Fill", "Cover", "Stir", "Serve")
PROSE = "".join(f"{step} it first, then let the leaves stand for {at} minutes. " for at, step in enumerate(STEPS))
LINES = "\n".join(f"- Step {place}: move the {thing} to the left side." for place, thing in enumerate("abcdef"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (EMPTY,)),
        (" \n\u00a0", (EMPTY,)),
        ("😺🐾", ()),
        ("42", ()),
        (PROSE, ()),
        (PROSE + "After that you may add the milk and some sugar but you should never", (TRUNCATED,)),
        (PROSE + "After that you may add milk,\n\n- sugar for those who like it very sweet indeed and warm", ()),
        (PROSE + "Thank you for reading all of this, and visit us again soon #tea #warm #leaves", ()),
        ("Here it is:\n```python\nprint(1)", (TRUNCATED,)),
        ("Here it is:\n```python\nprint(1)\n```", ()),
        ("The same again, and " * 30 + "done.", (REPEATING,)),
        ("I can move it to the left side for you.\n" * 6, (REPEATING,)),
        (LINES, ()),
        ("A short poem.\n" + "-" * 80 + "\n" + "-" * 80, ()),
    ],
)
def test_what_is_a_flaw(text: str, found: tuple[str, ...]) -> None:
    assert flaws(text) == found


def test_the_table_counts_them_and_the_setting_leaves_their_queries_out(tmp_path: Path) -> None:
    long = "That depends on many things, all named here."
    texts = {"brief": "Yes.", "wordy": lambda n: " " if n == 3 else long, "base": "Well, yes and no."}
    bank_of(texts, ["tea"] * 12).save(tmp_path / "bank")
    config = compose(
        "leaderboard",
        ["judge=length", "bank=folder", f"bank.path={tmp_path / 'bank'}", f"predictions={tmp_path}", "progress=false"],
        tmp_path / "run",
    )
    board = run_leaderboard(config, show=False)
    table = pd.read_csv(tmp_path / "run/leaderboard.csv", skiprows=1).set_index("model")
    assert table["flawed"].to_dict() == {"wordy": 1, "brief": 0, "base": 0}
    assert len(board.outcomes.queries) == 12
    clean = run_leaderboard(replace(config, drop_flawed=True), show=False)
    assert set(board.outcomes.queries) - set(clean.outcomes.queries) == {"q03"}
    assert clean.win_rates()["wordy"] >= board.win_rates()["wordy"]


USERS = (("Prefers concise answers",), ("Wants sources", "No jargon"), ())
HALF = {"rel": 2e-3, "abs": 2e-3}
"""A vector may differ by a unit in the last place of float16 when it is read in other company."""


def make_bank(queries: int = 12, huge: bool = False) -> Bank:
    """Two queries have one text and an equal response; with ``huge`` a response is longer than the models read."""
    texts = [f"Why is number {n % (queries - 1)} odd?" for n in range(queries)]
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), "TS"[n % 2]) for n, text in enumerate(texts))
    words = random.Random(1)
    draw = lambda: " ".join(words.choice(("yes", "no", "rain", "see [1]")) for _ in range(words.randint(1, 9)))  # noqa: E731
    answers = {f"m{place}": {row.id: draw() for row in rows} for place in range(3)}
    answers["m2"][rows[-1].id] = answers["m2"]["q0"]
    if huge:
        answers["m1"]["q3"] = "word " * 400
    return Bank("small", "m0", rows, answers)


@pytest.fixture
def judge(make_model: Any, make_encoder: Any) -> CrmJudge:
    return CrmJudge(make_model("late"), make_encoder("late", max_length=200), batch_size=8, model_digest="m")


@pytest.fixture
def read(judge: CrmJudge, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The responses that the judge's reader has read."""
    found: list[str] = []
    reader = judge.late_reader
    assert reader is not None
    responses = reader.responses

    def counted(texts: Any) -> Any:
        found.extend(turns[0].content for _, turns in texts)
        return responses(texts)

    monkeypatch.setattr(reader, "responses", counted)
    return found


def build(judge: CrmJudge, bank: Bank, folder: Path, **given: Any) -> IndexedBank:
    assert judge.late_reader is not None
    return IndexedBank(judge.late_reader, bank, folder, model_digest="m", progress=False, **given)


def scores(judge: CrmJudge, index: IndexedBank) -> np.ndarray:
    return index.scores_for(torch.stack([user_vector(judge, user) for user in USERS]))


def user_vector(judge: CrmJudge, criteria: Sequence[str]) -> torch.Tensor:
    reader = judge.late_reader
    assert reader is not None
    return added_up(reader.criterion_vectors(list(criteria) or [GENERIC_CRITERION]), None)


@pytest.mark.parametrize("huge", [False, True], ids=["all are read", "one is too long"])
def test_its_scores_and_rankings_are_the_judges_own(judge: CrmJudge, tmp_path: Path, huge: bool) -> None:
    """Up to half a unit in the last place of float16, for each of the D numbers of a vector."""
    bank, reader = make_bank(huge=huge), judge.late_reader
    assert reader is not None
    indexed = build(judge, bank, tmp_path)
    found = scores(judge, indexed)
    for place, user in enumerate(USERS):
        read, _ = score_bank(judge, bank, user, folder=tmp_path / "kept", progress=False)
        vector = user_vector(judge, user)
        texts = [(query.prompt, (Message("assistant", bank.responses["m0"][query.id]),)) for query in bank.queries]
        products = reader.responses(texts) * vector
        allowed = 2**-10 * float(products.abs().sum(dim=1).max()) * 2 + rounding(products)
        rows = [[query.id for query in bank.queries].index(name) for name in read.queries]
        columns = [bank.authors.index(name) for name in read.models]
        assert read.scores is not None
        expected_scores = np.where(np.isinf(read.scores), np.nan, read.scores)
        assert np.isnan(expected_scores).sum() == huge
        assert found[place][np.ix_(rows, columns)] == pytest.approx(expected_scores, abs=allowed, nan_ok=True)
        board, expected = Leaderboard(indexed.outcomes(user)), Leaderboard(read)
        assert board.unread == expected.unread == ({"m1": 1} if huge else {})
        assert board.win_rates() == pytest.approx(expected.win_rates(), abs=allowed)
        assert board.outcomes.words.tolist() == expected.outcomes.words.tolist()


def test_a_stopped_build_goes_on(judge: CrmJudge, read: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    bank = make_bank()
    whole = scores(judge, build(judge, bank, tmp_path / "whole"))
    count = len(read)
    assert count == 35, "equal conversations are read once"
    monkeypatch.setattr(indexing, "PORTION", 4)
    replace_file, saved = indexing.replace_file, iter(range(2))

    def stop(*given: Any) -> Any:
        if next(saved, None) is None:
            raise KeyboardInterrupt
        return replace_file(*given)

    monkeypatch.setattr(indexing, "replace_file", stop)
    with pytest.raises(KeyboardInterrupt):
        build(judge, bank, tmp_path / "part")
    monkeypatch.setattr(indexing, "replace_file", replace_file)
    read.clear()
    assert scores(judge, build(judge, bank, tmp_path / "part")) == pytest.approx(whole, **HALF)
    assert len(read) == count - 24
    read.clear()
    build(judge, bank, tmp_path / "part")
    assert not read


def test_a_new_model_or_query_adds_its_own_responses_only(judge: CrmJudge, read: list[str], tmp_path: Path) -> None:
    bank = make_bank()
    first = scores(judge, build(judge, bank, tmp_path))
    read.clear()
    new = {**bank.responses, "m9": {query.id: f"new {query.id}" for query in bank.queries}}
    found = scores(judge, build(judge, replace(bank, responses=new), tmp_path))
    assert set(read) == {f"new {query.id}" for query in bank.queries}
    assert found[:, :, :3] == pytest.approx(first, rel=1e-4, abs=1e-4)
    read.clear()
    part = scores(judge, build(judge, bank.select(["T"]), tmp_path))
    assert not read and part == pytest.approx(first[:, ::2], rel=1e-4, abs=1e-4)


def build_on_rank(judge: CrmJudge, bank: Bank, folder: Path, expected: np.ndarray) -> None:
    assert scores(judge, build(judge, bank, folder, processes=start(2, 1))) == pytest.approx(expected, **HALF)


@pytest.mark.slow
def test_two_processes_share_the_work(judge: CrmJudge, tmp_path: Path, on_ranks: Any) -> None:
    expected = scores(judge, build(judge, make_bank(), tmp_path / "alone"))
    on_ranks(2, build_on_rank, judge, make_bank(), tmp_path / "both", expected)


def test_weights_add_up_and_what_is_too_long_is_named(judge: CrmJudge, tmp_path: Path) -> None:
    assert judge.late_reader is not None
    indexed = build(judge, make_bank(), tmp_path)
    one, two = (indexed.outcomes((text,)).scores for text in ("Wants sources", "No jargon"))
    both = indexed.outcomes(("Wants sources", "No jargon"), (2.0, -0.5))
    assert both.scores == pytest.approx(2 * one - 0.5 * two, abs=1e-5 * np.abs(one).max())  # type: ignore[operator, arg-type]
    with pytest.raises(ValueError, match=r"criteria: 'long long .* is longer than the 200 tokens that are read"):
        indexed.outcomes(("fine", "long " * 300))
    with pytest.raises(ValueError, match="weights: 1 for 2 criteria"):
        indexed.outcomes(("a", "b"), (1.0,))


def test_threads_share_the_vectors_of_criteria(judge: CrmJudge, tmp_path: Path) -> None:
    assert judge.late_reader is not None
    indexed = build(judge, make_bank(), tmp_path)
    lines = [f"Wants {number} sources" for number in range(6)]
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda text: indexed.scores([text])[0], lines * 2))
    for text, own in zip(lines * 2, found, strict=True):
        expected = indexed.scores_for(judge.late_reader.criterion_vectors([text]))[0]
        assert own == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.fixture
def make_folder(make_model: Any, tokenizer: Any, tmp_path: Path) -> Any:
    def make(head: str) -> Path:
        export_model(make_model(head), tokenizer, tmp_path / head, {"max_length": 600, "seed": 1})
        return tmp_path / head

    return make


def rank(folder: Path, run_dir: Path, *words: str) -> Any:
    given = [f"checkpoint='{folder}'", f"predictions='{folder / 'kept'}'", "progress=false", "bank.queries_per_topic=1"]
    return run_leaderboard(compose("leaderboard", [*given, *words], run_dir), show=False)


def test_a_negative_weight_turns_a_criterion(make_folder: Any, tmp_path: Path) -> None:
    folder = make_folder("late")
    liked = rank(folder, tmp_path / "liked", "criteria=[Prefers concise answers]")
    disliked = rank(folder, tmp_path / "disliked", "criteria=[Prefers concise answers]", "weights=[-1]")
    for name, rate in liked.win_rates().items():
        assert disliked.win_rates()[name] == pytest.approx(1 - rate, abs=1e-6)
    facts = json.loads((tmp_path / "disliked" / "criteria.json").read_text())
    assert facts["weights"] == [-1.0] and facts["criteria"] == ["Prefers concise answers"]
    assert "-1 x Prefers concise answers" in (tmp_path / "disliked" / "leaderboard.md").read_text()
