"""Splits by prompt: near-duplicates stay together and parts have their sizes, in one source and in several."""

import random
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.data import splits as by_prompt
from crm.data.catalogue import place_of
from crm.data.config import DataConfig
from crm.data.load import load_data, mix
from crm.data.splits import NearDuplicates, Splits, plain_text, prompt_groups
from crm.schema import Message, Preference, prompt_key
from tests.made_files import write_rows

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("ck", "lm", "nt", "rs", "sh")]


def text(i: int) -> str:
    return " ".join(random.Random(i).choices(WORDS, k=30))


def prompt(content: str) -> tuple[Message, ...]:
    return (Message("user", content),)


def vote(i: int, content: str | None = None) -> Preference:
    answer = (Message("assistant", "yes"),)
    return Preference(f"p{i}", prompt(content or text(i)), answer, answer, "a")


TEMPLATE = (
    "You help the customers of a small shop for bicycles. Answer from the notes below, in two friendly sentences, and "
    "say so where the notes do not hold the answer. Notes: the shop is open from ten to six, repairs take three days, "
    "and helmets cannot be returned. "
)
PLACES = {
    "before": lambda own: f"{TEMPLATE}{own}",
    "behind": lambda own: f"{own} {TEMPLATE}",
    "around": lambda own: f"{TEMPLATE} Question: {own} Remember to answer in two friendly sentences, always.",
    "typed again": lambda own: f"{TEMPLATE.replace('bicycles', 'bycicles')}{own}",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_template_does_not_make_its_questions_one_and_hides_no_duplicate(place: str) -> None:
    questions = [" ".join(text(i).split()[:8]) for i in range(90)]
    asked = [prompt(PLACES[place](question)) for question in questions]
    assert len(set(prompt_groups(asked).values())) == 90
    again = [prompt(PLACES["before"](question.upper() + "??")) for question in questions[:30]]
    groups = prompt_groups([*asked, *again, *(prompt(question) for question in questions[30:40])])
    assert len({groups[prompt_key(one)] for one in asked}) == 90
    assert all(groups[prompt_key(a)] == groups[prompt_key(b)] for a, b in zip(asked, again, strict=False))


def test_the_sentence_and_the_warning_name_groups_and_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    rows = [vote(i, f"Name the tree with the number {i}") for i in range(40)]
    why = r"only 40 different prompts, in 1 groups of near-duplicates.*near_duplicates=1\.0"
    with pytest.raises(ValueError, match=why):
        split_by_prompt(rows, seed=0, validation=0.4, test=0.4)
    assert "40 of 40 prompts are one group of near-duplicates" in caplog.text
    caplog.clear()
    splits = split_by_prompt(rows, seed=0, validation=0.4, test=0.3, near_duplicates=1.0)
    assert min(map(len, (splits.train, splits.validation, splits.suites["D"]))) > 3
    assert not caplog.text


def test_a_smaller_similarity_joins_more() -> None:
    pair = [text(0), " ".join([*text(0).split()[:22], *text(5000).split()[:8]])]
    joined = [len(set(prompt_groups([prompt(one) for one in pair], least).values())) == 1 for least in (0.9, 0.7, 0.5)]
    assert joined == [False, False, True]


def split_by_prompt(
    rows: list[Preference], seed: int, validation: float, test: float, near_duplicates: float = 0.8
) -> Splits:
    config = DataConfig(seed=seed, validation_fraction=validation, test_fraction=test, near_duplicates=near_duplicates)
    parts = by_prompt.split_by_prompt(rows, config)
    return Splits.of({"train": parts["train"], "validation": parts["validation"], "D": parts["test"]})


def home(splits: Splits) -> dict[str, str]:
    parts = {"train": splits.train, "validation": splits.validation, "test": splits.suites["D"]}
    return {row.id: name for name, rows in parts.items() for row in rows}


def near_duplicates(content: str) -> list[str]:
    """The same request as a person, another client or a crawler would write it again."""
    return [
        content.upper(),
        content.replace(" ", "\r\n\t", 3),
        f"  {content}?!",
        content.replace(" ", ", ", 4),
        f"{content} please",
        content.replace("a", "e", 1),
    ]


def test_planted_near_duplicates_stay_together_and_strangers_apart() -> None:
    families = [[text(i), *near_duplicates(text(i))] for i in range(60)]
    rows = [vote(100 * i + k, member) for i, family in enumerate(families) for k, member in enumerate(family)]
    splits = split_by_prompt(rows, seed=0, validation=0.2, test=0.3)
    where = home(splits)
    for i, family in enumerate(families):
        assert len({where[f"p{100 * i + k}"] for k in range(len(family))}) == 1
    groups = prompt_groups([row.prompt for row in rows])
    # Case and white space alone make no new prompt: five spellings are left of the seven.
    assert sorted(Counter(groups.values()).values()) == [5] * 60
    assert set(where.values()) == {"train", "validation", "test"}


@settings(max_examples=30)
@given(st.integers(0, 1000))
def test_new_rows_move_only_groups_that_they_join(seed: int) -> None:
    old = [vote(i) for i in range(60)]
    before = home(split_by_prompt(old, seed=seed, validation=0.2, test=0.2))
    # p500 to p504 repeat the prompts of p0 to p4 with a small edit; the others are new.
    joining = [vote(500 + i, f"{text(i)} please") for i in range(5)]
    fresh = [vote(600 + i) for i in range(50)]
    after = home(split_by_prompt(fresh + joining + old, seed=seed, validation=0.2, test=0.2))
    assert all(after[f"p{i}"] == before[f"p{i}"] for i in range(5, 60))
    assert all(after[f"p{i}"] == after[f"p{500 + i}"] for i in range(5))


def test_fractions_are_met_and_the_validation_fraction_does_not_touch_test() -> None:
    rows = [vote(i) for i in range(1500)]
    small, large = (split_by_prompt(rows, seed=7, validation=v, test=0.2) for v in (0.1, 0.4))
    # Five standard deviations of 1500 draws at one in five.
    assert abs(len(small.suites["D"]) - 300) < 78
    assert abs(len(large.validation) - 600) < 95
    assert small.suites == large.suites
    assert {r.id for r in small.validation} < {r.id for r in large.validation}
    assert split_by_prompt(rows, seed=8, validation=0.1, test=0.2).suites != small.suites


def test_a_split_that_stays_empty_is_reported_and_no_rows_at_all_are_fine() -> None:
    with pytest.raises(ValueError, match=r"validation: empty, .* only 1 different prompts, in 1 groups of near"):
        split_by_prompt([vote(1)] * 3, seed=0, validation=0.01, test=0.0)
    assert split_by_prompt([], seed=0, validation=0.1, test=0.1).train == []


@pytest.mark.parametrize("count", [3, 6, 12])
def test_no_part_of_few_prompts_stays_empty_and_the_test_part_is_that_of_any_validation_fraction(count: int) -> None:
    rows = [vote(i) for i in range(count)]
    for seed in range(20):
        small, large = (split_by_prompt(rows, seed=seed, validation=v, test=0.1) for v in (0.05, 0.3))
        assert small.suites == large.suites and small.suites["D"] and small.validation
        assert sorted(home(small)) == sorted(row.id for row in rows)
        assert home(split_by_prompt(rows[::-1], seed=seed, validation=0.05, test=0.1)) == home(small)
    assert split_by_prompt(rows, seed=0, validation=0.1, test=0.0).suites["D"] == []


def test_a_prompt_in_two_splits_is_found() -> None:
    again = [vote(3, text(1).upper())]
    assert Splits([vote(1), vote(1)], [], {"D": [vote(2)]}).counts == {"train": 2, "validation": 0, "suite_D": 1}
    for parts, names in (
        (([vote(1)], [], {"D": again}), "train are also in suites"),
        (([vote(1)], again, {}), "train are also in validation"),
        (([], [vote(1)], {"C": [], "D": again}), "validation are also in suites"),
    ):
        with pytest.raises(ValueError, match=f"1 prompts of {names}"):
            Splits(*parts)


def found(one: str, other: str) -> list[float]:
    index = NearDuplicates()
    index.add(one)
    return [near for text, near in index.like(other) if text == one]


FORMS: dict[str, Callable[[str], str]] = {
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "full width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "zero width": lambda text: "\u200b".join(text),
    "joiners and marks of direction": lambda text: f"\ufeff\u200e{text}\u200d\u00ad",
    "other spaces": lambda text: text.replace(" ", "\u00a0\u2003"),
    "capitals": str.upper,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "Où est né Molière, déjà ?",
        "서울의 날씨가 어때요?",
        "Thời tiết ở Hà Nội thế nào?",
        "मौसम कैसा है?",
        "What is 2 + 2?",
    ],
)
def test_a_text_is_one_prompt_in_every_form_that_a_reader_takes_for_the_same(text: str, form: str) -> None:
    one, other = (prompt(each) for each in (text, FORMS[form](text)))
    assert prompt_key(one) == prompt_key(other)
    assert found(plain_text(one), plain_text(other)) == [1.0]


def named(name: str, query: str, a: str = "one two three") -> Preference:
    sides = (Message("assistant", a),), (Message("assistant", "one two four"),)
    return Preference(name, prompt(query), *sides, "a", ("short",))


def ids(rows: list[Preference]) -> list[str]:
    return [row.id for row in rows]


def test_no_prompt_of_a_suite_is_trained_on() -> None:
    one = Splits(
        [named("1", "p"), named("2", "q"), named("3", "r")], [named("4", "s")], {"D": [named("5", "t")]}, {"read": 5}
    )
    two = Splits(
        [named("1", "T "), named("2", "s"), named("3", "u")], [named("4", "v")], {"D": [named("5", " Q")]}, {"read": 5}
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


ASKED = {"train": [*range(20), 100, 200], "validation": [*range(100, 105)], "test": [*range(200, 207)]}
"""Numbers of the prompts of files in a folder; train holds one of each other file."""


@pytest.mark.parametrize(
    "files",
    [
        {"train": "train.jsonl", "validation": "valid.jsonl", "test": "test.jsonl"},
        {"train": "data/train-00000-of-00001.parquet", "test": "data/test-00000-of-00001.parquet"},
        {"train": "my_train.jsonl", "validation": "my_val.jsonl"},
        {"train": "training/a.jsonl", "validation": "dev/a.jsonl", "test": "eval/a.jsonl"},
    ],
)
def test_a_folder_of_train_and_other_files_has_them_as_its_parts(files: dict[str, str], tmp_path: Path) -> None:
    for part, file in files.items():  # ids begin anew in each
        rows = [named(f"{place}", text(number)).to_dict() for place, number in enumerate(ASKED[part])]
        write_rows(tmp_path / file, rows)
    splits = load_data(config := DataConfig(name="file", path=str(tmp_path)))
    found = {"train": splits.train, "validation": splits.validation, "test": splits.suites["D"]}
    for part, number in (("validation", 100), ("test", 200)):
        asked = {row.query for row in found[part]}
        assert asked == {*map(text, ASKED[part])} if part in files else asked < {*map(text, ASKED["train"])}
        assert (part in files) == (text(number) not in {row.query for row in splits.train}), "never trained on"
    assert sum(map(len, found.values())) == 22 + sum(len(ASKED[part]) - 1 for part in files if part != "train")
    held_out = {row.query for row in load_data(replace(config, split="all")).suites["D"]}
    numbers = ASKED["test"] if "test" in files else chain.from_iterable(ASKED[part] for part in files)
    assert held_out == {*map(text, numbers)}
    with pytest.raises(ValueError, match="holds the parts"):  # prepare.py divides anew, and takes one
        place_of(str(tmp_path))


def test_rows_that_are_alike_when_cut_are_dropped_before_the_others_are_divided(tmp_path: Path) -> None:
    alike = [named(str(i), text(i)) for i in range(30)]
    rows = [*alike, *(named(str(i), text(i), a="x y z") for i in range(30, 33))]
    path = write_rows(tmp_path / "rows.jsonl", [row.to_dict() for row in rows])
    splits = load_data(config := DataConfig(name="records", path=str(path), max_words=2))
    counts = {"suite_D": 1, "train": 1, "validation": 1, "dropped_same_when_cut": 30}
    assert counts.items() <= splits.counts.items()
    (kept,) = splits.train
    assert kept.response_a[0].content == "x y ..." and kept.response_b[0].content == "one two ..."
    write_rows(path, [row.to_dict() for row in alike])
    with pytest.raises(ValueError, match=r"data\.max_words=2: all 30 pairs of responses are then equal; raise it"):
        load_data(config)
