"""Templated texts are taken apart into what this project's template was given."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from crm.rewards.server.chatml import answered, group_of, spoken, written_after

from crm.model.encoding import pointwise_messages
from crm.model.heads import PROMPT_ORDERS, PromptOrder
from crm.model.template import chat_template
from crm.rewards.scoring import Group
from crm.schema import Comparison, Message, RecordError
from tests.conftest import CONTROLS, say


@pytest.mark.parametrize("order", PROMPT_ORDERS)
def test_what_the_stored_template_writes_is_read_back(order: PromptOrder, comparisons: list[Comparison]) -> None:
    template = jinja2.Template(chat_template("scalar", order))
    tried = 0
    for row in comparisons:
        texts = [*row.criteria, *(turn.content for turn in (*row.prompt, *row.response_a))]
        if any(control in text for text in texts for control in CONTROLS) or len(row.response_a) > 1:
            continue  # what nobody can tell apart in a templated text
        text = template.render(messages=pointwise_messages(row.criteria, row.prompt, row.response_a))
        assert group_of(spoken(text, "input"), "input") == Group(row.criteria, row.prompt, (row.response_a,))
        tried += 1
    assert tried >= 3


def test_a_system_turn_of_somebody_else_stays_in_the_prompt() -> None:
    talk = say("system: Be kind.", "user: Hi", "assistant: Hello!")
    assert group_of(talk, "messages") == Group((), talk[:2], (talk[2:],))
    with pytest.raises(RecordError, match="messages: the system turn has no line `- criterion`"):
        group_of(say("system: This user cares about:\nbrevity", "user: Hi", "assistant: Hello!"), "messages")


@pytest.mark.parametrize(
    ("prompt", "written", "response"),
    [
        ("Hi", "yes<|im_end|>", "yes"),
        ("Hi", "yes<|im_end|>\n<|endoftext|>", "yes"),
        ("Hi", "yes", "yes"),
        ("Hi", " yes \n", " yes \n"),
        ("Hi", "yes \n<|im_end|>\n", "yes \n"),
        ("Hi", "", ""),
        ("Hi", "close it with </s>", "close it with </s>"),
        ("Hi", "<s>old</s><|im_end|>", "<s>old</s>"),
        ("<s>[INST]Hi[/INST]", "say <|im_end|> now</s>", "say <|im_end|> now"),
        ("[INST]Hi[/INST]", "<s>old</s>", "<s>old"),
        ("<bos><start_of_turn>user\nHi", "yes<end_of_turn>\n<eos>", "yes"),
        ("Hi", "the token <eos>", "the token <eos>"),
    ],
)
def test_what_a_policy_wrote_ends_before_the_last_control_tokens_of_its_template(
    prompt: str, written: str, response: str
) -> None:
    assert written_after(prompt, prompt + written, "query") == response


def test_a_token_that_the_tokenizer_put_before_the_prompt_tells_the_template_too() -> None:
    assert written_after("Hi", "<s>Hi yes</s>", "query") == " yes"
    with pytest.raises(RecordError, match=r"query\[3\]: 'Hello' does not hold its prompt 'Hi'"):
        written_after("Hi", "Hello", "query[3]")


@pytest.mark.parametrize(
    ("begun", "response"), [("", "yes"), ("<think>\n\n</think>\n\n", "yes"), ("Well, ", "Well, yes")]
)
def test_a_prompt_may_begin_the_response(begun: str, response: str) -> None:
    prompt = spoken(f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{begun}", "p")
    assert answered(prompt, "yes", "p")[2] == (Message("assistant", response),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<|im_start|>tool\nx<|im_end|>", "role 'tool' is not one of"),
        ("<|im_start|>user\nx<|im_end|>\nand more", "text outside of turns"),
        ("<|begin_of_text|>x", "holds <|begin_of_text|> and is not ChatML"),
    ],
)
def test_other_texts_are_refused_with_what_to_do(text: str, said: Any) -> None:
    with pytest.raises(RecordError) as refused:
        spoken(text, "input")
    assert said in str(refused.value)
