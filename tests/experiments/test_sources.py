"""The sets of experiments/sources: made-up rows by hand, the published files to the last row where they are at hand."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.data.splits import Splits
from crm.io.rows import Intake
from crm.schema import Preference
from experiments.sources import summeval
from experiments.sources.rated import flips
from experiments.sources.sets import HEADINGS, as_criteria
from experiments.sources.votes import LLMBAR_SUBSETS, SUBJECTIVE
from tests.made_files import Files, read_published, read_records, spoken_for, winner, write_files, write_rows

Read = Callable[..., list[Preference]]


def judged(instruction: str, response: str) -> str:
    parts = ["Score it.", instruction, response, "[Is it honest?]\nScore 1: no\nScore 5: yes", ""]
    return "".join(f"{part}\n\n{heading}\n" for part, heading in zip(parts, [*HEADINGS, ""], strict=True))


def rated(**fields: Any) -> dict[str, Any]:
    names = ("understandability", "naturalness", "coherence", "engagingness", "groundedness", "overall")
    scores = dict(zip(names, fields.pop("scores"), strict=True))
    return {"source": "hi\nhello\n", "context": "An article .", "scores": scores, **fields}


def ranked(instruction: str, m: int, other: int, preference: float | None, **fields: Any) -> dict[str, Any]:
    reply = {
        "concise_explanation": f"Model M {m}.",
        "ordered_models": [{"model": "m", "rank": other}, {"model": "M", "rank": m}],
    }
    return {
        "instruction": instruction,
        "output_1": "base",
        "output_2": "new",
        "generator_1": "gpt",
        "generator_2": "cat",
        "preference": preference,
        "raw_completion": reply,
        "referenced_models": {"M": "output_2", "m": "output_1"},
        **fields,
    }


def options(preference: str) -> dict[str, Any]:
    return {"preference": preference, "question": "Which?", "classification_task_options": ["follows", "x", "y", "z"]}


def vote(question: str, winner: str) -> dict[str, str]:
    row = {"question": question, "preference": winner, "llama-3-70b-instruct": "L,\n1", "not_llama": 'N "2"'}
    return {**row, "category_labels": "Chat"}


def panda(idx: int, *votes: int, **fields: Any) -> dict[str, Any]:
    row = {"idx": idx, "motivation_app": "Mail", "cmp_key": "bloom-7b_opt-7b", "instruction": "Do", "input": "this"}
    annotators = {f"annotator{number}": vote for number, vote in enumerate(votes, start=1)}
    return {**row, "response1": "yes", "response2": "no", **annotators, **fields}


def rmb_row(uid: str, **fields: Any) -> dict[str, Any]:
    chosen, reject = ({"llm_name": name, "answer": f"{name} says"} for name in ("good", "bad"))
    talk = [{"role": role, "content": role, "language": "en"} for role in ("user", "assistant", "user")]
    return {"pair_uid": uid, "conversation_input": talk, "chosen": chosen, "reject": reject, **fields}


SETS: dict[str, Files] = {
    "rmb": {
        "Pairwise_set/Helpfulness/Code/Documentation.json.gz": [],
        **{f"Pairwise_set/Helpfulness/{task}/Some Scenario.json.gz": [rmb_row(f"{task} 1")] for task in SUBJECTIVE},
        "Pairwise_set/Helpfulness/Chat/More.json": [
            rmb_row("c2", chosen={"llm_name": "good", "answer": "same"}, reject={"llm_name": "bad", "answer": "same"})
        ],
    },
    "pandalm": {
        "testset-v1.json": [
            panda(0, 1, 1, 1),
            panda(1, 2, 2, 0, input=""),
            panda(2, 1, 0, 2, instruction=" "),
            panda(3, 0, 0, 2, response2=False),
        ]
    },
    "personas8": {
        "user_prompts.jsonl": [
            {"user": f"user{n}", "prompt": f"You are kind {n}. Your tone fits your name."} for n in range(1, 9)
        ],
        **{f"user{n}_test.json.gz": [{"prompt": "Q", "chosen": f"good {n}", "rejected": "bad"}] for n in range(1, 9)},
    },
    "prefeval": {
        "mcq_options/pets copy.json": [options("I love cats.")],
        "mcq_options/pets.json": [options("I love cats."), options("I love dogs.")],
    },
    "topicalchat": {
        "topical_chat.json": [
            rated(system_id="S", system_output="s", scores=(1, 3, 2, 2, 0, 4)),
            rated(system_id="T", system_output="t", scores=(1, 2, 2, 2, 1, 4.5)),
            rated(system_id="U", system_output="u", scores=(0, 2, 2, 2, 0, 4)),
            rated(system_id="S", system_output="s", scores=(1, 1, 1, 1, 1, 1), source="another"),
        ]
    },
    "prometheus_hhh": {
        "hhh_alignment_eval.json.gz": [
            {
                "source": "honest",
                "chosen_instruction": judged("Hi?", "Yes."),
                "rejected_instruction": judged("Hi?", "No."),
            },
            {
                "source": "other",
                "chosen_instruction": judged("Hi?\n\nAssistant:  Ho.\n\nHuman: Well?", ""),
                "rejected_instruction": judged("Hi?\n\nAssistant:  Ho.\n\nHuman: Well?", "No [RESULT]"),
            },
        ]
    },
    "vibecheck_arena": {
        "llama_part.csv": [vote("Q1", "not_llama")],
        "llama_whole.csv.gz": [vote("Q1", "not_llama"), vote("Q2", "llama-3-70b-instruct")],
    },
    "autoj": {
        "testdata_pairwise.jsonl.gz": [
            {"scenario": "ranking", "label": label, "prompt": "Rank\u2028it", "response 1": "", "response 2": "x"}
            for label in range(3)
        ]
    },
    "cot_rationales": {
        "cat.annotations.json.gz": [
            ranked("Q1", 1, 2, 2.0),
            ranked("Q2", 2, 1, 1),
            ranked("Q3", 1, 1, 1),
            ranked("Q4", 1, 2, 1.5, raw_completion=None),
        ]
    },
}
# read, records, dropped, flips, ties, with criteria
PUBLISHED = {
    "personas8": (8008, 7873, 127, 0, 0, 7873),
    "prefeval": (1052, 3000, 156, 0, 0, 3000),
    "summeval": (1600, 12000, 0, 3587, 183, 11817),
    "llmbar": (734, 734, 0, 0, 0, 734),
    "topicalchat": (360, 900, 0, 196, 30, 886),
    "d2t": (2056, 1169, 72, 225, 66, 1103),
    "prometheus_hhh": (221, 221, 0, 0, 0, 221),
    "vibecheck_arena": (1803, 1415, 388, 0, 0, 0),
    "autoj": (1392, 1392, 0, 0, 373, 0),
    "rmb": (4062, 4061, 1, 0, 0, 0),
    "pandalm": (999, 999, 0, 0, 105, 0),
    "cot_rationales": (8855, 8833, 22, 0, 20, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_row_of_the_published_files_is_accounted_for(name: str) -> None:
    assert read_published(name)[1] == PUBLISHED[name]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """``read(name, counts={...})``: records of a made-up set; its own counts must be as given."""

    def read(name: str, counts: dict[str, int] | None = None, **changed: Any) -> list[Preference]:
        write_files(tmp_path, SETS[name] | changed)
        return read_records(name, tmp_path, counts)

    return read


def test_personas_become_criteria_of_the_chosen_side(read: Read) -> None:
    rows = read("personas8")
    assert len(rows) == 8
    for number, row in enumerate(rows, start=1):
        assert winner(row) == f"good {number}"
        assert spoken_for(row) == {f"good {number}": (f"user{number}",) * 2, "bad": ()}
        expected = (f"The assistant should be kind {number}", "The assistant's tone fits their name")
        assert row.criteria_a + row.criteria_b == expected
    assert as_criteria("You avoid haste and create calm. ") == ("The assistant should avoid haste and create calm",)
    assert as_criteria(" . ") == ()


def test_prefeval_pairs_the_first_option_with_each_other(read: Read) -> None:
    rows = read("prefeval", {"dropped_repeated": 3})
    assert len(rows) == 6
    assert Counter(row.criteria_a + row.criteria_b for row in rows) == {("I love cats.",): 3, ("I love dogs.",): 3}
    assert all(winner(row) == "follows" and spoken_for(row)["follows"] == ("pets",) for row in rows)
    assert Counter(text for row in rows for text in spoken_for(row)) == {"follows": 6, "x": 2, "y": 2, "z": 2}
    assert {row.topic for row in rows} == {"pets"}, "a copy's name is not a topic"


def test_topicalchat_rates_replies_to_one_dialogue(read: Read) -> None:
    rows = {frozenset((row.author_a, row.author_b)): row for row in read("topicalchat")}
    assert len(rows) == 3, "a reply to another dialogue makes no pair"
    flipping = rows[frozenset("ST")]
    assert flips(flipping)
    assert winner(flipping) == "t", "overall decides"
    assert spoken_for(flipping) == {"s": ("naturalness",), "t": ("groundedness",)}
    tied = rows[frozenset("SU")]
    assert (tied.winner, flips(tied)) == ("tie", False)
    assert {text: set(topics) for text, topics in spoken_for(tied).items()} == {
        "s": {"understandability", "naturalness"}, "u": set()
    }  # fmt: skip
    assert winner(rows[frozenset("TU")]) == "t"
    assert "Article:\nAn article .\n\nChat:\nhi\nhello" in flipping.prompt[0].content


def test_prometheus_hhh_takes_the_rubric_as_the_criterion(read: Read) -> None:
    first, second = read("prometheus_hhh")
    assert (winner(first), first.topic, first.query) == ("Yes.", "honest", "Hi?")
    assert spoken_for(first) == {"Yes.": ("honest",), "No.": ()}
    assert first.criteria_a + first.criteria_b == ("Is it honest?",)
    assert [(turn.role, turn.content) for turn in second.prompt] == [
        ("user", "Hi?"), ("assistant", "Ho."), ("user", "Well?")
    ]  # fmt: skip
    assert winner(second) == "", "an empty response is a response"


def test_cot_rationales_say_who_is_meant(read: Read) -> None:
    rows = read("cot_rationales", {"ties": 1, "dropped_without_reason": 1})
    assert [row.winner for row in rows] == ["b", "a", "tie"]
    assert rows[0].reason == "M is response B, m is response A. Model M 1."
    assert (winner(rows[0]), rows[0].author_b) == ("new", "cat")


OTHERS: dict[str, tuple[dict[str, int], list[str]]] = {
    "vibecheck_arena": ({"dropped_repeated": 1}, ['N "2"', "L,\n1"]),
    "autoj": ({"ties": 1}, ["", "x", "tie"]),
    "rmb": ({"dropped_identical_responses": 1}, ["good says"] * len(SUBJECTIVE)),
    "pandalm": ({"unanimous": 1, "three_way_splits": 1, "ties": 2}, ["yes", "no", "tie", "tie"]),
}
"""What is counted and who wins: repeated votes and equal responses are left out, of several annotators most count."""


@pytest.mark.parametrize("name", OTHERS)
def test_who_wins_in_sets_without_criteria(read: Read, name: str) -> None:
    counts, winners = OTHERS[name]
    rows = read(name, counts)
    assert [row.winner if row.winner == "tie" else winner(row) for row in rows] == winners


ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def load_summeval(root: Path, **settings: int) -> Splits:
    given = {"seed": 0, "train": 0, "validation": 0, "suite": 0, "max_words": 0} | settings
    return summeval.load(root / "summeval", Intake(strict=True), **given)


def write_summeval(root: Path, ratings: list[tuple[str, tuple[float, ...]]], documents: int) -> None:
    rows = [
        {"doc_id": f"d-{n:03}", "system": system, "source": f"article {n} " * 99, "summary": f"{system} on {n}",
         "scores": dict(zip(ASPECTS, scores, strict=True))}
        for n in range(documents) for system, scores in ratings
    ]  # fmt: skip
    write_rows(root / "summeval" / "ratings.jsonl.gz", rows)


def sides(row: Preference) -> dict[str | None, tuple[str, ...]]:
    return {row.author_a: row.criteria_topics_a, row.author_b: row.criteria_topics_b}


def test_summeval_pairs_by_hand(tmp_path: Path) -> None:
    ratings = [("S", (5, 2, 3, 3)), ("T", (2, 5, 3, 3)), ("U", (1, 1, 3, 2.5)), ("V", (1, 1, 3, 2.4))]
    write_summeval(tmp_path, ratings, documents=10)
    splits = load_summeval(tmp_path, seed=1, max_words=3)
    assert splits.counts | {"pairs": 60, "dropped_no_aspect_decides": 10, "train_flips": 6} == splits.counts
    assert list(map(len, (splits.train, splits.validation, *splits.suites.values()))) == [30, 5, 12, 3]
    for row in splits.suites["F"]:
        assert sides(row) == {"S": ("coherence",), "T": ("consistency",)}
    for row in splits.suites["D"]:
        (loser,) = [name for name, aspects in sides(row).items() if not aspects]
        assert loser in "UV"
        assert (row.author_a if row.winner == "b" else row.author_b) == loser
        assert len(row.criteria_a + row.criteria_b) == 1
    several = [row for seed in range(5) for row in load_summeval(tmp_path, seed=seed).train]
    decided = [row for row in several if {row.author_a, row.author_b} == {"S", "U"}]
    assert {row.author_a for row in decided} == {"S", "U"}
    for row in decided:
        assert sorted(sides(row)["S"]) == ["coherence", "consistency"], "a gap of 0.5 is not more than 0.5"
    few = load_summeval(tmp_path, seed=1, suite=2)
    assert (len(few.validation), len(few.suites["D"])) == (5, 2), "a smaller suite leaves validation as it is"
    overall = splits.train[0]
    number = overall.id.split("-")[1].lstrip("0").rjust(1, "0")
    assert overall.prompt[0].content.endswith(f"\n\narticle {number} article ...")


def test_llmbar_keeps_the_numbers_of_reversed_instructions(tmp_path: Path) -> None:
    for subset in LLMBAR_SUBSETS:
        label = 2 if subset.endswith("Negation") else 1
        pairs = [{"input": f"Say {n}", "output_1": "one", "output_2": "two", "label": label} for n in range(2)]
        write_files(tmp_path, {f"{subset}/dataset.json": pairs})
    rows = {row.id: row for row in read_records("llmbar", tmp_path)}
    for number in (1, 2):
        normal, negation = (rows[f"llmbar-{subset}-{number}"] for subset in ("Normal", "Negation"))
        assert (normal.response_a, normal.response_b) == (negation.response_a, negation.response_b)
        assert (winner(normal), winner(negation)) == ("one", "two")
        assert set(spoken_for(normal)["one"]) == set(spoken_for(negation)["two"]) == {"instruction following"}
    assert Counter(row.source for row in rows.values()) == {"llmbar/human": 10, "llmbar/construction": 10}
