"""The card of an exported folder. In: head, prompt order, facts. Out: ``README.md``, as hubs show it.

It is for people: it decides no score, counts in no digest, and may be edited or removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from crm.model.encoding import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION, TURN_END, PromptOrder
from crm.model.heads import head_named
from crm.model.manifest import CARD

LOAD = """\
import torch
from transformers import {auto}, AutoTokenizer

folder = "."  # this folder, or its name on a hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {auto}.from_pretrained(folder).eval()

"""
SCORE = f"""
def score(criteria, query, response):
    bullets = "\\n".join(f"- {{criterion}}" for criterion in criteria)
    turns = [
        {{"role": "system", "content": f"{POINTWISE_INSTRUCTION}\\n{{bullets}}"}},
        {{"role": "user", "content": query}},
        {{"role": "assistant", "content": response}},
    ]
    inputs = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        return model(**inputs).logits[0, 0].item()"""
ASK = f"""
def preference_logit(criteria, query, first, second):
    bullets = "\\n".join(f"- {{criterion}}" for criterion in criteria)
    turns = [
        {{"role": "system", "content": f"{PAIRWISE_INSTRUCTION}\\n{{bullets}}"}},
        {{"role": "user", "content": query}},
        {{"role": "response_a", "content": first}},
        {{"role": "response_b", "content": second}},
    ]
    inputs = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        logits = model(**inputs).logits[0]
"""
TWO_LABELS = "    return (logits[0] - logits[1]).item()"
ONE_LABEL = "    return logits[0].item()"
TWO_ENDS = f"""\
    ends = (inputs["input_ids"][0] == tokenizer.convert_tokens_to_ids("{TURN_END}")).nonzero().flatten()
    return (logits[ends[-2], 0] - logits[ends[-1], 1]).item()"""
SEQUENCE, TOKENS = "AutoModelForSequenceClassification", "AutoModelForTokenClassification"

READS: dict[str, tuple[str, str, str, str]] = {
    "scalar": (
        SEQUENCE,
        SCORE,
        "A difference of two scores is the log-odds that the first response is preferred.",
        "A server must return the logit itself: vLLM's `/classify` takes `use_activation=false`.",
    ),
    "pairwise": (
        SEQUENCE,
        ASK + TWO_LABELS,
        "The answer is the log-odds that the response shown first is preferred; read both orders and halve the "
        "difference, because a joint reading may favour a place.",
        "A server must return the logits themselves: vLLM's `/classify` takes `use_activation=false`.",
    ),
    "pairwise_span": (
        TOKENS,
        ASK + TWO_ENDS,
        "The answer is the log-odds that the response shown first is preferred; read both orders and halve the "
        "difference, because a joint reading may favour a place.",
        "It is a token classifier of which two positions count: label 0 at the `<|im_end|>` that ends {first}, label 1 "
        "at the last token. A server must return logits of every token: vLLM's `/pooling` with the task "
        "`token_classify` and `use_activation=false`.",
    ),
    "single_label": (
        SEQUENCE,
        ASK + ONE_LABEL,
        "The answer is the log-odds that the response shown first is preferred; its sigmoid is the probability.",
        "A server that applies a sigmoid to the one logit returns that probability.",
    ),
}
"""Class of transformers, how to ask, what the answer is, how to serve: by head. Heads of other packages have none."""


def write_card(folder: Path, head: str, prompt_order: PromptOrder, facts: Mapping[str, Any], digest: str = "") -> None:
    """Write ``README.md``. ``facts`` are those of the manifest; what they do not tell is left out."""
    kind = "single_label" if facts.get("single_label") else str(head)
    auto, ask, reads, serving = READS.get(kind, ("", "", "The package of this head says how it is read.", ""))
    first = "the first response" if prompt_order == "criteria_first" else "the turn before the last"
    data = ModelCardData(
        base_model=_hub_id(_setting(facts, "model", "path")),
        library_name="transformers",
        pipeline_tag="token-classification" if auto == TOKENS else "text-classification",
        tags=["reward-model", "preference", "criteria"],
    )
    template = files("crm.model").joinpath("model_card.md.j2").read_text(encoding="utf-8")
    card = ModelCard.from_template(
        data,
        template_str=template,
        title=f"Customizable reward model ({kind.replace('_', ' ')} head)",
        joint=head_named(head).joint,
        rows=list(_rows(head, prompt_order, facts, digest)),
        max_length=facts.get("max_length"),
        reads=reads,
        snippet=LOAD.format(auto=auto) + ask if ask else "",
        serving=serving.format(first=first),
    )
    (folder / CARD).write_text(str(card), encoding="utf-8")


def _rows(head: str, prompt_order: str, facts: Mapping[str, Any], digest: str) -> Iterator[tuple[str, str]]:
    """Name and value of what is known, for the table."""
    path = _setting(facts, "model", "path")
    accuracy = facts.get("validation_accuracy")
    known = {
        "head": f"`{head}`",
        "prompt order": f"`{prompt_order}`",
        "base model": f"`{_hub_id(path) or PurePath(path).name}`" if path else None,
        "longest sequence": f"{facts['max_length']} tokens" if "max_length" in facts else None,
        "training data": _code(_setting(facts, "data", "name")),
        "loss": _code(_setting(facts, "loss", "name")),
        "seed": facts.get("seed"),
        "validation accuracy": None if accuracy is None else f"{accuracy:.3f}",
        "commit": _code(facts.get("commit")),
        "digest": _code(digest),
    }
    yield from ((name, str(value)) for name, value in known.items() if value is not None)


def _setting(facts: Mapping[str, Any], group: str, name: str) -> str | None:
    """A setting of the training configuration, where the facts hold it."""
    value = (facts.get("config") or {}).get(group, {})
    found = value.get(name) if isinstance(value, Mapping) else None
    return str(found) if found else None


def _hub_id(path: str | None) -> str | None:
    """A path that can be a hub's ``owner/name``; a folder of this machine is nobody else's business."""
    if path is None or Path(path).exists() or path.startswith((".", "/", "~", "models/")) or path.count("/") != 1:
        return None
    return path


def _code(value: Any) -> str | None:
    return f"`{value}`" if value else None
