"""What tests of models share: outcomes of a batch, messages written out by hand, Qwen3's published sizes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Qwen3Config

from crm.model.encoding import pointwise_messages, system_text
from crm.model.heads import PAIRWISE_INSTRUCTION
from crm.model.reward_model import RewardModel
from crm.schema import Comparison, Message
from tests.conftest import rounding

Outcome = tuple[Tensor, dict[str, Tensor]]


def outcome(model: RewardModel, batch: Any) -> Outcome:
    """Logits, and the gradient of a sum of them in which each has a weight of its own."""
    model.zero_grad()
    logits = model(batch).preference_logit
    (logits * torch.linspace(-1.0, 2.0, len(logits))).sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(found: Outcome, expected: Outcome) -> None:
    """But for rounding in the dtype of the numbers; a small gradient may be the difference of large ones."""
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=rounding(expected[0]))
    assert found[1].keys() == expected[1].keys() != set()
    allowed = max(rounding(gradient) for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=allowed, msg=name)


def stock_score(folder: Path, turns: list[dict[str, str]]) -> float:
    """What transformers says of one conversation, without this project's code."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    model.to(torch.get_default_dtype())
    inputs = tokenizer.apply_chat_template(turns, tokenize=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        return float(model(**inputs).logits.item())


def pairwise_messages(
    criteria: Sequence[str], prompt: Sequence[Message], first: Sequence[Message], second: Sequence[Message]
) -> list[dict[str, str]]:
    """Criteria, prompt, the response shown first, the one shown second."""
    turns = [("system", system_text(criteria, PAIRWISE_INSTRUCTION)), *((turn.role, turn.content) for turn in prompt)]
    for speaker, response in (("response_a", first), ("response_b", second)):
        turns += [
            (speaker if turn.role == "assistant" else f"{speaker}_{turn.role}", turn.content) for turn in response
        ]
    return [{"role": role, "content": content} for role, content in turns]


def conversations(row: Comparison, head: str, order: str = "ab") -> list[list[dict[str, str]]]:
    """The message lists that a linear head reads of a comparison: two of the scalar head, else one."""
    first, second = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
    if head == "scalar":
        return [pointwise_messages(row.criteria, row.prompt, response) for response in (first, second)]
    return [pairwise_messages(row.criteria, row.prompt, first, second)]


def by_hand(turns: list[dict[str, str]]) -> str:
    """The text of turns, without a template."""
    return "\n".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>" for turn in turns)


VOCABULARY, SIZE, KEY_HEADS = 151_936, 128, 8
PUBLISHED = {
    "0.6B": (1024, 3072, 16, 28, True, 596_049_920),
    "1.7B": (2048, 6144, 16, 28, True, 1_720_574_976),
    "4B": (2560, 9728, 32, 36, True, 4_022_468_096),
    "8B": (4096, 12288, 32, 36, False, 8_190_735_360),
}
"""Hidden size, size of the MLP, heads, layers, tied embeddings, parameters of the language model."""


def qwen3(
    hidden: int, inner: int, heads: int, layers: int, keys: int = KEY_HEADS, size: int = SIZE, **more: Any
) -> Qwen3Config:
    """With ``heads`` query heads of ``size`` and ``keys`` key heads; ``more`` settings of `Qwen3Config`."""
    return Qwen3Config(
        **{"vocab_size": 300, **more},
        hidden_size=hidden,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=size,
        num_hidden_layers=layers,
    )
