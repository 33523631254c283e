"""Several sources as one: nothing that is asked is taught, names tell where a row is from, and all is counted."""

from __future__ import annotations

import pytest

from crm.config import compose
from crm.data.load import mix, shorten
from crm.data.splits import Splits
from crm.schema import Message, Preference


def vote(
    name: str, query: str, topic: str | None = None, criteria_topic: str | None = None, **texts: str
) -> Preference:
    return Preference(
        id=name,
        prompt=(Message("user", query),),
        response_a=(Message("assistant", texts.get("a", "one two three")),),
        response_b=(Message("assistant", texts.get("b", "one two four")),),
        winner="a",
        criteria_a=("short",),
        topic=topic,
        criteria_topics_a=(criteria_topic,) if criteria_topic else (),
    )


def ids(rows: list[Preference]) -> list[str]:
    return [row.id for row in rows]


def test_no_prompt_of_a_suite_is_trained_on() -> None:
    one = Splits(
        [vote("1", "p"), vote("2", "q"), vote("3", "r")], [vote("4", "s")], {"D": [vote("5", "t")]}, {"read": 5}
    )
    two = Splits(
        [vote("1", "T "), vote("2", "s"), vote("3", "u")], [vote("4", "v")], {"D": [vote("5", " Q")]}, {"read": 5}
    )
    mixed = mix({"one": one, "two": two})
    assert ids(mixed.train) == ["one/1", "one/3", "two/3"], "q and t are asked, s validates"
    assert ids(mixed.validation) == ["one/4", "two/4"]
    assert {name: ids(rows) for name, rows in mixed.suites.items()} == {"one.D": ["one/5"], "two.D": ["two/5"]}
    assert {name: count for name, count in mixed.counts.items() if not name.startswith(("one.", "two."))} == {
        "dropped_prompt_in_a_suite": 2,
        "dropped_prompt_in_validation": 1,
        "train": 3,
        "validation": 2,
        "suite_one.D": 1,
        "suite_two.D": 1,
    }
    assert (mixed.counts["one.read"], mixed.counts["two.train"]) == (5, 3)


def test_rows_that_are_alike_when_cut_are_dropped() -> None:
    kept, dropped = shorten([vote("1", "p"), vote("2", "q", a="x y z")], 2)
    assert (ids(kept), dropped) == (["2"], 1)
    assert kept[0].response_a[0].content == "x y ..." and kept[0].response_b[0].content == "one two ..."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data=mixture"], r"data\.sources=\[\]: expected names, for data=mixture only"),
        (["data=dsp", "data.sources=[dsp]"], r"data\.sources=\['dsp'\]: expected names, for data=mixture only"),
        (["data=mixture", "data.sources=[table]"], r"data\.sources='table': expected one of"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compose("train", words)
