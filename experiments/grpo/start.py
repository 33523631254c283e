"""The policy that all others start from: a small Qwen3 that writes as the simulation's authors do.

Half of the queries have a criterion before them, and some of their answers meet it: the start follows a criterion now
and then, so that one of its descendants can learn what the words are for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from rich.progress import track
from torch import Tensor
from transformers import Qwen3ForCausalLM

from crm.data.simulation.arena import lexicon_texts
from crm.data.simulation.lexicon import AUTHORS, TOPIC, Query, pole_of, queries, write
from crm.io.draws import generator
from crm.model.backbone import build_tiny_backbone, train_tokenizer

TEMPLATE = (
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
HIDDEN, LAYERS, HEADS, POSITIONS = 128, 4, 4, 192
BATCH, RATE = 64, 4e-3
HEEDED = 0.7
"""Share of answers with a criterion before them that were chosen to meet it, where they meet one of the criteria."""
END = "<|im_end|>"
LONGEST = 80
"""Tokens of a response at most; one in a thousand of the authors' is longer."""
IGNORED = -100
"""What transformers' cross-entropy leaves out."""
Turns = list[dict[str, str]]


def conversation(query: str, criterion: str | None) -> Turns:
    """What a policy reads: the query, and the criterion of a conditioned policy before it."""
    system = [] if criterion is None else [{"role": "system", "content": criterion}]
    return [*system, {"role": "user", "content": query}]


def all_queries() -> list[Query]:
    """What votes may be cast on; the queries of banks are others."""
    return [query for topic in TOPIC for query in queries(topic, "votes")]


def policy_tokenizer() -> Any:
    """Of the arena's texts, with a template that ends where the policy begins."""
    tokenizer = train_tokenizer(lexicon_texts(0), vocab_size=4096)
    tokenizer.chat_template, tokenizer.padding_side, tokenizer.eos_token = TEMPLATE, "left", END
    return tokenizer


def untaught(tokenizer: Any, seed: int) -> Qwen3ForCausalLM:
    """About a million weights, drawn from the seed; input and output share their embeddings."""
    backbone = build_tiny_backbone(
        len(tokenizer), HIDDEN, LAYERS, HEADS, POSITIONS, pad_id=tokenizer.pad_token_id, seed=seed
    )
    config = backbone.config
    config.tie_word_embeddings, config.use_cache = True, True
    config.eos_token_id = config.bos_token_id = tokenizer.eos_token_id
    policy = Qwen3ForCausalLM(config)  # type: ignore[arg-type]
    policy.model.load_state_dict(backbone.state_dict())
    policy.tie_weights()
    return policy


def teach(policy: Qwen3ForCausalLM, tokenizer: Any, criteria: Sequence[str], *, steps: int, seed: int) -> float:
    """Cross-entropy on responses of the authors, each drawn anew; the mean loss (nats a token) of the last tenth."""
    losses: list[float] = []
    optimizer = torch.optim.AdamW(policy.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    asked = all_queries()
    for step in track(range(steps), "teaching the start"):
        rng = generator(seed, 0, str(step), "teach")
        ids, mask, labels = batch(tokenizer, list(lessons(rng, asked, criteria, seed)))
        loss = policy(input_ids=ids, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    last = losses[-max(1, steps // 10) :]
    return fmean(last)


def lessons(
    rng: random.Random, asked: Sequence[Query], criteria: Sequence[str], seed: int
) -> Iterator[tuple[Turns, str]]:
    """A batch of what is read and what is answered."""
    for _ in range(BATCH):
        query = rng.choice(asked)
        response = write(seed, rng.choice(AUTHORS), query)
        criterion = _criterion(rng, criteria, response.levels) if rng.random() < 0.5 else None
        yield conversation(query.text, criterion), response.text


def _criterion(rng: random.Random, criteria: Sequence[str], levels: Mapping[str, int]) -> str:
    met = [criterion for criterion in criteria if (pole := pole_of(criterion)) and levels[pole[0]] == pole[1]]
    return rng.choice(met) if met and rng.random() < HEEDED else rng.choice(criteria)


def batch(tokenizer: Any, rows: Sequence[tuple[Turns, str]]) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids, mask and labels, each (B, T), padded on the right; only what is answered is learned."""
    longest, pieces = 0, []
    for turns, answer in rows:
        asked = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        head, tail = (
            tokenizer(text, add_special_tokens=False).input_ids for text in (asked, answer + tokenizer.eos_token)
        )
        pieces.append((head, tail))
        longest = max(longest, len(head) + len(tail))
    ids = torch.full((len(rows), longest), tokenizer.pad_token_id)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, IGNORED)
    for row, (head, tail) in enumerate(pieces):
        ids[row, : len(head) + len(tail)] = torch.tensor(head + tail)
        mask[row, : len(head) + len(tail)] = 1
        labels[row, len(head) : len(head) + len(tail)] = torch.tensor(tail)
    return ids, mask, labels
