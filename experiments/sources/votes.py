"""Public sets of votes without criteria."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crm.data.fields import At, PublicRow, Text, rows_of
from crm.data.public.pairs import chosen_pair
from crm.io.draws import turn, wordings
from crm.schema import Preference, RecordError, messages, prompt_key
from experiments.sources.rated import wordings_of

LLAMA = "llama-3-70b-instruct"
SUBJECTIVE = ("Brainstorming", "Chat", "Generation", "Open QA", "Rewrite", "Role Playing", "Summarization")
"""RMB's tasks in which taste decides."""
Annotation = Literal[0, 1, 2]


def once(at: At, *records: Preference) -> list[Preference]:
    """The records whose id was not read before; the others are counted."""
    new = [record for record in records if not at.repeats[record.id]]
    at.repeats.update(record.id for record in new)
    at.counts["dropped_repeated"] += len(records) - len(new)
    return new


class _AutoJ(PublicRow):
    prompt: Text
    response_1: str = Field(alias="response 1")
    response_2: str = Field(alias="response 2")
    label: Literal[0, 1, 2]
    scenario: Text


@rows_of("testdata_pairwise.jsonl.gz", model=_AutoJ)
def autoj(row: _AutoJ, at: At) -> Preference:
    """Auto-J: which of two responses people found better, or neither; the topic is one of 58 scenarios.

    The criteria that are published for a scenario speak for neither side, so they are not used. It is a published test:
    pairs of equal texts (nine, eight of them ties) stay.
    """
    given = (f"autoj-{at.number}", row.prompt, row.response_1, row.response_2)
    winner = ("a", "b", "tie")[row.label]
    return chosen_pair(*given, first=True, winner=winner, source="autoj/human", topic=row.scenario)


class _VibeCheck(PublicRow):
    question: Text
    llama: str = Field(alias="llama-3-70b-instruct")
    other: str = Field(alias="not_llama")
    preference: Literal["llama-3-70b-instruct", "not_llama"]
    category_labels: Text


@rows_of(model=_VibeCheck)
def vibecheck_arena(row: _VibeCheck, at: At) -> list[Preference]:
    """VibeCheck's arena votes: a person chose between Llama-3-70B, side A, and some other LLM.

    The columns are named after the two; the topic is the category as published. One file is a part of another.
    """
    prompt, first, second = turn("user", row.question), turn("assistant", row.llama), turn("assistant", row.other)
    name, winner = f"vibecheck_arena-{prompt_key(prompt + first + second)}", "a" if row.preference == LLAMA else "b"
    given, topic = (name, prompt, first, second), row.category_labels
    authors, source = (LLAMA, None), "vibecheck_arena/human"
    return once(at, chosen_pair(*given, first=True, winner=winner, source=source, topic=topic, authors=authors))


class _Rank(PublicRow):
    model: Literal["M", "m"]
    rank: Literal[1, 2]


class _Ranking(PublicRow):
    ordered_models: Annotated[list[_Rank], Field(min_length=2, max_length=2)]
    concise_explanation: Text


class _Shown(PublicRow):
    M: Literal["output_1", "output_2"]


class _Rationale(PublicRow):
    raw_completion: _Ranking | None
    referenced_models: _Shown | None = None
    preference: float | None = None
    instruction: Text
    output_1: str
    output_2: str
    generator_1: Text
    generator_2: Text


@rows_of(model=_Rationale)
def cot_rationales(row: _Rationale, at: At) -> Preference | tuple[()]:
    """AlpacaEval's choices with a reason: an LLM ranked a baseline's output, side A, and another model's.

    They were called ``M`` and ``m`` before it, and it explained itself in a paragraph: the record's ``reason``, with a
    first sentence of ours that says which response M is. Rows without a reason were not shown to it (equal outputs).
    Where it ranked both first it is a tie, though ``preference`` is published as 1.
    """
    if row.raw_completion is None:
        at.counts["dropped_without_reason"] += 1
        return ()
    if row.referenced_models is None:
        raise RecordError("referenced_models", "missing")
    m, other = ("a", "b") if row.referenced_models.M == "output_1" else ("b", "a")
    ranks = {each.model: each.rank for each in row.raw_completion.ordered_models}
    if len(ranks) != 2:
        raise RecordError("ordered_models", "expected one rank for M and one for m")
    winner = "tie" if ranks["M"] == ranks["m"] else m if ranks["M"] < ranks["m"] else other
    if winner != "tie" and row.preference != (1 if winner == "a" else 2):
        raise RecordError("preference", "is for the output that ordered_models puts second")
    prompt = turn("user", row.instruction)
    legend = f"M is response {m.upper()}, m is response {other.upper()}."
    name, reason = f"cot_rationales-{row.generator_2}-{prompt_key(prompt)}", row.raw_completion.concise_explanation
    given, authors = (name, prompt, row.output_1, row.output_2), (row.generator_1, row.generator_2)
    reason = f"{legend} {reason}"
    return chosen_pair(*given, first=True, winner=winner, source="cot_rationales/llm", reason=reason, authors=authors)


class _Answer(PublicRow):
    answer: str
    llm_name: Text


class _RMB(PublicRow):
    pair_uid: Text
    conversation_input: list[Any]
    chosen: _Answer
    reject: _Answer


@rows_of(*(f"Pairwise_set/Helpfulness/{task}" for task in SUBJECTIVE), model=_RMB, drop_identical=True)
def rmb(row: _RMB, at: At) -> Preference:
    """RMB: real users' prompts, two LLMs' responses, and which one a stronger LLM scored higher.

    Tasks with right answers (code, reasoning, ...) are not read. The topic is ``<task>/<scenario>``.
    """
    prompt = messages(row.conversation_input, "conversation_input")
    if (role := prompt[-1].role) != "user":
        raise RecordError("conversation_input", f"ends with a turn of the {role}, expected the user's")
    return chosen_pair(
        f"rmb-{row.pair_uid}",
        prompt,
        row.chosen.answer,
        row.reject.answer,
        source="rmb/llm",
        topic=f"{at.file.parent.name}/{at.file.name.split('.json')[0]}",
        authors=(row.chosen.llm_name, row.reject.llm_name),
    )


def _word(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else value


class _PandaLM(PublicRow):
    idx: int
    instruction: str
    input: str
    motivation_app: Text
    cmp_key: Annotated[str, Field(pattern=r"^[^_]*_[^_]*$")]
    """Names of two models with one _ between them."""
    response1: Annotated[str, BeforeValidator(_word)]
    response2: Annotated[str, BeforeValidator(_word)]
    annotator1: Annotation
    annotator2: Annotation
    annotator3: Annotation


@rows_of("testset-v1.json", model=_PandaLM)
def pandalm(row: _PandaLM, at: At) -> Preference:
    """PandaLM's test: three annotators' votes; two of three decide, and where all differ it is a tie.

    The topic is the application that the instruction was made for, the authors are the models. A response that JSON
    spells as ``true`` or ``false`` was the word.
    """
    parts = [part for part in (row.instruction, row.input) if part.strip()]
    if not parts:
        raise RecordError("instruction", "blank, and so is input; expected text in one of them")
    votes = Counter((row.annotator1, row.annotator2, row.annotator3))
    at.counts.update(unanimous=len(votes) == 1, three_way_splits=len(votes) == 3)
    ((side, most),) = votes.most_common(1)
    winner = ("tie", "a", "b")[side] if most > 1 else "tie"
    first, second = row.cmp_key.split("_")
    given = f"pandalm-{row.idx}", "\n\n".join(parts), row.response1, row.response2
    topic, authors = row.motivation_app, (first, second)
    return chosen_pair(*given, first=True, winner=winner, source="pandalm/human", topic=topic, authors=authors)


LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)


class _LLMBar(PublicRow):
    input: Text
    output_1: str
    output_2: str
    label: Literal[1, 2]


@rows_of(*(f"{subset}/dataset.json" for subset in LLMBAR_SUBSETS), model=_LLMBar)
def llmbar(row: _LLMBar, at: At) -> Preference:
    """LLMBar: of two outputs one follows the instruction, which is the criterion. Sides are as published.

    The 59 pairs of ``Normal`` come back in ``Negation``, where the prompt first asks for an unhelpful answer and the
    other output wins. The topic is the subset. The folder ``Processed`` has other authors' sets and is not read.
    """
    subset = at.file.parent.name
    name = f"llmbar-{subset}-{at.number}"
    outputs = (row.output_1, row.output_2) if row.label == 1 else (row.output_2, row.output_1)
    return chosen_pair(
        name,
        row.input,
        *outputs,
        first=row.label == 1,
        source=f"llmbar/{'construction' if at.file.parent.parent.name == 'CaseStudy' else 'human'}",
        topic=subset,
        criteria=wordings(wordings_of("llmbar")["instruction following"], 0, name),
        criteria_topic="instruction following",
    )
