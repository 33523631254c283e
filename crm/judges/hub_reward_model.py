"""A reward model from the Hugging Face hub as a judge.

Any sequence-classification model of transformers with one label, through its tokenizer's own chat template. Only
safetensors are loaded and no code of the model is run. Sequences of one length share a batch and none is padded, so
that a score is what transformers gives for the sequence alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateError
from torch import nn
from transformers import AutoModelForSequenceClassification

from crm.judges.config import JudgeConfig
from crm.judges.crm_judge import WINDOW, placed
from crm.judges.judge import Asked, Reading
from crm.model.backbone import from_folder
from crm.model.encoding import Order, pointwise_messages, system_text
from crm.model.folders import FILES, fetch
from crm.model.heads import POINTWISE_INSTRUCTION
from crm.model.manifest import sha256
from crm.schema import GENERIC_CRITERION, Comparison, Message


class ControlTokens:
    """The control tokens of a tokenizer, which are its special ones; data must not write any."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        special = {added.content for added in tokenizer.added_tokens_decoder.values() if added.special}
        names = sorted(special, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")

    def ids(self, texts: Sequence[str], write: Callable[[Sequence[str]], str]) -> list[int]:
        """The ids of ``write(texts)``, where ``write`` puts texts of data among control tokens.

        These are the tokenizer's own ids of what was written, but a control token that a text spells is read letter by
        letter.
        """
        used = set().union(*texts)
        mark = next(letter for letter in map(chr, range(0xE000, 0x110000)) if letter not in used)
        spelled = [self._pattern.sub(lambda found: f"{mark}{mark.join(found[0])}{mark}", text) for text in texts]
        return list(chain.from_iterable(map(self._plain, write(spelled).split(mark))))

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False, verbose=False)) if text else []


Ids = tuple[int, ...]
LONGEST = 16_384
"""Tokens that are read of a model that takes more, unless ``judge.max_length`` says otherwise."""
PROBE = ("likes tests", "Is this a test?", "This is one.")
"""Criterion, query and response that a template is tried with."""


class InFloat32(nn.Module):
    """A head in float32 whatever the precision around it: in bfloat16, scores that are close would tie."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """What the head makes of ``states`` in float32."""
        with torch.autocast(states.device.type, enabled=False):
            return self.head(states.float())  # type: ignore[no-any-return]


class HubRewardModel:
    """A model with one label and its tokenizer; pointwise, so that both orders of a pair have the same scores.

    ``criteria_in`` says where the criteria go: ``system``, a system turn before the conversation; ``user``, before the
    query in the first user turn; ``none``, nowhere. Raises ``ValueError`` for a template that does not show them.
    """

    left_out, pointwise = "too_long", True

    def __init__(
        self, model: Any, tokenizer: Any, settings: JudgeConfig, *, batch_size: int, precision: str, weights: str
    ) -> None:
        if isinstance(head := getattr(model, "score", None), nn.Module):
            model.score = InFloat32(head)
        self.model, self._autocast = placed(model, precision)
        config = model.config.get_text_config()
        if config.pad_token_id is None:
            config.pad_token_id = -1  # in no sequence: transformers then reads the last token, and takes batches
        self.tokenizer, self.batch_size = tokenizer, batch_size
        self.max_length = settings.max_length or min(getattr(config, "max_position_embeddings", LONGEST), LONGEST)
        self._controls = ControlTokens(tokenizer)
        written = self._settle(settings.criteria_in)
        template = [str(tokenizer.chat_template), self.criteria_in, written, str(self.max_length)]
        self.prompt_digest = hashlib.sha256(json.dumps(template).encode()).hexdigest()[:16]
        """Of what turns a comparison into tokens; a template that writes today's date changes it daily."""
        self.digest = f"{weights}-{self.prompt_digest}-{precision}"

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions of a few batches. A comparison with a response too long gives none.

        Failures: ``template_refused`` (turns that the template does not take), ``not_finite``.
        """
        size = 2 * self.batch_size * WINDOW
        for start in range(0, len(comparisons), size):
            portion = comparisons[start : start + size]
            pairs = {row.id: self._pair(row) for row, _ in portion}
            pairs = {name: pair for name, pair in pairs.items() if not pair or max(map(len, pair)) <= self.max_length}
            scores = self._read({ids for pair in pairs.values() for ids in pair or ()})
            yield [_reading(row, order, pairs[row.id], scores) for row, order in portion if row.id in pairs]

    def ids(self, row: Comparison, response: Sequence[Message]) -> Ids:
        """Token ids of the conversation that ends in ``response``. Raises jinja2's error where the template does."""
        turns = self.messages(row, response)
        return tuple(self._controls.ids([turn["content"] for turn in turns], lambda texts: self._write(turns, texts)))

    def messages(self, row: Comparison, response: Sequence[Message]) -> list[dict[str, str]]:
        """What the template is given. The generic criterion is none: the model was not trained to read it."""
        turns = pointwise_messages(row.criteria, row.prompt, response)
        blind = row.criteria == (GENERIC_CRITERION,)
        if self.criteria_in == "system" and not blind:
            return turns
        turns = turns[1:]
        if self.criteria_in == "user" and not blind:
            first = next((turn for turn in turns[: len(row.prompt)] if turn["role"] == "user"), turns[0])
            first["content"] = f"{system_text(row.criteria, POINTWISE_INSTRUCTION)}\n\n{first['content']}"
        return turns

    @torch.inference_mode()
    def scores(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Scores (B,) float32 of sequences (B, T) of one length."""
        input_ids = input_ids.to(self.model.device)
        with self._autocast:
            output = self.model(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
        logits: torch.Tensor = output.logits
        return logits[:, 0].float()

    def _read(self, sequences: Iterable[Ids]) -> dict[Ids, float]:
        """Batches of one length each, sorted, so that they do not depend on the order given."""
        batches: list[list[Ids]] = []
        for ids in sorted(sequences, key=lambda ids: (len(ids), ids)):
            if not batches or len(batches[-1]) == self.batch_size or len(batches[-1][0]) != len(ids):
                batches.append([])
            batches[-1].append(ids)
        found: dict[Ids, float] = {}
        for batch in batches:
            found |= dict(zip(batch, self.scores(torch.tensor(batch)).tolist(), strict=True))
        return found

    def _pair(self, row: Comparison) -> tuple[Ids, Ids] | None:
        try:
            return self.ids(row, row.response_a), self.ids(row, row.response_b)
        except TemplateError:
            return None

    def _write(self, turns: Sequence[dict[str, str]], texts: Sequence[str]) -> str:
        filled = [{**turn, "content": text} for turn, text in zip(turns, texts, strict=True)]
        return str(self.tokenizer.apply_chat_template(filled, tokenize=False))

    def _settle(self, criteria_in: str) -> str:
        """Set where the criteria go; what the template makes of `PROBE`. Raises ``ValueError`` where it hides them."""
        criterion, query, response = PROBE
        answer = (Message("assistant", response),)
        row = Comparison("probe", "probe", (criterion,), (Message("user", query),), answer, answer, "a")
        for self.criteria_in in ("system", "user") if criteria_in == "auto" else (criteria_in,):
            turns = self.messages(row, answer)
            try:
                written = self._write(turns, [turn["content"] for turn in turns])
            except TemplateError as error:
                why = f"refuses the conversation ({error})"
                continue
            lost = [text for text in PROBE[self.criteria_in == "none" :] if text not in written]
            if not lost:
                return written
            why = f"leaves {lost[0]!r} out"
        hint = "; set judge.criteria_in=user" if criteria_in == "system" else ""
        raise ValueError(f"judge.criteria_in={criteria_in}: the chat template {why}{hint}")


def _reading(row: Comparison, order: Order, pair: tuple[Ids, Ids] | None, scores: Mapping[Ids, float]) -> Reading:
    """Both scores and their difference; a score that is no finite number is a failure."""
    if pair is None:
        return Reading(row, order, None, failure="template_refused")
    (a, b), tokens = (scores[ids] for ids in pair), sum(map(len, pair))
    if not (math.isfinite(a) and math.isfinite(b)):
        return Reading(row, order, None, failure="not_finite", tokens=tokens)
    return Reading(row, order, a - b, a, b, tokens=tokens)


def open_reward_model(settings: JudgeConfig, *, batch_size: int, precision: str) -> HubRewardModel:
    """The judge of ``judge.path``, weights as float32.

    Raises ``ValueError`` for a model that cannot be loaded, has not one label, lacks weights of its head or positions
    for ``max_length``; for a tokenizer without a chat template.
    """
    path = str(settings.path)

    def check(condition: object, why: str) -> None:
        if not condition:
            raise ValueError(f"judge.path={path}: {why}")

    local = Path(path).is_dir()
    folder = Path(path) if local else fetch(path, settings.revision, "judge")
    try:
        model, tokenizer = from_folder(AutoModelForSequenceClassification, folder)
    except ValueError as error:
        way_out = "give a trained reward model (sequence classification with one label)"
        raise ValueError(f"judge.path={path}: cannot be loaded ({error}); {way_out}") from None
    check(tokenizer.is_fast, "its tokenizer is not a fast one (tokenizer.json); convert it first")
    check(tokenizer.chat_template, "its tokenizer has no chat template (chat_template.jinja), which the judge needs")
    kind = ", ".join(model.config.architectures or ["unknown"])
    labels = model.config.num_labels
    check(labels == 1, f"has num_labels={labels} ({kind}), expected 1; give a reward model (sequence classification)")
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if settings.max_length > (positions or settings.max_length):
        raise ValueError(f"judge.max_length={settings.max_length}: {path} has {positions} positions; use at most that")
    weights = _digest(folder) if local else f"{path}@{folder.name}"
    return HubRewardModel(model, tokenizer, settings, batch_size=batch_size, precision=precision, weights=weights)


def _digest(folder: Path) -> str:
    """16 hex digits over all files that are loaded: configuration and tokenizer decide the scores too."""
    digests = {path.name: sha256(path) for form in FILES for path in folder.glob(form)}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]
