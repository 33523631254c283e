"""The benchmarks: where their owners publish them, how a row is read, and by which protocol it counts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from crm.benchmarks import protocols
from crm.benchmarks.protocols import Item, Point, Scores
from crm.data.fields import any_text, items, string_list
from crm.io.rows import Intake, data_files
from crm.io.words import first_words
from crm.rewards.scoring import answer_turns, prompt_turns
from crm.schema import RecordError

Row = Mapping[str, Any]
POSTS, POST_WORDS = 10, 60
"""Earlier posts of a user that are shown at most, and words of each."""


@dataclass(frozen=True)
class Benchmark:
    """``folder`` holds its files under the root of public sets; ``hub`` is where a missing one is fetched.

    ``address`` is where its owners publish what cannot be fetched. ``headline`` is the metric that is published,
    ``macro`` over how many levels of categories it is a mean of means, 0 for none. ``shown_order``: whether a row says
    which response stands first; ``both_orders``: a judge that compares has to say the same in both. ``parts`` are the
    categories that it has in full.
    """

    name: str
    title: str
    folder: str
    license: str
    read: Callable[[Row, str], Item]
    count: Callable[[Sequence[Item], Scores], Iterator[Point]]
    headline: str = "accuracy"
    hub: tuple[str, ...] = ()
    address: str = ""
    shown_order: bool = False
    both_orders: bool = False
    macro: int = 0
    parts: Sequence[str] = ()

    def of(self, rows: Sequence[Item]) -> Benchmark:
        """Itself, or under another name and title what is left of it, where some of its parts have no rows."""
        there = {name.casefold().replace("_", "-") for row in rows for name in row.category}
        lacking = [part for part in self.parts if part.casefold() not in there]
        if len(lacking) in (0, size := len(self.parts)):
            return self
        title = f"{self.title} without {', '.join(lacking)} ({size - len(lacking)} of {size} parts)"
        return replace(self, name="_".join([self.name, "without", *lacking]).replace(" ", "_").lower(), title=title)


def read_items(benchmark: Benchmark, *paths: Path, names: Sequence[str] = ()) -> list[Item]:
    """All items of files and folders; ``names`` are what their rows are separated by, else those of the files.

    Raises ``ValueError`` with file, line, field and why.
    """
    found: dict[str, Item] = {}
    reading = Intake(strict=True)
    for file, name in ((file, name) for path, name in zip_longest(paths, names) for file in data_files(path)):

        def parse(row: Row, _line: int, name: str = name or file.name) -> Item:
            try:
                item = benchmark.read(row, name)
            except KeyError as error:
                raise RecordError(error.args[0], f"not there; is this a file of {benchmark.title}?") from None
            if found.setdefault(item.id, item) is not item:
                raise RecordError("id", f"{item.id!r} is there twice")
            return item

        list(reading.rows(file, parse))
    return list(found.values())


def _item(name: str, prompt: Any, responses: Sequence[Any], **more: Any) -> Item:
    answers = tuple(answer_turns(text, f"responses[{place}]") for place, text in enumerate(responses))
    return Item(name, prompt_turns(prompt, "prompt"), answers, **more)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _rm_bench(row: Row, file: str) -> Item:
    kind = file.partition("_filtered")[0]
    chosen, rejected = row["chosen"], row["rejected"]
    for name, texts in (("chosen", chosen), ("rejected", rejected)):
        if len(texts) != 3:
            raise RecordError(name, f"expected 3 responses ({', '.join(protocols.STYLES)}), got {len(texts)}")
    if "domain" in row:
        kind = str(row["domain"])
    domain = (kind.partition("-")[0], kind) if "-" in kind else (kind,)
    return _item(f"{kind}-{row['id']}", row["prompt"], [*chosen, *rejected], right=(0, 1, 2), category=domain)


SECTIONS = {
    ("Chat",): ("alpacaeval", "mt-bench-easy", "mt-bench-med"),
    ("Chat Hard",): ("mt-bench-hard", "llmbar"),
    ("Safety",): ("refusals", "xstest", "donotanswer"),
    ("Reasoning", "math"): ("math-prm",),
    ("Reasoning", "code"): ("hep",),
}
"""RewardBench's sections, by how names of its subsets begin; mathematics and code count alike."""


def _reward_bench(row: Row, file: str) -> Item:
    subset, pair = str(row["subset"]), [row["chosen"], row["rejected"]]
    section = next((name for name, starts in SECTIONS.items() if subset.startswith(starts)), None)
    if section is None:
        raise RecordError("subset", f"{subset!r:.80} is none of RewardBench's")
    return _item(f"{subset}-{row['id']}-{_digest(row['prompt'], *pair)}", row["prompt"], pair, category=section)


def _reward_bench_2(row: Row, file: str) -> Item:
    chosen, rejected = row["chosen"], row["rejected"]
    right = tuple(range(len(chosen)))
    subset = str(row["subset"])
    name = str(row["id"]) if subset == protocols.TIES else f"{subset}-{row['id']}"
    return _item(name, row["prompt"], [*chosen, *rejected], right=right, category=(subset,))


def _judge_bench(row: Row, file: str) -> Item:
    if row["label"] not in ("A>B", "B>A"):
        raise RecordError("label", f"expected A>B or B>A, got {row['label']!r:.80}")
    kind = str(row["source"])
    area = (
        "knowledge" if kind.startswith("mmlu") else kind.removeprefix("livebench-").replace("livecodebench", "coding")
    )
    split = str(row.get("response_model") or file).partition("-20")[0]
    right = int(row["label"] == "B>A")
    pair = [row["response_A"], row["response_B"]]
    return _item(f"{split}-{row['pair_id']}", row["question"], pair, right=(right,), category=(split, area))


RUBRIC_GROUPS = {
    "IF": ("precise if", "ifeval"),
    "STEM": ("stem", "math", "mmlu-pro", "gpqa"),
    "CODE": ("mbpp", "code"),
    "SAFE": ("safety", "harmlessness"),
}
"""RubricBench's groups of domains; any other domain is CHAT."""


def _rubric_bench(row: Row, file: str) -> Item:
    domain = str(row["domain"]).casefold()
    group = next((name for name, domains in RUBRIC_GROUPS.items() if domain in domains), "CHAT")
    rubrics = row["rubrics"]
    lines = rubrics.splitlines() if isinstance(rubrics, str) else string_list(rubrics, "rubrics")
    criteria = tuple(text for line in lines if (text := re.sub(r"^\s*(?:[-*•]|\d+[.)])\s*", "", line).strip()))
    if str(row["label"]) not in ("0", "1"):
        raise RecordError("label", f"expected 0 (A is better) or 1, got {row['label']!r:.80}")
    pair, right = [row["response_a"], row["response_b"]], (int(row["label"]),)
    return _item(str(row["case_id"]), row["instruction"], pair, right=right, criteria=criteria, category=(group,))


def _ppe_preference(row: Row, file: str) -> Item:
    winner = str(row["winner"])
    if winner not in ("model_a", "model_b"):
        raise RecordError("winner", f"expected model_a or model_b, got {winner!r:.80}")
    pair = [row["response_1"], row["response_2"]]
    return _item(str(row["question_id"]), row["prompt"], pair, right=(int(winner == "model_b"),))


def _ppe_correctness(row: Row, file: str) -> Item:
    names = sorted((name for name in row if re.fullmatch(r"response_\d+", name)), key=lambda name: int(name[9:]))
    values = tuple(float(value) for value in row["scores"])
    if len(values) != len(names):
        raise RecordError("scores", f"expected {len(names)} numbers, one a response, got {len(values)}")
    kind = re.sub(r"^ppe[-_]|[-_]best.*$", "", Path(file).stem, flags=re.IGNORECASE) or "all"
    return _item(
        f"{kind}-{row['question_id']}", row["prompt"], [row[name] for name in names], values=values, category=(kind,),
        right=tuple(place for place, value in enumerate(values) if value == max(values)),
    )  # fmt: skip


def _personalized_rewardbench(row: Row, file: str) -> Item:
    aspects = [entry["aspect"] for entry in items(row.get("rubric_aspects") or [], "rubric_aspects")]
    asked = [first_words(post["text"], POST_WORDS) for post in items(row.get("profile") or [], "profile")]
    nearest = nearest_texts(row["question"], asked)[:POSTS]
    posts = tuple(f"Has asked before: {' '.join(text.split())}" for text in nearest)
    pair, category = [row["chosen"], row["rejected"]], (str(row.get("category") or Path(file).stem),)
    return _item(f"{row['id']}", row["question"], pair, criteria=tuple(aspects), posts=posts, category=category)


def nearest_texts(query: str, texts: Sequence[str]) -> list[str]:
    """Those with a word of the query, by falling BM25 (Lucene's form); none without the extra ``profiles``."""
    query_words, *words = [re.findall(r"\w+", text.casefold()) for text in (query, *texts)]
    if find_spec("bm25s") is None or {*query_words}.isdisjoint(chain(*words)):
        return []
    import bm25s

    index = bm25s.BM25(method="lucene", dtype="float64")
    index.index(words, show_progress=False)
    scores = index.get_scores(query_words)
    return [texts[at] for at in np.argsort(-scores, kind="stable") if scores[at] > 0]


def _personal_reward_bench(row: Row, file: str) -> Item:
    context, user = items(row["context"], "context"), str(row["user_id"])
    name = str(row.get("id") or _digest(user, context, row["chosen"], row["rejected"]))
    return _item(name, context, [row["chosen"], row["rejected"]], user=user, split=str(row["split"]))


def _hhh(row: Row, file: str) -> Item:
    whole = re.compile(
        r"###The instruction to evaluate:\n(.*)\n\n###Response to evaluate:\n(.*)\n\n###Score Rubrics:\n\[(.*?)\]\n",
        re.DOTALL,
    )
    names = ("chosen_instruction", "rejected_instruction")
    parts = [whole.search(any_text(row[name], name)) for name in names]
    if parts[0] is None or parts[1] is None:
        raise RecordError("chosen_instruction", "has no instruction, response and rubric where Prometheus has them")
    prompt, chosen, rubric = parts[0].groups()
    name = f"{row['source']}-{_digest(prompt, chosen, parts[1][2])}"
    return _item(name, prompt, [chosen, parts[1][2]], criteria=(rubric,), category=(str(row["source"]),))


READERS = {
    read.__name__.removeprefix("_"): read
    for read in (
        *(_rm_bench, _reward_bench, _reward_bench_2, _judge_bench, _rubric_bench, _ppe_preference, _ppe_correctness),
        *(_personalized_rewardbench, _personal_reward_bench, _hhh),
    )
}


def _benchmark(name: str, entry: Mapping[str, Any]) -> Benchmark:
    """What an entry of catalogue.yaml says; folder and reader are called as the benchmark where it names no others."""
    read, count = READERS[entry.get("read", name)], getattr(protocols, entry.get("count", "pairwise"))
    more = {"name": name, "read": read, "count": count, "hub": tuple(entry.get("hub", ()))}
    return Benchmark(**{"folder": name, **entry, **more})


_LISTED = yaml.safe_load(Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8"))
BENCHMARKS = {name: _benchmark(name, entry) for name, entry in _LISTED.items()}


def others_criteria(rows: Sequence[Item]) -> list[Item]:
    """Each item with the criteria of another one whose criteria are different, the next in the order of the file."""
    found = []
    for place, item in enumerate(rows):
        following = (rows[(place + step) % len(rows)].criteria for step in range(1, len(rows)))
        other = next((criteria for criteria in following if criteria and criteria != item.criteria), None)
        if other is not None:
            found.append(replace(item, criteria=other))
    return found
