"""Winner columns: which codes are in doubt, and that the word which a refusal shows works when it is typed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from crm.cli.mistakes import with_lists
from crm.config import compose
from crm.io.intake import Intake
from crm.votes.own import table


def votes(tmp_path: Path, cells: list[object]) -> Path:
    path = tmp_path / "votes.jsonl"
    rows = ({"prompt": f"p{n}", "response_a": "x", "response_b": "y", "winner": cell} for n, cell in enumerate(cells))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sides(path: Path, winners: Mapping[str, str], *, strict: bool = True) -> str:
    return " ".join(row.winner for row in table.read(path, Intake(strict=strict), columns={}, winners=winners))


def shown(message: str) -> list[str]:
    """The words of a command line that a sentence shows, as a shell gives them to the command."""
    return [word.rstrip(",") for word in shlex.split(message) if word.startswith("data.winners=")]


def given(word: str) -> Mapping[str, str]:
    winners: Mapping[str, str] = compose(
        "train", ["data=table", "data.path=x", with_lists(word)], Path("run")
    ).data.winners
    return winners


LIKERT = "1 2 3 4 5 6 7"


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("cells", "winners", "numbers", "small_for_a"),
    [
        (LIKERT, {}, "1, 2, 3, 4, 5, 6, 7", "a a a tie b b b"),
        (LIKERT, {"3": "a", "4": "tie", "5": "b", "6": "b", "7": "b"}, "1, 2, 3, 4, 5, 6, 7", "a a a tie b b b"),
        ("1 1 2 2 2", {"2": "b"}, "1, 2", "a a b b b"),
        ("-3 -2 -1 1 2 3", {"-3": "a", "-2": "a", "-1": "a", "3": "b"}, "-3, -2, -1, 1, 2, 3", "a a a b b b"),
        ("-1 1 1", {}, "-1, 1", "a b b"),
        ("1 0", {}, "0, 1", "b a"),
        ("0 1 2", {}, "0, 1, 2", "a tie b"),
        ("1 2 3", {"3": "tie"}, "1, 2, 3", "a b tie"),
        ("1.0 2.0 1.5", {}, "1, 1.5, 2", "a b tie"),
        (" ".join(["1"] * table.LOOK_AHEAD + ["3"]), {}, "1, 3", " ".join(["a"] * table.LOOK_AHEAD + ["b"])),
    ],
)
def test_a_number_beside_others_means_nothing_sure_and_one_mapping_settles_all(
    tmp_path: Path, cells: str, winners: dict[str, str], numbers: str, small_for_a: str, strict: bool
) -> None:
    path = votes(tmp_path, list(cells.split()))
    with pytest.raises(ValueError) as caught:
        sides(path, winners, strict=strict)
    assert f"winner: holds or maps the numbers {numbers}, " in str(caught.value)
    whole = given(shown(str(caught.value))[0])
    assert set(whole) == set(numbers.split(", ")), "no number is left to be read by itself"
    assert sides(path, whole) == small_for_a


def test_one_and_two_alone_are_sides_and_words_beside_them_change_nothing(tmp_path: Path) -> None:
    assert sides(votes(tmp_path, [1, 2.0, "2", "tie", "left"]), {}) == "a b b tie a"


def test_scores_are_no_winners(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="30 numbers from 0 to 29 are no winners; expected a, b, tie"):
        sides(votes(tmp_path, list(range(30))), {})


WORDS = [
    ["Réponse A", "Réponse B", "égalité"],
    ["平局", "左", "右"],
    ["A is better!", "B & co (50%), 'so'", 'say "b"'],
    ["a=b", "${seed}", "back\\slash\\"],
    ["  two  spaces\n", "ＦＵＬＬ width", "👩‍💻 wins"],
    ["null", "no", "{x: y}"],
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("mapped", [{}, {"nobody": "tie"}])
def test_the_word_that_a_refusal_shows_maps_every_cell_when_it_is_with_lists(
    tmp_path: Path, words: list[str], mapped: dict[str, str]
) -> None:
    path = votes(tmp_path, [*words, *mapped])
    with pytest.raises(ValueError) as caught:
        sides(path, mapped)
    (word,) = shown(str(caught.value))
    read = sides(path, given(word)).split()
    assert set(read[:3]) == {"a", "b", "tie"} and read[3:] == list(mapped.values())


@pytest.mark.parametrize(
    "word",
    [
        'data.winners={"Réponse A": a, "tie (x)": tie}',
        "data.winners={Réponse A: a, tie (x): tie}",
        'data.winners={"Réponse A":"a","tie (x)":"tie"}',
        'data.winners=["Réponse A=a","tie (x)=tie"]',
        'data.winners="{\\"Réponse A\\": \\"a\\", \\"tie (x)\\": \\"tie\\"}"',
    ],
)
def test_a_mapping_can_be_typed_in_every_way_that_people_try(word: str) -> None:
    assert given(word) == {"Réponse A": "a", "tie (x)": "tie"}


@pytest.mark.parametrize("word", ["data.winners=[x=a,x=b]", "data.winners=x", "data.winners=[1,2]", "data.winners={a}"])
def test_what_is_no_mapping_is_refused(word: str) -> None:
    with pytest.raises((ValueError, Exception), match=r"winners"):
        given(word)


def test_topics_can_have_any_name() -> None:
    word = 'topic_model.names={Education & Learning: "school, exam", Règles: ""}'
    prepared = compose("prepare", ["topic_model=taxonomy", with_lists(word)])
    assert prepared.topic_model.names == {"Education & Learning": "school, exam", "Règles": ""}
    assert compose("prepare", ["topic_model=taxonomy", 'topic_model.names=["A & B=x","Règles"]']).topic_model.names == {
        "A & B": "x",
        "Règles": "",
    }


def test_a_side_that_wins_all_because_the_other_was_not_known_stops_the_reading(tmp_path: Path) -> None:
    path = votes(tmp_path, ["left", "rechts", "left", "rechts", "tie"])
    with pytest.raises(ValueError, match=r"winner: a wins every vote that can be read; 'rechts' is not known; map it"):
        sides(path, {}, strict=False)
    assert sides(votes(tmp_path, ["left", "rechts", "rechts", "right"]), {}, strict=False) == "a b"
    assert sides(votes(tmp_path, [*["left"] * 40, "rubbish", "?"]), {}, strict=False) == " ".join(["a"] * 40)


def test_many_unknown_words_are_most_likely_models(tmp_path: Path) -> None:
    path = votes(tmp_path, [f"model-{n}" for n in range(20)])
    with pytest.raises(ValueError, match=r"'model-0' is not known, nor are 19 other cells; if they name models") as one:
        sides(path, {})
    assert given(shown(str(one.value))[0]) == {"model-0": "a"}
    with pytest.raises(ValueError, match="too long for a winner; name the column"):
        sides(votes(tmp_path, ["word " * 30]), {})
