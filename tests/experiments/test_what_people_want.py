"""Counts of the investigation by hand; on real data, the counts that its sources state."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pandas as pd
import pytest

from crm.data.catalogue import source_named
from crm.io.intake import Intake
from crm.schema import Message, Preference
from experiments.what_people_want.__main__ import main
from experiments.what_people_want.contradictions import by_topic, disagreements, flip_share
from experiments.what_people_want.diversity import diversity
from experiments.what_people_want.raters import agreement_of_three
from experiments.what_people_want.wishes import trait_wins

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[3] / "shared" / "data"))


def row(for_a: str, for_b: str, *, query: str = "q", topic: str | None = None, **changes: object) -> Preference:
    say = (Message("assistant", "x"),)
    sides = {f"{kind}_{side}": tuple(words.split()) for kind in ("criteria", "criteria_topics") for side, words in
             (("a", for_a), ("b", for_b))}  # fmt: skip
    facts = {"response_a": say, "response_b": say, "winner": "a", "topic": topic, **sides, **changes}
    return Preference("1", (Message("user", query),), **facts)  # type: ignore[arg-type]


def test_a_pair_flips_where_criteria_speak_for_both_sides() -> None:
    rows = [row("X", "Y"), row("X Y", ""), row("", "Y", query="r"), row("", "", query="s")]
    found = flip_share(rows)
    assert (found["pairs"], found["flips"], found["share"], found["prompts"]) == (4, 1, 0.25, 3)
    assert 0 <= found["low"] < 0.25 < found["high"] <= 1
    with pytest.raises(ValueError, match="no preferences"):
        flip_share([])


def test_disagreements_count_pairs_that_both_criteria_decide() -> None:
    frame = disagreements([row("X", "Y"), row("X Y", ""), row("", "X Y Z"), row("Z", "X"), row("X", "")])
    found = {(one, other): (pairs, apart) for one, other, pairs, apart, _ in frame.itertuples(index=False)}
    assert found == {("X", "Y"): (3, 1), ("X", "Z"): (2, 1), ("Y", "Z"): (1, 0)}
    assert list(frame["share"]) == sorted(frame["share"], reverse=True)


def test_topics_name_what_is_most_opposed() -> None:
    rows = [row("X", "Y", topic="t"), row("Y", "X", topic="t"), row("X", "Z", topic="t"), row("X", "", topic="u")]
    frame = by_topic(rows).set_index("topic")
    assert frame.loc["t", "most opposed"] == "X / Y"
    assert frame.loc["t", "times"] == 2
    assert (frame.loc["t", "flips"], frame.loc["u", "flips"]) == (3, 0)


def test_diversity_is_entropy() -> None:
    even = diversity(["a", "b", "c", "d"])
    assert (even.entropy, even.evenness, even.effective, even.largest) == (2, 1, 4, 0.25)
    skewed = diversity(["a", "a", "a", "b"])
    assert skewed.entropy == pytest.approx(-(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)))
    assert diversity(["a", "a"]).evenness == 1
    with pytest.raises(ValueError, match="none given"):
        diversity([])


def test_agreement_of_three_by_hand() -> None:
    """Pairs aaa, aab, abc: of nine pairs of votes 3 + 1 + 0 agree."""
    found = agreement_of_three(unanimous=1, three_way=1, pairs=3)
    assert found.pairwise == pytest.approx(4 / 9)
    assert found.one_against_two == pytest.approx(3 / 4), "aa against a three times, aa against b once"
    assert found.majority == pytest.approx(5 / 6)
    for unanimous, three_way, pairs in ((2, 0, 1), (0, 3, 3), (-1, 0, 1)):
        with pytest.raises(ValueError, match="cannot be counted"):
            agreement_of_three(unanimous=unanimous, three_way=three_way, pairs=pairs)


def test_the_longer_response_wins_as_often_as_it_does() -> None:
    long, short = (Message("assistant", "word " * 200),), (Message("assistant", "word"),)
    votes = [("a", long, short), ("b", short, long), ("b", long, short), ("tie", long, short)]
    rows = [row("", "", query=str(n), winner=w, response_a=a, response_b=b) for n, (w, a, b) in enumerate(votes)]
    frame = trait_wins(rows).set_index("trait")
    assert (frame.loc["Length", "pairs"], frame.loc["Length", "share"]) == (4, 0.625)


def test_without_any_set_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "holds none of the sets" in capsys.readouterr().err


def read(name: str) -> list[Preference]:
    source = source_named(name)
    folder = ROOT / str(source.folder)
    if not folder.is_dir():
        pytest.skip(f"no {folder}; set CRM_DATA_ROOT")
    return list(source.read(folder, Intake(strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pairs", "flips"), [("summeval", 12000, 3587), ("topicalchat", 900, 196)])
def test_the_counts_that_the_sources_state_come_out(name: str, pairs: int, flips: int) -> None:
    found = flip_share(read(name))
    assert (found["pairs"], found["flips"]) == (pairs, flips)


def test_what_is_recorded_is_what_is_counted(tmp_path: Path) -> None:
    recorded = Path(__file__).parents[2] / "experiments" / "what_people_want" / "flips.csv"
    frame = pd.read_csv(recorded, skiprows=1).set_index("set")
    for name in frame.index:
        found = flip_share(read(str(name)))
        assert frame.loc[name, "flips"] == found["flips"]
        assert frame.loc[name, "share"] == pytest.approx(found["share"])
