import random
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crm.io.intake import Intake
from crm.schema import Message, Preference, prompt_key
from crm.votes.splits import Splits, assign, check_disjoint, prompt_groups, split_records

fast = settings(derandomize=True, deadline=None, max_examples=30)

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("ck", "lm", "nt", "rs", "sh")]


def text(i: int) -> str:
    return " ".join(random.Random(i).choices(WORDS, k=30))


def prompt(content: str, system: str | None = None) -> tuple[Message, ...]:
    return ((Message("system", system),) if system else ()) + (Message("user", content),)


def vote(i: int, content: str | None = None, topic: str | None = None) -> Preference:
    answer = (Message("assistant", "yes"),)
    return Preference(f"p{i}", prompt(content or text(i)), answer, answer, "a", topic=topic)


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


def test_many_spellings_of_one_request_stay_together() -> None:
    endings = ("", "please", "now", "thanks", "ok", "in english", "for kids", "quickly", "today", "asap", "thank you")
    groups = prompt_groups([prompt(f"{text(0)} {ending}") for ending in endings])
    assert len(set(groups.values())) == 1


def test_templated_prompts_fill_the_parts_as_others_do() -> None:
    """27 of 30 prompts share an instruction, as retrieval sends it: 80/10/10 within five standard deviations."""
    rows = [vote(i, PLACES["before"](" ".join(text(i).split()[:8])) if i % 10 else text(i)) for i in range(300)]
    for seed in range(1, 13):
        parts = Counter(home(split_by_prompt(rows, seed=seed, validation=0.1, test=0.1)).values())
        assert abs(parts["test"] - 30) < 26 and abs(parts["validation"] - 30) < 26


def test_the_sentence_and_the_warning_name_groups_and_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    rows = [vote(i, f"Name the tree with the number {i}") for i in range(40)]
    with pytest.raises(
        ValueError, match=r"only 40 different prompts in 1 group of near-duplicates.*near_duplicates=1\.0"
    ):
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


def split_by_prompt(rows: list[Preference], **settings: float) -> Splits:
    return split_records(rows, Intake(strict=True), **settings)


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


def test_short_and_wordless_prompts() -> None:
    contents = ["hi", "Hi!", "yo", "???", "!", "🙂", "你好吗", "你好吗?", "12 * 7", "12 * 8", "", "\ud800"]
    groups = prompt_groups([prompt(content) for content in contents])
    group = {content: groups[prompt_key(prompt(content))] for content in contents}
    assert group["hi"] == group["Hi!"]
    assert group["你好吗"] == group["你好吗?"]
    assert len(set(group.values())) == len(contents) - 2


def test_a_long_shared_instruction_does_not_tie_prompts_together_but_hides_no_duplicate() -> None:
    instruction = " ".join(text(i) for i in range(1000, 1020))
    apart = [prompt(text(i), instruction) for i in range(20)]
    assert len(set(prompt_groups(apart).values())) == 20
    same = [prompt(text(0), instruction), prompt(text(0), "Be brief."), prompt(text(0))]
    assert len(set(prompt_groups(same).values())) == 1


@fast
@given(st.randoms(), st.integers(0, 1000))
def test_order_of_rows_does_not_matter(rng: random.Random, seed: int) -> None:
    rows = [vote(i) for i in range(40)] + [vote(100 + i, near_duplicates(text(i))[i % 6]) for i in range(20)]
    where = home(split_by_prompt(rows, seed=seed, validation=0.2, test=0.2))
    shuffled = rng.sample(rows, len(rows))
    assert home(split_by_prompt(shuffled, seed=seed, validation=0.2, test=0.2)) == where


@fast
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


def test_held_out_topics_take_their_prompts_out_of_every_other_split() -> None:
    rows = [*(vote(i, topic="Gaming" if i % 5 == 0 else "Arts") for i in range(60)), vote(99, text(0).upper(), "Arts")]
    groups = prompt_groups([row.prompt for row in rows])
    keys, topics = [groups[prompt_key(row.prompt)] for row in rows], [row.topic for row in rows]
    parts = assign(keys, topics, seed=1, validation=0.2, test=0.2, held_out_topics=["Gaming"])
    assert [row.id for row, part in zip(rows, parts, strict=True) if part == "unseen_topics"] == [
        f"p{i}" for i in range(0, 60, 5)
    ]
    assert [row.id for row, part in zip(rows, parts, strict=True) if part == "left_out"] == ["p99"]
    assert set(parts) == {"train", "validation", "test", "unseen_topics", "left_out"}


@fast
@given(st.floats(allow_nan=True), st.floats(allow_nan=True))
def test_impossible_fractions_are_refused(validation: float, test: float) -> None:
    assume(not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1))
    with pytest.raises(ValueError, match=r"validation|test"):
        split_by_prompt([], seed=0, validation=validation, test=test)


def test_a_split_that_stays_empty_is_said_and_no_rows_at_all_are_fine() -> None:
    with pytest.raises(ValueError, match=r"validation: empty, because there are only 1 different prompts; bring more"):
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
    check_disjoint([vote(1), vote(1)], [], {"D": [vote(2)]})
    with pytest.raises(ValueError, match="1 prompts of train are also in suites"):
        check_disjoint([vote(1)], [], {"D": [vote(3, text(1).upper())]})
    with pytest.raises(ValueError, match="1 prompts of train are also in validation"):
        check_disjoint([vote(1)], [vote(3, text(1).upper())], {})
    with pytest.raises(ValueError, match="1 prompts of validation are also in suites"):
        check_disjoint([], [vote(1)], {"C": [], "D": [vote(3, text(1).upper())]})


def drawn_families(words: random.Random) -> list[list[str]]:
    """12 to 20 requests that have nothing in common, each written in up to three ways."""
    numbers = words.sample(range(60), words.randint(12, 20))
    return [[text(i), *words.sample(near_duplicates(text(i)), words.randint(0, 2))] for i in numbers]


@pytest.mark.slow
def test_500_splits_share_no_group_and_add_up() -> None:
    words, refused = random.Random(0), 0
    for number in range(500):
        families = drawn_families(words)
        rows = [vote(100 * i + k, member) for i, family in enumerate(families) for k, member in enumerate(family)]
        reading, shares = Intake(strict=True), {"validation": words.uniform(0.1, 0.4), "test": words.uniform(0.1, 0.4)}
        try:
            splits = split_records(words.sample(rows, len(rows)), reading, seed=number, **shares)
        except ValueError as error:
            assert "empty, because there are only" in str(error)
            refused += 1
            continue
        where = home(splits)
        assert set(where) == {row.id for row in rows}
        parts = {"train": splits.train, "validation": splits.validation, "suite_D": splits.suites["D"]}
        assert {name: splits.counts[name] for name in parts} == {name: len(part) for name, part in parts.items()}
        assert sum(map(len, parts.values())) == len(rows), "each row once"
        for i, family in enumerate(families):
            assert len({where[f"p{100 * i + k}"] for k in range(len(family))}) == 1, "no group in two parts"
    assert refused < 100, "a part of few prompts may stay empty, and is refused"


def test_prompts_that_share_most_of_their_words_but_not_nearly_all_stay_apart() -> None:
    """Six of thirty words differ: a similarity of about 0.7, where the index alone would still join a few."""
    pairs = [(text(i), " ".join([*text(i).split()[:24], *text(5000 + i).split()[:6]])) for i in range(150)]
    joined = [len(set(prompt_groups([prompt(a), prompt(b)]).values())) == 1 for a, b in pairs]
    assert sum(joined) == 0


def test_a_broken_assignment_does_not_get_out(monkeypatch: pytest.MonkeyPatch) -> None:
    row_by_row = iter(["train", "test", "validation"])
    monkeypatch.setattr("crm.votes.splits._assign", lambda *_: next(row_by_row))
    with pytest.raises(ValueError, match="1 prompts of train are also in suites"):
        split_by_prompt([vote(1), vote(2, text(1).upper()), vote(3)], seed=0, validation=0.1, test=0.1)
