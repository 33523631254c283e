"""Made-up folders of the public sets: the shape of each, a handful of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.data.public.constructed import MODELS
from crm.data.public.plain import LLMBAR_SUBSETS
from tests.made_files import Files, write_files


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
}


@pytest.fixture
def made_up() -> Callable[[str], Files]:
    """A fresh copy of a set's rows."""
    return lambda name: json.loads(json.dumps(SETS[name]))


@pytest.fixture
def write_set() -> Callable[[Path, Files], None]:
    """Write rows to a folder in the format that each name tells."""
    return write_files
