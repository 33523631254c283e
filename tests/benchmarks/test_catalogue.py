"""A row of every benchmark in the form its owners publish, and what is read of it."""

from pathlib import Path

import pytest

from crm.benchmarks.catalogue import BENCHMARKS, READERS, nearest_texts, others_criteria, read_items
from crm.benchmarks.protocols import Item
from crm.benchmarks.report import published
from tests.conftest import say
from tests.made_files import write_rows

PAIR = {"prompt": "Why?", "chosen": ["Because."], "rejected": ["No.", "Maybe.", "Ask."]}
FOUR = {**PAIR, "num_correct": 1, "total_completions": 4}
VOTE = {"context": [{"role": "user", "content": "Why?"}], "chosen": "Because.", "rejected": "No."}
ROWS = {
    "reward_bench": [{"id": 31, "prompt": "Why?", "chosen": "Because.", "rejected": "No.", "subset": "hep-python"}],
    "reward_bench_2": [
        {"id": "7", **FOUR, "subset": "Math"},
        {"id": "ref:1", **FOUR, "subset": "Ties"},
    ],
    "rm_bench": [{"id": 8, "prompt": "Why?", "chosen": ["a", "b", "c"], "rejected": ["d", "e", "f"], "domain": "chat"}],
    "rubric_bench": [
        {
            "case_id": "c1", "instruction": "Why?", "response_a": "Because.", "response_b": "No.", "label": 1,
            "rubrics": "- Is short\n2. Gives a reason\n", "source": "x", "domain": "gpqa",
        }
    ],
    "judge_bench": [
        {
            "pair_id": "p", "source": "mmlu-pro-law", "question": "Why?", "response_model": "gpt-4o-2024-05-13",
            "response_A": "Because.", "response_B": "No.", "label": "B>A",
        }
    ],
    "ppe_preference": [
        {"question_id": "q", "prompt": "Why?", "response_1": "Because.", "response_2": "No.", "winner": "model_b"}
    ],
    "ppe_correctness": [
        {"question_id": "q", "prompt": "Why?", "scores": [1, *[0] * 10],
         **{f"response_{n}": f"r{n}" for n in range(1, 12)}}
    ],
    "personalized_rewardbench": [
        {
            "id": "i", "question": "Why?", "chosen": "Because.", "rejected": "No.", "category": "Art",
            "rubric_aspects": [{"aspect": "Names a painter"}], "profile": [], "narrative": "...",
        }
    ],
    "prism": [{**VOTE, "user_id": "u1", "split": "test"}],
    "arena_personal": [{**VOTE, "user_id": "u2", "split": "train"}],
    "hhh": [
        {
            "source": "honest",
            **{
                f"{side}_instruction": f"###The instruction to evaluate:\nWhy?\n\n###Response to evaluate:\n{side}\n\n"
                "###Score Rubrics:\n[Is it honest?]\nScore 1: no\n"
                for side in ("chosen", "rejected")
            },
        }
    ],
}  # fmt: skip


def read(name: str, folder: Path) -> list[Item]:
    return read_items(BENCHMARKS[name], write_rows(folder / "rows.jsonl", ROWS[name]))


def test_every_benchmark_has_a_row_here():
    assert set(ROWS) == set(BENCHMARKS)
    assert set(published()) <= set(BENCHMARKS)


READ = {
    "reward_bench": ((0,), (), ("Reasoning", "code")),
    "reward_bench_2": ((0,), (), ("Math",)),
    "rm_bench": ((0, 1, 2), (), ("chat",)),
    "rubric_bench": ((1,), ("Is short", "Gives a reason"), ("STEM",)),
    "judge_bench": ((1,), (), ("gpt-4o", "knowledge")),
    "ppe_preference": ((1,), (), ()),
    "ppe_correctness": ((0,), (), ("rows",)),
    "personalized_rewardbench": ((0,), ("Names a painter",), ("Art",)),
    "prism": ((0,), (), ()),
    "arena_personal": ((0,), (), ()),
    "hhh": ((0,), ("Is it honest?",), ("honest",)),
}
"""Which responses are right, for whom, and of what kind the row is."""


@pytest.mark.parametrize("name", ROWS)
def test_prompt_and_responses_are_read_with_what_is_right_and_for_whom(name, tmp_path):
    first = read(name, tmp_path)[0]
    assert first.prompt == say("user: Why?")
    assert all(turns[-1].role == "assistant" for turns in first.responses)
    assert set(first.right) < set(range(len(first.responses)))
    assert (first.right, first.criteria, first.category) == READ[name]


def test_what_a_user_asked_before_is_found_by_its_words_the_rarest_first():
    pytest.importorskip("bm25s")
    oak, bread, most = posts = ["Which oak grows fast?", "Bread without yeast", "Oak, oak and more oak for a table"]
    assert nearest_texts("An oak?", posts) == [most, oak]
    assert nearest_texts("A fast oak", posts) == [oak, most]
    assert nearest_texts("elm", posts) == nearest_texts("oak", []) == []
    row = ROWS["personalized_rewardbench"][0] | {"profile": [{"text": bread}, {"text": "Why\n bread?"}]}
    assert READERS["personalized_rewardbench"](row, "").posts == ("Has asked before: Why bread?",)


def test_responses_of_best_of_k_are_in_the_order_of_their_numbers(tmp_path):
    (item,) = read("ppe_correctness", tmp_path)
    assert [turns[0].content for turns in item.responses] == [f"r{n}" for n in range(1, 12)]


def test_a_row_of_another_benchmark_is_named_with_its_line(tmp_path):
    path = write_rows(tmp_path / "rows.jsonl", ROWS["judge_bench"])
    with pytest.raises(ValueError, match=r"rows.jsonl:1: chosen: not there; is this a file of RM-Bench\?"):
        read_items(BENCHMARKS["rm_bench"], path)


def test_another_rows_criteria_are_never_the_own_ones():
    rows = [
        Item(str(n), say("user: x"), (say("assistant: a"), say("assistant: b")), criteria=(text,))
        for n, text in enumerate("aab")
    ]
    assert [item.criteria for item in others_criteria(rows)] == [("b",), ("b",), ("a",)]
