"""Public sets with ratings by aspect or responses that follow a criterion, and all sources of the extension."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from crm.data.catalogue import Source
from crm.data.fields import At, Conversation, PublicRow, Text, rows_of
from crm.data.public.pairs import chosen_pair
from crm.io.draws import turn
from crm.io.rows import Intake
from crm.schema import Message, Preference, RecordError, prompt_key
from experiments.sources import summeval
from experiments.sources.rated import Rated, pairs_within, rated_pair, wordings_of
from experiments.sources.votes import autoj, cot_rationales, llmbar, once, pandalm, rmb, vibecheck_arena

FILES = Path(__file__).with_name("files.yaml")
OneToSix = Annotated[float, Field(ge=1, le=6)]
OneToThree = Annotated[float, Field(ge=1, le=3)]
Share = Annotated[float, Field(ge=0, le=1)]
NO_ARTICLE = "_nofact"
"""The article of 8 of Topical-Chat's 60 dialogues, where there was nothing to draw on."""
PLACES = {"sfres": "restaurant", "sfhot": "hotel"}
HEADINGS = ("###The instruction to evaluate:", "###Response to evaluate:", "###Score Rubrics:", "###Feedback:")
_OPENINGS = (
    (re.compile(r"\AYou are\b"), "The assistant should be"),
    (re.compile(r"\AYou\b"), "The assistant should"),
    (re.compile(r"\AYour\b"), "The assistant's"),
    (re.compile(r"\byour\b"), "their"),
)
_SPEAKER = re.compile(r"(?:\A|\n\n)(?:## )?(Human|Assistant):")


@dataclass(frozen=True, slots=True)
class RatedInPlace:
    """A rated response and what it answers; ``group`` names the document or dialogue whose responses are compared."""

    group: str
    prompt: Conversation
    rated: Rated


class _ChatScores(PublicRow):
    understandability: Share
    naturalness: OneToThree
    coherence: OneToThree
    engagingness: OneToThree
    groundedness: Share
    overall: Annotated[float, Field(ge=1, le=5)]


class _Chat(PublicRow):
    context: Text
    source: Text
    system_output: Text
    system_id: Text
    scores: _ChatScores


def topicalchat(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of the six rated replies to a dialogue; ids are ``topicalchat-<key of the prompt>-<system>-<system>``.

    The prompt is the dialogue so far and the article that the reply may draw on, where there was one.
    """
    replies, bank = rated_replies(folder, reading)
    for first, second in pairs_within(replies, lambda reply: reply.group):
        name = f"topicalchat-{first.group}-{first.rated.author}-{second.rated.author}"
        yield rated_pair(name, first.prompt, first.rated, second.rated, bank, source="topicalchat/human")


def rated_replies(folder: Path, reading: Intake) -> tuple[list[RatedInPlace], dict[str, tuple[str, ...]]]:
    """Every rated reply, and the wordings of aspects."""
    path = folder / "topical_chat.json"
    replies = reading.rows(path, _chat, key=lambda row: (row.group, row.rated.author))
    return list(replies), wordings_of("topicalchat")


def _chat(given: dict[str, Any], _line: int) -> RatedInPlace:
    row = _Chat.model_validate(given)
    article = row.context.strip()
    known = "" if article == NO_ARTICLE else f" You may use what the article says.\n\nArticle:\n{article}"
    prompt = turn("user", f"Write the next message of this chat.{known}\n\nChat:\n{row.source.strip()}")
    scores = row.scores.model_dump()
    overall = scores.pop("overall")
    return RatedInPlace(prompt_key(prompt), prompt, Rated(row.system_output, row.system_id, scores, overall))


class _SentenceScores(PublicRow):
    informativeness: OneToSix
    naturalness: OneToSix
    quality: OneToSix = Field(alias="overall")
    """Of the language, as Novikova et al. (2017) asked for it."""


class _Sentence(PublicRow):
    doc_id: int
    source: Text
    system_output: Text
    scores: _SentenceScores


def d2t(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of sentences for one dialogue act; ids are ``d2t-<file>-<doc_id>-<doc_id>``.

    Pairs of equal texts, whose ratings differ by chance alone, are dropped and counted.
    """
    for file, place in PLACES.items():
        rows = reading.rows(
            folder / f"{file}.json",
            lambda row, _: _Sentence.model_validate(row),
            lambda row: (place, row.doc_id),  # noqa: B023
        )
        for first, second in pairs_within(rows, lambda row: row.source.strip()):
            act = first.source.strip()
            prompt = turn("user", f"Say this in one sentence to a customer who is looking for a {place}:\n\n{act}")
            a, b = (Rated(side.system_output, None, side.scores.model_dump()) for side in (first, second))
            name = f"d2t-{file}-{first.doc_id}-{second.doc_id}"
            if first.system_output != second.system_output:
                yield rated_pair(name, prompt, a, b, wordings_of("d2t"), source="d2t/human", topic=f"{place}s")
            else:
                reading.counts["dropped_identical_responses"] += 1


class _PrefEval(PublicRow):
    classification_task_options: Annotated[list[Text], Field(min_length=4, max_length=4)]
    preference: Text
    question: Text


@rows_of("mcq_options", model=_PrefEval)
def prefeval(row: _PrefEval, at: At) -> list[Preference]:
    """PrefEval: a user states a preference and asks a question; of four options only the first follows the preference.

    It makes a pair with each of the others, and the user's statement is its criterion. The topic is the file's name.
    One file is published twice ("travel_hotel copy").
    """
    topic, options = at.file.name.split(".json")[0].removesuffix(" copy"), row.classification_task_options
    if options[0] in options[1:]:
        why = "the first option is repeated, so that it does not tell who follows the preference"
        raise RecordError("classification_task_options", why)
    name = f"prefeval-{topic}-{prompt_key(turn('user', f'{row.preference}|{row.question}'))}"
    pairs = [
        chosen_pair(
            f"{name}-{other}",
            row.question,
            options[0],
            options[other],
            source="prefeval/llm",
            topic=topic,
            criteria=(row.preference,),
            criteria_topic=topic,
        )
        for other in range(1, 4)
    ]
    return once(at, *pairs)


class _HHH(PublicRow):
    source: Literal["harmless", "helpful", "honest", "other"]
    chosen_instruction: Text
    rejected_instruction: Text


@rows_of("hhh_alignment_eval.json.gz", model=_HHH)
def prometheus_hhh(row: _HHH, at: At) -> Preference:
    """HHH alignment with rubrics: a row holds two prompts to a judge, with the chosen and with the rejected response.

    Instruction, response and rubric are in them under `HEADINGS`. The question that the rubric asks is the criterion,
    its kind the topic. An instruction may be a dialogue so far.
    """
    instruction, chosen, question = _judged(row.chosen_instruction, "chosen_instruction")
    other_instruction, rejected, other_question = _judged(row.rejected_instruction, "rejected_instruction")
    if (instruction, question) != (other_instruction, other_question):
        raise RecordError("rejected_instruction", "asks about another instruction or rubric than chosen_instruction")
    return chosen_pair(
        f"prometheus_hhh-{at.number}",
        dialogue(instruction),
        chosen,
        rejected,
        source="prometheus_hhh/human",
        topic=row.source,
        criteria=(question,),
        criteria_topic=row.source,
    )


def _judged(rest: str, field: str) -> tuple[str, str, str]:
    """Instruction, response and the question of the rubric, without the white space around them."""
    parts = []
    for heading in HEADINGS:
        if rest.count(heading) != 1:
            raise RecordError(field, f"expected the headings {', '.join(HEADINGS)} once each, in this order")
        part, _, rest = rest.partition(heading)
        parts.append(part.strip())
    _, instruction, response, rubric = parts
    question = rubric.removeprefix("[").partition("]")[0].strip()
    if not instruction or not question or not rubric.startswith("["):
        raise RecordError(field, "expected an instruction, and a rubric that starts with [a question]")
    return instruction, response, question


def dialogue(text: str) -> Conversation:
    """Turns of a text with ``Human:`` and ``Assistant:`` at its start or after blank lines.

    What comes before the first speaker is a turn of the user, unless it is blank. Roles need not alternate.
    """
    opening, *rest = _SPEAKER.split(text)
    roles = ("user" if name == "Human" else "assistant" for name in rest[::2])
    turns = [Message(role, content.strip()) for role, content in zip(roles, rest[1::2], strict=True)]
    return (*turn("user", opening.strip()), *turns) if opening.strip() else tuple(turns)


class _Persona(PublicRow):
    user: Annotated[str, Field(pattern=r"^user[1-8]$")]
    prompt: Text


class _Chosen(PublicRow):
    prompt: Text
    chosen: str
    rejected: str


def personas8(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Eight personas: an LLM in the role of one of them chose between two responses, 1,000 pairs a persona.

    A persona is a text that speaks to an assistant ("You are ... Your tone ..."). Its sentences, turned into what a
    user asks of an assistant, are the criteria; their topic is the user's name, so that users can be held out whole.
    """
    rows = reading.rows(
        folder / "user_prompts.jsonl", lambda row, _: _Persona.model_validate(row), lambda row: row.user
    )
    criteria = {row.user: as_criteria(row.prompt) for row in rows}

    @rows_of(*(f"user{number}_test.json.gz" for number in range(1, 9)), model=_Chosen, drop_identical=True)
    def pairs(row: _Chosen, at: At) -> Preference:
        user = at.file.name.removesuffix("_test.json.gz")
        if user not in criteria:
            raise RecordError("row", f"user_prompts.jsonl has no row of {user} that can be read")
        return chosen_pair(
            f"personas8-{user}-{at.number}",
            row.prompt,
            row.chosen,
            row.rejected,
            source="personas8/llm",
            criteria=criteria[user],
            criteria_topic=user,
        )

    yield from pairs(folder, reading)


def as_criteria(persona: str) -> tuple[str, ...]:
    """The sentences of a persona, as a user would ask for them."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+", persona.strip()) if sentence]
    for pattern, ours in _OPENINGS:
        sentences = [pattern.sub(ours, sentence) for sentence in sentences]
    return tuple(sentence.removesuffix(".") for sentence in sentences if sentence.strip("."))


# fmt: off
AUTOJ = Source("people's choices in 58 scenarios, ties among them", autoj, "autoj", evaluation_only=True, files=FILES)
COT_RATIONALES = Source("an LLM's choices with a paragraph of reasons", cot_rationales, "alpacaeval_cot_rationales",
    "CC-BY-NC-4.0", files=FILES)
D2T = Source("people's ratings of sentences about restaurants and hotels", d2t, "d2t_sfres_sfhot", "MIT", files=FILES)
LLMBAR = Source("outputs of which one follows the instruction", llmbar, "llmbar", "MIT", evaluation_only=True,
    files=FILES)
PANDALM = Source("three annotators' votes on small models' responses", pandalm, "pandalm", "Apache-2.0",
    evaluation_only=True, files=FILES)
PERSONAS8 = Source("pairs that an LLM judged as each of eight personas", personas8, "personas8", files=FILES)
PREFEVAL = Source("options that follow or ignore what a user stated they prefer", prefeval, "prefeval",
    "CC-BY-NC-4.0", files=FILES)
PROMETHEUS_HHH = Source("helpful, honest or harmless responses with a rubric", prometheus_hhh,
    "prometheus_rubric_evals", "Apache-2.0", evaluation_only=True, files=FILES)
RMB = Source("LLMs' responses to real users' subjective prompts", rmb, "rmb", files=FILES)
SUMMEVAL = Source("experts' ratings of 16 systems' summaries of 100 news articles", summeval.read, "summeval",
    "Apache-2.0", splits=summeval.load)
TOPICALCHAT = Source("people's ratings of six replies to each of 60 chats", topicalchat, "topicalchat", "MIT",
    evaluation_only=True, files=FILES)
VIBECHECK_ARENA = Source("people's votes between Llama-3-70B and another LLM", vibecheck_arena, "vibecheck_arena",
    files=FILES)
# fmt: on
