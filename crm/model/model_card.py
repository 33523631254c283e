"""The card of an exported folder. In: head, prompt order, facts. Out: ``README.md``, as hubs show it.

It is for people: it decides no score, counts in no digest, and may be edited or removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from huggingface_hub import ModelCard, ModelCardData

from crm.model.heads import PAIRWISE_INSTRUCTION, POINTWISE_INSTRUCTION, PromptOrder, head_named
from crm.model.manifest import CARD
from crm.model.template import TURN_END, TURN_START

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
LATE = f"""\
import torch
from safetensors import safe_open
from torch.nn.functional import gelu, linear, rms_norm
from transformers import AutoModel, AutoTokenizer
from transformers.utils import cached_file

folder = "."  # this folder, or its name on a hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder).eval()
with safe_open(cached_file(folder, "late_head.safetensors"), "pt") as file:
    head = {{name: file.get_tensor(name) for name in file.keys()}}
    layers = {{"response": int(file.metadata()["response_layers"]) or -1, "criterion": -1}}


def states_of(text, turns, start):
    inputs = tokenizer.apply_chat_template(turns, return_tensors="pt", return_dict=True)
    return model(**inputs, output_hidden_states=True).hidden_states[layers[text]][0, start:]


def pooled(name, states):
    part = {{key.removeprefix(f"{{name}}."): weight for key, weight in head.items() if key.startswith(f"{{name}}.")}}
    def layer(name, values):
        return linear(values, part[f"{{name}}.weight"], part[f"{{name}}.bias"])
    states = rms_norm(states, states.shape[-1:], part["norm.weight"])
    counts, tokens = layer("detectors", states).sigmoid().sum(dim=0), torch.tensor([float(len(states))])
    kept = torch.einsum("lq,lh,qhw->qw", layer("attention", states).softmax(dim=0), states, part["values"])
    seen = torch.cat([kept.flatten(), counts.log1p() / 2, 4 * counts / tokens, tokens.log() / 4])
    return layer("outer", gelu(layer("inner", seen)))


@torch.inference_mode()
def response_vector(query, response):
    turns = [{{"role": "user", "content": query}}, {{"role": "assistant", "content": response}}]
    start = len(tokenizer.apply_chat_template(turns[:1], return_dict=True)["input_ids"])
    return pooled("response", states_of("response", turns, start))


@torch.inference_mode()
def wish(weights):
    instruction, found = "{POINTWISE_INSTRUCTION}\\n-", 0.0
    start = len(tokenizer(f"{TURN_START}system\\n{{instruction}}", add_special_tokens=False)["input_ids"])
    for criterion, weight in weights.items():
        states = states_of("criterion", [{{"role": "system", "content": f"{{instruction}} {{criterion}}"}}], start)
        side = torch.tanh(pooled("side", states) + 0.5) if "side.outer.bias" in head else 1.0
        found = found + weight * side * pooled("criterion", states) + abs(weight) * head.get("shared", 0.0)
    return found / len(found) ** 0.5


def score(criteria, query, response):
    return (response_vector(query, response) @ wish(dict.fromkeys(criteria, 1.0))).item()"""
TWO_LABELS = "    return (logits[0] - logits[1]).item()"
ONE_LABEL = "    return logits[0].item()"
TWO_ENDS = f"""\
    ends = (inputs["input_ids"][0] == tokenizer.convert_tokens_to_ids("{TURN_END}")).nonzero().flatten()
    return (logits[ends[-2], 0] - logits[ends[-1], 1]).item()"""
SEQUENCE, TOKENS = "AutoModelForSequenceClassification", "AutoModelForTokenClassification"
PIPELINES = {TOKENS: "token-classification", "AutoModel": "feature-extraction"}
"""What hubs call a class of transformers; of the others text classification."""


def _load(auto: str) -> str:
    return LOAD.format(auto=auto)


READS: dict[str, tuple[str, str, str, str]] = {
    "scalar": (
        SEQUENCE,
        _load(SEQUENCE) + SCORE,
        "A difference of two scores is the log-odds that the first response is preferred.",
        "A server must return the logit itself: vLLM's `/classify` takes `use_activation=false`.",
    ),
    "late": (
        "AutoModel",
        LATE,
        "A criterion becomes a vector, and so does a response; a score is their product, and a difference of scores is "
        "the log-odds that the first response is preferred. Criteria add up: `wish({'Short': 2, 'Formal': -1})` asks "
        "twice as much for the first and dislikes the second. The vector of a response depends on nobody's criteria: "
        "keep it, and a further user costs one short text a criterion and a product "
        "(`response_vector(query, response) @ wish(weights)`).",
        "A server of classification models cannot serve it; one that returns the states of all tokens can, and what "
        "follows `states` above is left to whoever asks.",
    ),
    "pairwise": (
        SEQUENCE,
        _load(SEQUENCE) + ASK + TWO_LABELS,
        "The answer is the log-odds that the response shown first is preferred; read both orders and halve the "
        "difference, because a joint reading may favour a place.",
        "A server must return the logits themselves: vLLM's `/classify` takes `use_activation=false`.",
    ),
    "pairwise_span": (
        TOKENS,
        _load(TOKENS) + ASK + TWO_ENDS,
        "The answer is the log-odds that the response shown first is preferred; read both orders and halve the "
        "difference, because a joint reading may favour a place.",
        "It is a token classifier of which two positions count: label 0 at the `<|im_end|>` that ends {first}, label 1 "
        "at the last token. A server must return logits of every token: vLLM's `/pooling` with the task "
        "`token_classify` and `use_activation=false`.",
    ),
    "single_label": (
        SEQUENCE,
        _load(SEQUENCE) + ASK + ONE_LABEL,
        "The answer is the log-odds that the response shown first is preferred; its sigmoid is the probability.",
        "A server that applies a sigmoid to the one logit returns that probability.",
    ),
}
"""Class of transformers, lines that load and ask, what they answer, how to serve: by head. Others' heads have none."""


def write_card(folder: Path, head: str, prompt_order: PromptOrder, facts: Mapping[str, Any], digest: str = "") -> None:
    """Write ``README.md``. ``facts`` are those of the manifest; what they do not tell is left out."""
    kind = "single_label" if facts.get("single_label") else str(head)
    auto, snippet, reads, serving = READS.get(kind, ("", "", "The package of this head says how it is read.", ""))
    first = "the first response" if prompt_order == "criteria_first" else "the turn before the last"
    data = ModelCardData(
        base_model=_hub_id(_setting(facts, "model", "path")),
        library_name="transformers",
        pipeline_tag=PIPELINES.get(auto, "text-classification"),
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
        snippet=snippet,
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
