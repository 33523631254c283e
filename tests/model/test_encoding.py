"""One renderer: our segments against a chat template that plain transformers tokenises as one string."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import tokenization_utils_base

from crm.model import encoding
from crm.model.encoding import Encoder, per_character, system_text
from crm.model.heads import LINEAR_HEADS, PROMPT_ORDERS
from crm.model.template import MARKS, chat_template
from crm.schema import Comparison, Message
from tests.model.messages import by_hand, conversations, pairwise_messages

CONTROLS = ("<|im_start|>", "<|im_end|>", "<|pad|>", "<|endoftext|>")
fast = settings(derandomize=True, deadline=None, max_examples=60)
pieces = st.lists(
    st.sampled_from([*CONTROLS, "<|", "im_start|>", "|>", "\n", " ", "a", "é", "\u2028", "🙂"]), max_size=8
)
text = st.one_of(pieces.map("".join), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))


def flat(encoded: Any) -> list[list[int]]:
    return [[token for segment in sequence for token in segment.ids] for sequence in encoded.sequences]


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_segments_are_the_parts_in_order(tokenizer, make_encoder, comparisons, head) -> None:
    row = comparisons[4]
    encoded = make_encoder(head).encode(row, "ab")
    first, last = encoded.sequences[0], encoded.sequences[-1]
    kinds = ["criteria", "query", "response_a", "response_b"]
    assert [segment.kind for segment in first] == (kinds[:3] if head == "scalar" else kinds)
    spoken = [tokenizer.decode(segment.ids) for segment in first]
    assert spoken[0].startswith("<|im_start|>system\n") and spoken[0].endswith("<|im_end|>")
    assert spoken[1] == "\n<|im_start|>user\nA joke?<|im_end|>"
    assert [spoken[2].count(word) for word in ("Knock.", "Who?", "Rain.")] == [1, 1, 1], "follow-ups belong to it"
    assert "No." in tokenizer.decode(last[-1].ids)


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_heads_read_at_the_end_of_a_response(tokenizer, make_encoder, comparisons, head) -> None:
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    for row in comparisons:
        for order, (first, second) in {"ab": ("a", "b"), "ba": ("b", "a")}.items():
            encoded = make_encoder(head).encode(row, order)
            sequences = flat(encoded)
            spoken = {"a": row.response_a[-1].content, "b": row.response_b[-1].content}
            for reads, side in zip(encoded.reads, (first, second), strict=True):
                sequence, position = reads
                ids = sequences[sequence]
                assert ids[position] == end
                side_read = second if head == "pairwise" else side  # the pairwise head reads the last token only
                assert tokenizer.decode(ids[:position]).endswith("\n" + spoken[side_read])
            assert sequences[encoded.reads[1][0]][encoded.reads[1][1] :] == [end], "the second read is the last token"
            assert [sequence for sequence, _ in encoded.reads] == ([0, 1] if head == "scalar" else [0, 0])


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_with_criteria_last_segments_come_in_the_order_of_the_text(tokenizer, make_encoder, comparisons, head) -> None:
    sequences = make_encoder(head, order="criteria_last").encode(comparisons[4]).sequences
    kinds = {
        "scalar": ["query", "response_a", "criteria"],
        "pairwise": ["query", "response_a", "response_b", "criteria"],
        "pairwise_span": ["query", "response_a", "response_b", "criteria", "mark_a", "mark_b"],
    }[head]
    for sequence in sequences:
        assert [segment.kind for segment in sequence] == kinds
        spoken = {segment.kind: tokenizer.decode(segment.ids) for segment in sequence}
        assert spoken["query"] == "<|im_start|>user\nA joke?<|im_end|>"
        system = system_text((), encoding.POINTWISE_INSTRUCTION if head == "scalar" else encoding.PAIRWISE_INSTRUCTION)
        assert spoken["criteria"] == f"\n<|im_start|>system\n{system}<|im_end|>"
        if head == "pairwise_span":
            assert [spoken["mark_a"], spoken["mark_b"]] == [f"\n<|im_start|>{role}\n<|im_end|>" for role in MARKS]
    spoken_first = tokenizer.decode(sequences[0][1].ids)
    assert [spoken_first.count(word) for word in ("Knock.", "Who?", "Rain.")] == [1, 1, 1], "follow-ups belong to it"


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_with_criteria_last_heads_read_after_the_criteria(tokenizer, make_encoder, comparisons, head, order) -> None:
    for row in comparisons:
        encoded = make_encoder(head, order="criteria_last").encode(row, order)
        lengths = [len(ids) for ids in flat(encoded)]
        reads = [flat(encoded)[sequence][: position + 1] for sequence, position in encoded.reads]
        first, second = (tokenizer.decode(ids) for ids in reads)
        bullets = system_text(row.criteria, "").removeprefix("\n")
        assert second.endswith(f"{bullets}<|im_end|>" if head != "pairwise_span" else "response_b\n<|im_end|>")
        assert first.endswith(f"{bullets}<|im_end|>" if head != "pairwise_span" else "response_a\n<|im_end|>")
        assert bullets in first, "the first read sees the criteria too"
        assert encoded.reads[1][1] == lengths[-1] - 1
        assert [sequence for sequence, _ in encoded.reads] == ([0, 1] if head == "scalar" else [0, 0])
        if head == "pairwise":
            assert encoded.reads[0] == encoded.reads[1]


@fast
@given(criteria=st.lists(text.filter(str.strip), max_size=3), query=text, a=text, b=text)
def test_what_precedes_the_criteria_does_not_depend_on_them(tokenizer, make_encoder, criteria, query, a, b) -> None:
    """Not on their text, and by the exported template neither: the same ids are the start of what others render."""
    prompt = (Message("system", "Be kind."), Message("user", query), Message("assistant", a), Message("user", b))
    answers = (Message("assistant", a),), (Message("assistant", b), Message("user", a), Message("assistant", query))
    row = Comparison("c", "p", tuple(criteria), prompt, *answers, "a")
    clean = not any(control in str((query, a, b)) for control in CONTROLS)
    for head in LINEAR_HEADS:
        encoder = make_encoder(head, 10**6, "criteria_last")
        sides = [answers] if head != "scalar" else [(answers[0],), (answers[1],)]
        before = [encoder.conversation_segments(prompt, *side) for side in sides]
        after = encoder.criteria_segments(tuple(criteria))
        assert encoder.encode(row).sequences == tuple(kept + after for kept in before)
        assert {segment.kind for kept in before for segment in kept} <= {"query", "response_a", "response_b"}
        tokenizer.chat_template = chat_template(head, "criteria_last")
        for kept, turns in zip(before, conversations(row, head), strict=True):
            ids = [token for segment in kept for token in segment.ids]
            assert tokenizer.decode(ids) == by_hand(turns[1:])
            if clean:
                others = [{"role": "system", "content": "This other user cares about much else."}, *turns[1:]]
                assert tokenizer.apply_chat_template(others)["input_ids"][: len(ids)] == ids


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_with_criteria_first_the_criteria_come_alone_too(make_encoder, comparisons, head) -> None:
    encoder = make_encoder(head)
    for row in comparisons:
        responses = (row.response_a,) if head == "scalar" else (row.response_a, row.response_b)
        parts = encoder.criteria_segments(row.criteria) + encoder.conversation_segments(row.prompt, *responses)
        assert encoder.encode(row).sequences[0] == parts
    wrong = (row.response_a, row.response_b) if head == "scalar" else (row.response_a,)
    with pytest.raises(ValueError, match=f"head={head}: reads "):
        encoder.conversation_segments(row.prompt, *wrong)


@fast
@given(criterion=text.filter(str.strip), query=text, a=text, b=text, system=text)
def test_data_never_becomes_a_control_token(tokenizer, make_encoder, criterion, query, a, b, system) -> None:
    prompt = (Message("system", system), Message("user", query))
    row = Comparison("c", "p", (criterion,), prompt, (Message("assistant", a),), (Message("assistant", b),), "a")
    control_ids = tokenizer.convert_tokens_to_ids(list(CONTROLS))
    for head, order in product(LINEAR_HEADS, PROMPT_ORDERS):
        sequences = flat(make_encoder(head, 10**6, order).encode(row))
        for turns, ids in zip(conversations(row, head), sequences, strict=True):
            controls = len(turns) + (2 if (head, order) == ("pairwise_span", "criteria_last") else 0)
            assert [ids.count(control) for control in control_ids] == [controls, controls, 0, 0]
            assert tokenizer.decode(ids) == by_hand(turns, head, order), "every character is still there"


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_the_other_order_swaps_segments_and_target(make_encoder, comparisons, head) -> None:
    for row in comparisons:
        ab, ba = (make_encoder(head).encode(row, order) for order in ("ab", "ba"))
        mirrored = make_encoder(head).encode(
            replace(
                row,
                response_a=row.response_b,
                response_b=row.response_a,
                label={"a": "b", "b": "a"}.get(row.label, "tie"),
            )
        )
        assert ba.sequences == mirrored.sequences and ba.reads == mirrored.reads and ba.target == mirrored.target
        assert ab.target == {"a": 1.0, "b": 0.0, "tie": 0.5}[row.label] and ab.target + ba.target == 1.0
        if head == "scalar":
            assert ab.sequences == ba.sequences[::-1]
        else:
            assert ab.sequences[0][:2] == ba.sequences[0][:2] and ab.sequences[0][2:] != ba.sequences[0][2:]


def test_a_criterion_stays_one_bullet_in_its_own_script() -> None:
    assert system_text(["two\nlines\u2028and more", "東京 – é"], "Cares:") == "Cares:\n- two lines and more\n- 東京 – é"
    rendered = by_hand(pairwise_messages(["東京"], *[(Message("user", "é🙂"),)] * 3))
    assert "東京" in rendered and rendered.count("é🙂") == 3 and "\\u" not in rendered


def test_non_ascii_text_costs_its_bytes_and_heads_keep_the_same_rows(tokenizer, make_encoder, comparisons) -> None:
    row = comparisons[2]
    ascii_row = replace(row, criteria=("x",), prompt=(Message("user", "x"),), response_a=(Message("assistant", "x"),))
    for head in LINEAR_HEADS:
        grown = sum(make_encoder(head).encode(row).lengths) - sum(make_encoder(head).encode(ascii_row).lengths)
        copies = 2 if head == "scalar" else 1
        extra = copies * (len("".join(row.criteria).encode()) + len(row.prompt[0].content.encode()) + 8)
        assert 0 < grown <= extra + len(row.response_a[0].content.encode())
    joint = {head: make_encoder(head).encode(row).lengths for head in LINEAR_HEADS}
    assert joint["pairwise"] == joint["pairwise_span"]
    for limit in range(20, 240, 20):
        kept = {head: [row.id for row in comparisons if make_encoder(head, limit).encode(row)] for head in LINEAR_HEADS}
        assert kept["pairwise"] == kept["pairwise_span"]
        assert set(kept["pairwise"]) <= set(kept["scalar"]), "what fits jointly fits alone"


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_a_sequence_longer_than_the_limit_gives_none(make_encoder, comparisons, head) -> None:
    longest = max(make_encoder(head).encode(comparisons[1]).lengths)
    assert make_encoder(head, longest).encode(comparisons[1]) is not None
    assert make_encoder(head, longest - 1).encode(comparisons[1]) is None


def test_a_long_text_is_left_to_whoever_asked_and_the_tokenizer_says_nothing(
    tokenizer, make_encoder, comparisons, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(tokenization_utils_base.logger, "warning", said.append)
    monkeypatch.setattr(tokenizer, "model_max_length", 8)
    monkeypatch.setattr(tokenizer, "deprecation_warnings", {})
    assert make_encoder("scalar", max_length=8).encode(comparisons[4]) is None
    assert said == []
    tokenizer.encode("one two three four five six seven eight nine ten")
    assert len(said) == 1, "what it would have said"


def test_the_digest_names_head_length_and_template(make_encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = {make_encoder(*names).digest for names in product(LINEAR_HEADS, (64, 65), PROMPT_ORDERS)}
    assert len(digests) == 12
    assert make_encoder("scalar", 64).digest in digests
    monkeypatch.setattr(encoding, "chat_template", lambda *names: chat_template(*names) + " ")
    digests.add(make_encoder("scalar", 64).digest)
    monkeypatch.undo()
    monkeypatch.setattr(encoding, "PAIRWISE_INSTRUCTION", "Other:")
    digests.add(make_encoder("pairwise", 64).digest)
    assert len(digests) == 14


def test_predictions_made_with_the_criteria_first_stay_valid(make_encoder) -> None:
    """The digests of before there was a second order."""
    assert [make_encoder(head).digest for head in LINEAR_HEADS] == [
        "d223ae962af59407",
        "79fbdb34b0572b7f",
        "1a14139378343e98",
    ]


def test_per_character_renders_the_text_of_the_list(tokenizer, make_encoder, comparisons) -> None:
    row = replace(comparisons[0], criteria=("Be brief", "é"))
    rendered = tokenizer.decode(flat(make_encoder("scalar").encode(per_character(row)))[0])
    bullets = rendered.split("<|im_end|>")[0].split("\n")[2:]
    assert bullets == [f"- {character}".replace("-  ", "- ") for character in "['Be brief', 'é']"]
    assert row.criteria == ("Be brief", "é"), "the row itself is left alone"


def test_only_evaluation_renders_per_character() -> None:
    root = Path(encoding.__file__).parents[1]
    users = {
        path.relative_to(root).as_posix() for path in root.rglob("*.py") if "per_character(" in path.read_text("utf-8")
    }
    assert users == {"model/encoding.py", "evaluation/run.py"}


def test_a_tokenizer_without_the_control_tokens_is_refused() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    with pytest.raises(ValueError, match=r"no single token <\|im_start\|>"):
        Encoder(PreTrainedTokenizerFast(tokenizer_object=backend), "scalar", 10)
