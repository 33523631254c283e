"""What attacks do to a judge: shares counted by hand, judges that are and are not talked round, the command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from crm.evaluation import robustness
from crm.evaluation.robustness import ADDED, ATTACKS, CLEAN, EMPTY, PADDED_WINNER, Effect, effects_of, main
from crm.judges.judge import Asked, Reading
from crm.judges.open import OpenedJudge
from crm.schema import Prediction

SMALL = ("data=simulation", "data.train=24", "data.validation=8", "data.suite=24", "progress=false")


class Reader:
    """Prefers the response of the label, unless the other has one of ``words``; empty ones too where ``empty``."""

    left_out, together, digest, pointwise = "unread", 1, "reader", False

    def __init__(self, words: Sequence[str] = (), empty: bool = False) -> None:
        self.words, self.empty = words, empty

    def fits(self, asked: Asked) -> bool:
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        yield [Reading(row, order, self._logit(row)) for row, order in comparisons]

    def _logit(self, row: Any) -> float:
        sign = 1.0 if row.label == "a" else -1.0
        loser = (row.response_b if row.label == "a" else row.response_a)[-1].content
        fooled = any(word in loser for word in self.words) or (self.empty and not loser)
        return -sign if fooled else sign


def effects(judge: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Effect]:
    opened = OpenedJudge(judge, "reader", tmp_path / "predictions")  # type: ignore[arg-type]
    monkeypatch.setattr(robustness, "open_judge", lambda config: opened)
    config = robustness.compose("evaluate", ["judge=length", *SMALL], tmp_path / "run")
    return {effect.attack: effect for effect in robustness.run_robustness(config, 20, seed=1, show=False)}


def test_a_judge_that_is_not_talked_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = effects(Reader(), tmp_path, monkeypatch)
    assert list(found) == [EMPTY, *ADDED, PADDED_WINNER]
    for name, effect in found.items():
        assert effect.flipped.mean == 0 and effect.readings == 40, "20 pairs in both orders"
        assert effect.withstood is (None if name == PADDED_WINNER else True)


def test_what_talks_a_judge_round_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = effects(Reader(["best one"], empty=True), tmp_path, monkeypatch)
    assert (found["instruction"].flipped.mean, found["instruction"].withstood) == (1.0, False)
    assert (found[EMPTY].flipped.mean, found[EMPTY].withstood) == (1.0, False)
    assert all(found[name].withstood for name in ADDED if name != "instruction")
    written = json.loads((tmp_path / "run" / "robustness.json").read_text())["attacks"]
    assert written["instruction"]["beyond"]["mean"] == 1.0 and not written["instruction"]["withstood"]


def test_what_as_much_neutral_text_does_is_not_the_attack_s_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = effects(Reader(["\n\n"]), tmp_path, monkeypatch)
    for name in ADDED:
        assert (found[name].flipped.mean, found[name].beyond.mean, found[name].withstood) == (1.0, 0.0, True)  # type: ignore[union-attr]


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
    found = {effect.attack: effect for effect in effects_of(rows)}
    assert (found["praise"].readings, found["praise"].flipped.mean, found["praise"].neutral.mean) == (2, 0.5, 0.0)  # type: ignore[union-attr]
    assert (found[EMPTY].readings, found[EMPTY].flipped.mean) == (3, pytest.approx(2 / 3)), "also where it was wrong"
    assert found[PADDED_WINNER].flipped.mean == 0.5


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge=length", *SMALL, "--pairs", "1", "--out", str(tmp_path)]) == 2
    assert "--pairs=1: expected 2 or more" in capsys.readouterr().err
    assert main(["judge=length", *SMALL, "--pairs", "10", "--out", str(tmp_path)]) == 0
    assert "stuffed criteria" in capsys.readouterr().out
