"""Made-up folders of the public sets: the shape of each, a handful of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.data.public.constructed import MODELS
from crm.data.public.plain import LLMBAR_SUBSETS, SUBJECTIVE
from tests.made_files import Files, write_files


def panda(idx: int, *votes: int, **fields: Any) -> dict[str, Any]:
    row = {"idx": idx, "motivation_app": "Mail", "cmp_key": "bloom-7b_opt-7b", "instruction": "Do", "input": "this"}
    annotators = {f"annotator{number}": vote for number, vote in enumerate(votes, start=1)}
    return {**row, "response1": "yes", "response2": "no", **annotators, **fields}


def rmb_row(uid: str, **fields: Any) -> dict[str, Any]:
    chosen, reject = ({"llm_name": name, "answer": f"{name} says"} for name in ("good", "bad"))
    talk = [{"role": role, "content": role, "language": "en"} for role in ("user", "assistant", "user")]
    return {"pair_uid": uid, "conversation_input": talk, "chosen": chosen, "reject": reject, **fields}


def llmbar_rows(label: int) -> list[Any]:
    return [{"input": f"Say {n}", "output_1": "one", "output_2": "two", "label": label} for n in range(2)]


SETS: dict[str, Files] = {
    "summeval": {
        "ratings.jsonl.gz": [
            {
                "doc_id": "d-1",
                "system": system,
                "source": "article",
                "summary": f"{system} sums up",
                "scores": dict(zip(("coherence", "consistency", "fluency", "relevance"), scores, strict=True)),
            }
            for system, scores in (("S", (5, 1, 3, 3)), ("T", (1, 5, 3, 3)), ("U", (1, 1, 3, 3)))
        ]
    },
    "dsp": {
        "domain_specific_preference.test.json.gz": [
            {
                "query": "Why?",
                "responses": {name: f"{name} says" for name in ("academy", "business", "entertainment", "literature")},
            }
        ]
    },
    "concise_verbose": {
        f"{model}{style}.json": [{"instruction": "Why?", "output": " ".join(["word"] * words)}]
        for model in MODELS
        for style, words in (("_concise", 1), ("", 2), ("_verbose", 3))
    },
    "llmbar": {
        f"{subset}/dataset.json": llmbar_rows(2 if subset.endswith("Negation") else 1) for subset in LLMBAR_SUBSETS
    },
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
}


@pytest.fixture
def made_up() -> Callable[[str], Files]:
    """A fresh copy of a set's rows."""
    return lambda name: json.loads(json.dumps(SETS[name]))


@pytest.fixture
def write_set() -> Callable[[Path, Files], None]:
    """Write rows to a folder in the format that each name tells."""
    return write_files
