"""Attacks and their neutral twins; shares counted by hand, judges that withstand and that do not, the command."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.data.config import DataConfig
from crm.data.load import load_data
from crm.evaluation import run
from crm.evaluation.robustness import ADDED, ATTACKS, CLEAN, EMPTY, PADDED_WINNER, changed, effects_of
from crm.judges.judge import Asked, Reading
from crm.judges.open import OpenedJudge
from crm.schema import Comparison, Prediction
from tests.conftest import say
from tests.made_files import write_rows

ROW = Comparison(
    id="c",
    preference_id="p",
    criteria=("Prefers short answers", "No jargon"),
    prompt=say("user: Why rain?"),
    response_a=say("assistant: Clouds cool."),
    response_b=say("assistant: Entropy, roughly speaking."),
    label="a",
)
ROWS = [replace(ROW, id=f"c{number}", label="ab"[number % 2]) for number in range(20)]


def sides(row: Comparison) -> tuple[str, str]:
    """Texts of the winner and the loser."""
    both = row.response_a[-1].content, row.response_b[-1].content
    return both if row.label == "a" else both[::-1]


@pytest.mark.parametrize("name", ADDED)
def test_an_attack_and_its_twin_differ_in_their_words_alone(name: str) -> None:
    ends = set()
    for row in ROWS:
        hit, twin = (changed(row, each, seed=1) for each in (name, f"neutral {name}"))
        assert hit == changed(row, name, seed=1)
        assert sides(hit)[0] == sides(twin)[0] == sides(row)[0]
        assert (hit.label, hit.criteria) == (row.label, row.criteria) == (twin.label, twin.criteria)
        before, padded = sides(row)[1], sides(twin)[1]
        assert len(sides(hit)[1]) == len(padded)
        assert name == "repeated" or sides(hit)[1].startswith(before) == padded.startswith(before)
        ends.add(padded.startswith(before))
        assert not any(word in padded.replace(before, "").lower() for word in ("criteri", "prefer", "short", "best"))
    assert ends == {True, False}, "before and after"


def test_an_empty_response_is_empty_and_a_padded_winner_keeps_its_loser() -> None:
    for row in ROWS:
        assert sides(changed(row, EMPTY, seed=1)) == (sides(row)[0], "")
        winner, loser = sides(changed(row, PADDED_WINNER, seed=1))
        assert loser == sides(row)[1] and sides(row)[0] in winner and len(winner) > 80
    with pytest.raises(ValueError, match="c is a tie"):
        changed(replace(ROW, label="tie"), EMPTY, seed=1)


SMALL = ("data=simulation", "data.train=24", "data.validation=8", "data.suite=24", "progress=false")


class Reader:
    """Prefers the response of the label, unless the other has one of ``words``; empty ones too where ``empty``."""

    left_out, digest, pointwise = "unread", "reader", False

    def __init__(self, words: Sequence[str] = (), empty: bool = False) -> None:
        self.words, self.empty = words, empty

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        yield [Reading(row, order, self._logit(row)) for row, order in comparisons]

    def _logit(self, row: Any) -> float:
        sign = 1.0 if row.label == "a" else -1.0
        loser = (row.response_b if row.label == "a" else row.response_a)[-1].content
        fooled = any(word in loser for word in self.words) or (self.empty and not loser)
        return -sign if fooled else sign


@pytest.mark.parametrize(
    ("judge", "lost"), [(Reader(), []), (Reader(["best one"], empty=True), [EMPTY, "instruction"])]
)
def test_an_attack_that_flips_a_judge_is_reported(
    judge: Reader, lost: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    opened = OpenedJudge(judge, "reader", tmp_path / "predictions")  # type: ignore[arg-type]
    monkeypatch.setattr(run, "open_judge", lambda *_, **__: opened)
    run.run_evaluation(compose("evaluate", ["judge=length", "attacks=20", *SMALL], tmp_path / "run"))
    assert "stuffed criteria" in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "run" / "robustness.csv", skiprows=1).set_index("attack")
    assert list(found.index) == [EMPTY, *ADDED, PADDED_WINNER]
    assert (found["readings"] == 40).all(), "20 pairs in both orders"
    assert list(found.index[found["withstood"] == "no"]) == lost and found["withstood"].iloc[-1] == "–"
    assert found["flipped"].to_dict() == {name: float(name in lost) for name in found.index}
    assert found["beyond_it"].drop([EMPTY, PADDED_WINNER]).to_dict() == {name: float(name in lost) for name in ADDED}


def test_attacks_take_d_from_the_data_and_a_row_may_have_no_reading(tmp_path: Path, monkeypatch: Any) -> None:
    """The suites that are evaluated are others; an empty response fails, one with praise has no reading at all."""

    class Partial(Reader):
        def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
            for row, order in comparisons:
                if not row.id.endswith("|praise"):
                    failed = row.id.endswith(f"|{EMPTY}")
                    yield [Reading(row, order, None, failure="x") if failed else Reading(row, order, self._logit(row))]

    opened = OpenedJudge(Partial(), "reader", tmp_path / "predictions")
    monkeypatch.setattr(run, "open_judge", lambda *_, **__: opened)
    given = ["judge=length", "attacks=4", "suite=noised", *SMALL]
    run.run_evaluation(compose("evaluate", given, tmp_path / "run"), show=False)
    found = pd.read_csv(tmp_path / "run" / "robustness.csv", skiprows=1).set_index("attack")
    assert found.loc[[EMPTY, "praise"], "readings"].tolist() == [0, 0] and found.loc["opener", "readings"] == 8
    assert found.loc[[EMPTY, "praise"], "flipped"].isna().all() and found.loc["praise", "withstood"] == "–"
    assert "n = " not in (tmp_path / "run" / "suites.md").read_text().splitlines()[0], "suites differ in n"


@pytest.mark.parametrize("base", ["trl.D", "other"])
def test_pairs_without_topics_as_of_a_mixture(base: str, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    """What no noise changes is left out, and attacks take the base that is there."""
    pair = {"chosen": "So.", "rejected": "Because.", "criteria": ["Short", "Kind"], "criteria_rejected": ["Long"]}
    path = write_rows(tmp_path / "pairs.jsonl", [{"prompt": f"{n}?", **pair} for n in range(9)])
    data = load_data(DataConfig(name="trl", root="", path=str(path), split="all"))
    monkeypatch.setattr(run, "load_data", lambda *_, **__: replace(data, suites={base: data.suites["D"]}))
    opened = OpenedJudge(Reader(), "reader", tmp_path / "predictions")
    monkeypatch.setattr(run, "open_judge", lambda *_, **__: opened)
    given = compose("evaluate", ["judge=length", "attacks=4", "suite=all", *SMALL], tmp_path / "run")
    found = {row.suite for row in run.run_evaluation(given, show=False)}
    assert found == {f"{base}{name}" for name in ("", "+", "-", "+_remove", "+_replace")}
    assert f"suite {base}+_add is left out: noise changes nothing here" in caplog.text
    assert (tmp_path / "run" / "robustness.md").exists()


def test_shares_are_of_what_was_right_and_could_be_read() -> None:
    """Four pairs of four prompts: right, right, wrong, and right with a failure under attack."""

    def row(number: int, suite: str, logit: float | None) -> Prediction:
        name = f"c{number}" + ("" if suite == CLEAN else f"|{suite}")
        failure = "none" if logit is None else None
        return Prediction(name, "ab", logit, "a", f"q{number}", suite, "d", failure=failure)

    rows = [row(number, CLEAN, logit) for number, logit in enumerate((2.0, 1.0, -1.0, 3.0))]
    for name in (*ATTACKS, PADDED_WINNER):
        rows += [row(number, name, logit) for number, logit in enumerate((-1.0, 1.0, -1.0, None))]
    for name in ADDED:
        rows += [row(number, f"neutral {name}", logit) for number, logit in enumerate((1.0, 1.0, -1.0, 1.0))]
    found = effects_of(rows).set_index("attack")
    praise = found.loc["praise"]
    assert (praise["readings"], praise["flipped"], praise["by_neutral_text"], praise["beyond_it"]) == (2, 0.5, 0.0, 0.5)
    empty = found.loc[EMPTY]
    assert (empty["readings"], empty["flipped"]) == (3, pytest.approx(2 / 3)), "also where it was wrong"
    assert found.loc[PADDED_WINNER, "flipped"] == 0.5
