"""Sets of plain votes, a function each. In: a row. Out: its `Preference`: who is preferred, and no criteria."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from crm.schema import Preference, RecordError, messages, prompt_key
from crm.votes.fields import (
    Conversation,
    any_text,
    choice,
    inner,
    number,
    query,
    response,
    split_shared,
    text,
    two,
    whole,
)
from crm.votes.public.dialogues import dialogue
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import turn

SUBJECTIVE = ("Brainstorming", "Chat", "Generation", "Open QA", "Rewrite", "Role Playing", "Summarization")
"""RMB's tasks in which taste decides."""
LLAMA, OTHER = "llama-3-70b-instruct", "not_llama"
ANNOTATORS = ("annotator1", "annotator2", "annotator3")
SAID, SHOWN = "raw_completion", "referenced_models"


@rows_of("testdata_pairwise.jsonl.gz")
def autoj(row: Row, at: At) -> Preference:
    """Auto-J: which of two responses people found better, or neither; the topic is one of 58 scenarios.

    The criteria that are published for a scenario are what to look at in general and speak for neither side, so they
    are not used. It is a published test: pairs of equal texts (nine, eight of them ties) stay.
    """
    return Preference(
        id=f"autoj-{at.number}",
        prompt=query(row, "prompt"),
        response_a=response(row, "response 1"),
        response_b=response(row, "response 2"),
        winner=choice(row, "label", {0: "a", 1: "b", 2: "tie"}),
        topic=text(row, "scenario"),
        source="autoj/human",
    )


@rows_of(drop_repeated="dropped_repeated_pairs")
def vibecheck_arena(row: Row, _at: At) -> Preference:
    """VibeCheck's arena votes: a person chose between Llama-3-70B, which stands as A, and some other LLM.

    The columns are named after the two; the topic is the category as published. One file is a part of another.
    """
    prompt, first, second = query(row, "question"), response(row, LLAMA), response(row, OTHER)
    return Preference(
        id=f"vibecheck_arena-{prompt_key(prompt + first + second)}",
        prompt=prompt,
        response_a=first,
        response_b=second,
        winner=choice(row, "preference", {LLAMA: "a", OTHER: "b"}),
        topic=text(row, "category_labels"),
        author_a=LLAMA,
        source="vibecheck_arena/human",
    )


@rows_of(*(f"Pairwise_set/Helpfulness/{task}" for task in SUBJECTIVE), drop_identical=True)
def rmb(row: Row, at: At) -> Preference:
    """RMB: real users' prompts, two LLMs' responses, and which one a stronger LLM scored higher.

    Classification, closed questions, code, reasoning and translation have right answers and are left alone. The topic
    is ``<task>/<scenario>``.
    """
    prompt = messages(row.get("conversation_input"), "conversation_input")
    if prompt[-1].role != "user":
        raise RecordError("conversation_input", f"ends with a turn of the {prompt[-1].role}, expected the user's")
    chosen, rejected = inner(row, "chosen"), inner(row, "reject")
    return chosen_pair(
        f"rmb-{text(row, 'pair_uid')}",
        prompt,
        response(chosen, "chosen.answer"),
        response(rejected, "reject.answer"),
        source="rmb/llm",
        topic=f"{at.file.parent.name}/{at.stem}",
        authors=(text(chosen, "chosen.llm_name"), text(rejected, "reject.llm_name")),
    )


def _several_turns(_row: Row, records: Sequence[Preference]) -> dict[str, int]:
    longer = sum(len(record.response_a + record.response_b) > 2 for record in records)
    return {"pairs_with_a_response_of_several_turns": longer}


@rows_of(*(f"{name}.test.json.gz" for name in ("helpful", "harmless", "webgpt")), count=_several_turns)
def dsp_plain(row: Row, at: At) -> Preference:
    """DSP's plain pairs: two dialogues that differ in how they end; people preferred the one with the higher score.

    The prompt is what both share up to an answer. In 14 pairs a response goes on behind its first turn; it is kept
    whole, and counted. The topic is the file. Which side stands as A is drawn, as most files put the winner first.
    """
    topic = at.stem.removesuffix(".test")
    first, second = (dialogue(text({"text": side}, "text")) for side in two(row, "text"))
    prompt, a, b = split_shared(first, second, ("text[0]", "text[1]"))
    score_a, score_b = (number({"score": score}, "score", 0, 2) for score in two(row, "score"))
    better, worse = (a, b) if score_a >= score_b else (b, a)
    record = chosen_pair(f"dsp_plain-{topic}-{at.number}", prompt, better, worse, source="dsp_plain/human", topic=topic)
    return replace(record, winner="tie") if score_a == score_b else record


def _agreement(row: Row, _records: Sequence[Preference]) -> dict[str, int]:
    votes = {row[name] for name in ANNOTATORS}
    return {
        "unanimous": len(votes) == 1,
        "three_way_splits": len(votes) == len(ANNOTATORS),
        "responses_given_as_true_or_false": sum(isinstance(row[name], bool) for name in ("response1", "response2")),
    }


@rows_of("testset-v1.json", count=_agreement)
def pandalm(row: Row, _at: At) -> Preference:
    """PandaLM's test: three annotators' votes; two of three decide, and where all differ it is a tie.

    The topic is the application that the instruction was made for, the authors are the models. A response that JSON
    spells as ``true`` or ``false`` was the word: it is read as that word, and counted.
    """
    authors = text(row, "cmp_key").split("_")
    if len(authors) != 2:
        raise RecordError("cmp_key", "expected the names of two models with one _ between them")
    asked = [part for name in ("instruction", "input") if (part := any_text(row.get(name), name)).strip()]
    if not asked:
        raise RecordError("instruction", "blank, and so is input; expected text in one of them")
    votes = Counter(choice(row, name, {0: "tie", 1: "a", 2: "b"}) for name in ANNOTATORS)
    ((side, most),) = votes.most_common(1)
    return Preference(
        id=f"pandalm-{whole(row, 'idx')}",
        prompt=turn("user", "\n\n".join(asked)),
        response_a=_response_or_word(row, "response1"),
        response_b=_response_or_word(row, "response2"),
        winner=side if most > 1 else "tie",
        topic=text(row, "motivation_app"),
        author_a=authors[0],
        author_b=authors[1],
        source="pandalm/human",
    )


def _response_or_word(row: Row, name: str) -> Conversation:
    value = row.get(name)
    return turn("assistant", str(value)) if isinstance(value, bool) else response(row, name)


@rows_of(count=lambda _row, records: {"dropped_without_reason": not records})
def cot_rationales(row: Row, _at: At) -> Preference | tuple[()]:
    """AlpacaEval's choices with a reason: an LLM ranked a baseline's output, which stands as A, and another model's.

    It was shown them as ``M`` and ``m``, and explained itself in a paragraph: the record's ``reason``, with a first
    sentence of ours that says which response M is. Rows without a reason were not shown to it (equal outputs). Where it
    ranked both first it is a tie, though ``preference`` is published as 1. The instructions are AlpacaEval's.
    """
    if SAID in row and row[SAID] is None:
        return ()
    said = inner(row, SAID)
    m, other = choice(inner(row, SHOWN), f"{SHOWN}.M", {"output_1": ("a", "b"), "output_2": ("b", "a")})
    ranks = _ranks(said)
    winner = "tie" if ranks["M"] == ranks["m"] else m if ranks["M"] < ranks["m"] else other
    if winner not in ("tie", choice(row, "preference", {1: "a", 2: "b"})):
        raise RecordError("preference", "is for the output that ordered_models puts second")
    prompt, author = query(row, "instruction"), text(row, "generator_2")
    legend = f"M is response {m.upper()}, m is response {other.upper()}."
    return Preference(
        id=f"cot_rationales-{author}-{prompt_key(prompt)}",
        prompt=prompt,
        response_a=response(row, "output_1"),
        response_b=response(row, "output_2"),
        winner=winner,
        author_a=text(row, "generator_1"),
        author_b=author,
        source="cot_rationales/llm",
        reason=f"{legend} {text(said, f'{SAID}.concise_explanation')}",
    )


def _ranks(said: Row) -> dict[str, float]:
    """The rank of ``M`` and of ``m``, 1 or 2."""
    models = said.get(f"{SAID}.ordered_models")
    if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        raise RecordError("ordered_models", "expected a list of two objects with model and rank")
    ranks = {choice(model, "model", {"M": "M", "m": "m"}): number(model, "rank", 1, 2) for model in models}
    if len(models) != 2 or len(ranks) != 2:
        raise RecordError("ordered_models", "expected one rank for M and one for m")
    return ranks
