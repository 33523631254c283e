"""From a reply's text to an object: by hand, and against any text at all."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError

from crm.io.chat import replies
from crm.io.chat.failures import FAILURES, CallFailed, one_line
from crm.io.chat.replies import read_completion, read_object, split_thoughts


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: int


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


VALID = '{"x": 3}'


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        f"\n {VALID}\n",
        f"```json\n{VALID}\n```",
        f"```\n{VALID}\n```\nThat is all.",
        f"The set {{1, 2}} gives {VALID}.",
        f"[Note] Here: {VALID}",
        f"<think>{{'y': 1}} or {{\"x\": 4}}</think>{VALID}",
    ],
)
def test_one_object_is_found(text: str) -> None:
    assert read_object(text, Point).x == 3


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "not_json"),
        ("3", "not_json"),
        (f"[{VALID}]", "not_json"),
        (VALID * 2, "not_json"),
        (f"{{}} {VALID}", "not_json"),
        (f'{{"wrapped": {VALID}, x}}', "not_json"),
        (f'{{"wrapped": {VALID}', "not_json"),
        ('{"x": Infinity}', "not_json"),
        ('{"x": "\\ud800"}', "not_json"),
        ('{"a":' * 50_000, "not_json"),
        ("{" * 100_000, "not_json"),
        (VALID + " " * 200_000 + ".", "not_json"),
        ("I can't do that, sorry.", "refusal"),
        ("I’m sorry, no.", "refusal"),
        ("As an AI, I have no tastes.", "refusal"),
        ('{"x": "3"}', "wrong_schema"),
        ('{"x": 3.5}', "wrong_schema"),
        ('{"x": true}', "wrong_schema"),
        ('{"x": 3, "y": 1}', "wrong_schema"),
        ("{}", "wrong_schema"),
    ],
)
def test_anything_else_has_its_kind(text: str, kind: str) -> None:
    started = time.monotonic()
    with pytest.raises(CallFailed) as caught:
        read_object(text, Point)
    assert caught.value.kind == kind
    assert time.monotonic() - started < 1


texts = st.text() | st.text(alphabet='{}[]":,x3 `\n')
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(texts)
def test_no_text_brings_anything_but_a_value_or_a_kind(text: str) -> None:
    try:
        assert isinstance(read_object(text, Anything), Anything)
    except CallFailed as failure:
        assert failure.kind in FAILURES


@given(st.dictionaries(st.sampled_from(["one", "two"]), values), st.sampled_from(["", "So: ", "```json\n", "a {b} "]))
def test_any_object_comes_back_as_it_was(row: dict[str, Any], before: str) -> None:
    after = "\n```" if "`" in before else " !"
    for ascii_only in (True, False):
        text = before + json.dumps(row, ensure_ascii=ascii_only) + after
        assert read_object(text, Anything).model_dump() == row


def completion(**fields: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": "A"}, **fields}]}).encode()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (json.dumps({"choices": [{}] * 100_000}).encode(), r"choices\.0\.message: Field required"),
        (json.dumps({"choices": [3] * 100_000}).encode(), r"choices\.0: "),
        (json.dumps({"choices": [{"message": {}}] * 100_000}).encode(), "choices: List should have at most 128 items"),
        (completion(logprobs={"content": [{}] * 100_000}), ""),
        (completion(logprobs={"content": [{"top_logprobs": [{}] * 100_000}]}), ""),
    ],
)
def test_of_a_hundred_thousand_mistakes_a_handful_are_collected(
    body: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work is counted: the mistakes that pydantic found before it gave up."""
    found: list[int] = []

    for model in (replies._Completion, replies._Logprobs):
        original = model.model_validate

        def counted(row: Any, original: Any = original, **options: Any) -> Any:
            try:
                return original(row, **options)
            except ValidationError as error:
                found.append(error.error_count())
                raise

        monkeypatch.setattr(model, "model_validate", counted)
    if why:
        with pytest.raises(CallFailed, match=f"not_completion: {why}"):
            read_completion(body)
    else:
        assert read_completion(body).first_token() is None
    assert found and max(found) < 10


def test_a_completion_may_have_the_choices_that_servers_give() -> None:
    body = json.dumps({"choices": [{"message": {"content": str(n)}} for n in range(128)]}).encode()
    assert read_completion(body).text() == "0"


@given(st.binary())
def test_no_body_brings_anything_but_a_completion_or_a_kind(body: bytes) -> None:
    with pytest.raises(CallFailed) as caught:
        read_completion(body).text()
    assert caught.value.kind in FAILURES


def test_usage_is_taken_only_if_it_makes_sense() -> None:
    for usage, tokens in (
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9}, (3, 4)),
        ({"prompt_tokens": -3, "completion_tokens": 4}, None),
        ({"prompt_tokens": "3", "completion_tokens": 4}, None),
        ({"prompt_tokens": 3}, None),
        ([], None),
        (None, None),
    ):
        body = {"choices": [{"message": {"content": "hi"}}], "usage": usage}
        completion = read_completion(json.dumps(body).encode())
        assert (completion.text(), completion.tokens) == ("hi", tokens)


def test_messages_hide_the_secret_and_stay_short() -> None:
    assert one_line("a\n\tb\x1b[31m sk-1 c", "sk-1") == "a b [31m [key] c"
    assert "sk-12" not in one_line(" " * 1995 + "sk-123456", "sk-123456")  # where the text is cut
    assert len(one_line("word " * 10_000)) == 200


@pytest.mark.parametrize(
    ("text", "thoughts", "rest"),
    [
        ("<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes."),
        (" <thinking>one</thinking> <think>two</think>three", "one\ntwo", "three"),
        ("Opened by the template.\n</think>\n\nYes.", "Opened by the template.", "Yes."),
        ("<think>never ends", "never ends", ""),
        ("<think></think>\n\nYes.", "", "Yes."),
        ("Write `</think>` where thoughts end.", "", "Write `</think>` where thoughts end."),
        ("First <think> opens,\n</think> closes.", "", "First <think> opens,\n</think> closes."),
        ("", "", ""),
    ],
)
def test_thoughts_and_what_stands_behind_them(text: str, thoughts: str, rest: str) -> None:
    assert split_thoughts(text) == (thoughts, rest)


def test_many_blocks_of_thoughts_cost_no_time() -> None:
    assert split_thoughts("<think></think>" * 200_000 + "x")[1] == "x"
    assert split_thoughts("\n" * 1_000_000 + "</think" * 100_000)[0] == ""


def test_an_object_in_the_thoughts_is_not_the_answer() -> None:
    for thoughts in ('<think>{"x": 1}</think>', '{"x": 1}\n</think>\n'):
        assert read_object(f"{thoughts}{VALID}", Point) == Point(x=3)
    with pytest.raises(CallFailed, match="no JSON object"):
        read_object(f"<think>{VALID}", Point)
