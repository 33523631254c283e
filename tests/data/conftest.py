"""Made-up folders of the public sets: the shape of each, a handful of rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crm.data.public.concise_verbose import MODELS
from crm.data.public.conditioned import HEADINGS, LLMBAR_SUBSETS

from crm.data.public.plain import SUBJECTIVE

Files = dict[str, list[Any]]
"""Rows by path inside the set's folder; the path's name tells the format."""


def judged(instruction: str, response: str) -> str:
    parts = ["Score it.", instruction, response, "[Is it honest?]\nScore 1: no\nScore 5: yes", ""]
    return "".join(f"{part}\n\n{heading}\n" for part, heading in zip(parts, [*HEADINGS, ""], strict=True))


def rated(**fields: Any) -> dict[str, Any]:
    names = ("understandability", "naturalness", "coherence", "engagingness", "groundedness", "overall")
    scores = dict(zip(names, fields.pop("scores"), strict=True))
    return {"source": "hi\nhello\n", "context": "An article .", "scores": scores, **fields}


def sentence(doc_id: int, text: str, *scores: float, source: str = "inform(name=x)") -> dict[str, Any]:
    names = ("informativeness", "naturalness", "overall")
    return {"doc_id": doc_id, "source": source, "system_output": text, "scores": dict(zip(names, scores, strict=True))}


def ranked(instruction: str, m: int, other: int, preference: float | None, **fields: Any) -> dict[str, Any]:
    said = {
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
        "raw_completion": said,
        "referenced_models": {"M": "output_2", "m": "output_1"},
        **fields,
    }


def panda(idx: int, *votes: int, **fields: Any) -> dict[str, Any]:
    row = {"idx": idx, "motivation_app": "Mail", "cmp_key": "bloom-7b_opt-7b", "instruction": "Do", "input": "this"}
    annotators = {f"annotator{number}": vote for number, vote in enumerate(votes, start=1)}
    return {**row, "response1": "yes", "response2": "no", **annotators, **fields}


def rmb_row(uid: str, **fields: Any) -> dict[str, Any]:
    chosen, reject = ({"llm_name": name, "answer": f"{name} says"} for name in ("good", "bad"))
    talk = [{"role": role, "content": role, "language": "en"} for role in ("user", "assistant", "user")]
    return {"pair_uid": uid, "conversation_input": talk, "chosen": chosen, "reject": reject, **fields}


def options(preference: str) -> dict[str, Any]:
    return {"preference": preference, "question": "Which?", "classification_task_options": ["follows", "x", "y", "z"]}


def llmbar_rows(label: int) -> list[Any]:
    return [{"input": f"Say {n}", "output_1": "one", "output_2": "two", "label": label} for n in range(2)]


def vote(question: str, winner: str) -> dict[str, str]:
    row = {"question": question, "preference": winner, "llama-3-70b-instruct": "L,\n1", "not_llama": 'N "2"'}
    return {**row, "category_labels": "Chat"}


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
    "llmbar": {
        f"{subset}/dataset.json": llmbar_rows(2 if subset.endswith("Negation") else 1) for subset in LLMBAR_SUBSETS
    },
    "topicalchat": {
        "topical_chat.json": [
            rated(system_id="S", system_output="s", scores=(1, 3, 2, 2, 0, 4)),
            rated(system_id="T", system_output="t", scores=(1, 2, 2, 2, 1, 4.5)),
            rated(system_id="U", system_output="u", scores=(0, 2, 2, 2, 0, 4)),
            rated(system_id="S", system_output="s", scores=(1, 1, 1, 1, 1, 1), source="another"),
        ]
    },
    "d2t": {
        "sfres.json": [
            sentence(0, "a", 6, 2, 2),
            sentence(1, "b", 5, 2, 3),
            sentence(2, "a", 5, 5, 2),
            sentence(3, "c", 1, 1, 1, source="bye()"),
        ],
        "sfhot.json": [sentence(0, "a", 4, 4, 4), sentence(1, "b", 4, 4, 4)],
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
    "rmb": {
        "Pairwise_set/Helpfulness/Code/Documentation.json.gz": [],
        **{f"Pairwise_set/Helpfulness/{task}/Some Scenario.json.gz": [rmb_row(f"{task} 1")] for task in SUBJECTIVE},
        "Pairwise_set/Helpfulness/Chat/More.json": [
            rmb_row("c2", chosen={"llm_name": "good", "answer": "same"}, reject={"llm_name": "bad", "answer": "same"})
        ],
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
    "pandalm": {
        "testset-v1.json": [
            panda(0, 1, 1, 1),
            panda(1, 2, 2, 0, input=""),
            panda(2, 1, 0, 2, instruction=" "),
            panda(3, 0, 0, 2, response2=False),
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


@pytest.fixture
def made_up() -> Callable[[str], Files]:
    """A fresh copy of a set's rows."""
    return lambda name: json.loads(json.dumps(SETS[name]))


@pytest.fixture
def write_set() -> Callable[[Path, Files], None]:
    """Write rows to a folder in the format that each name tells."""

    def write(folder: Path, files: Files) -> None:
        for name, rows in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = _as_text(name, rows).encode("utf-8")
            path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)

    return write


def _as_text(name: str, rows: list[Any]) -> str:
    if ".jsonl" in name and not name.startswith("results/"):
        return "".join(json.dumps(row) + "\n" for row in rows)
    if ".csv" in name:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(vote("", "")), extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows(rows)
        return stream.getvalue()
    return json.dumps(rows)
