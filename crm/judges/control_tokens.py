"""Tokenise texts between control tokens so that no text can forge one.

A text that spells a control token is read by a copy of the tokenizer whose own control tokens are spelled with a mark
on either side: those of the template are then written so, and whatever data hold is ordinary text with its usual
merges.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count, islice
from typing import Any

from tokenizers import Tokenizer

FIRST_MARK = 0xE000
"""Marks are characters of Unicode's private area that occur in no text at hand."""


class ControlTokens:
    """The control tokens of a fast tokenizer, which are its special ones."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        special = {added.content for added in tokenizer.added_tokens_decoder.values() if added.special}
        self.names = sorted(special, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self.names)) or r"(?!)")
        self._respelled = lru_cache(maxsize=4)(self._respell)

    def ids(self, texts: Sequence[str], write: Callable[[Sequence[str]], str]) -> list[int]:
        """The ids of ``write(texts)``, where ``write`` puts texts of data among control tokens.

        For texts that spell no control token these are the tokenizer's own ids of what was written.
        """
        if not any(self._pattern.search(text) for text in texts):
            return list(self._tokenizer.encode(write(texts), add_special_tokens=False, verbose=False))
        return self.ids_where_spelled(texts, write)

    def ids_where_spelled(self, texts: Sequence[str], write: Callable[[Sequence[str]], str]) -> list[int]:
        """The same by way of the copy, whatever the texts hold."""
        around, stand_in = unused_marks(texts, 2)
        numbers = {name: f"{stand_in}{number}{stand_in}" for number, name in enumerate(self.names)}
        written = write([self._pattern.sub(lambda found: numbers[found[0]], text) for text in texts])
        marked = self._pattern.sub(lambda found: f"{around}{found[0]}{around}", written)
        back = re.sub(f"{stand_in}(\\d+){stand_in}", lambda found: self.names[int(found[1])], marked)
        tokenizer, ids = self._respelled(around)
        return [ids.get(token, token) for token in tokenizer.encode(back, add_special_tokens=False).ids]

    def _respell(self, mark: str) -> tuple[Tokenizer, dict[int, int]]:
        """The copy, and for the ids of its control tokens those of the tokenizer itself."""
        spelled = {name: f"{mark}{name}{mark}" for name in self.names}
        made = json.loads(self._tokenizer.backend_tokenizer.to_str())
        for added in made["added_tokens"]:
            if added["content"] in spelled:
                # Not normalised: a normaliser may drop the marks, and data would spell the token again.
                added |= {"content": spelled[added["content"]], "normalized": False}
        _respell_model(made["model"], spelled)
        made |= {"post_processor": None, "truncation": None, "padding": None}
        copy = Tokenizer.from_str(json.dumps(made))
        own = self._tokenizer.convert_tokens_to_ids
        pairs = ((copy.token_to_id(new), own(name)) for name, new in spelled.items())
        return copy, {theirs: ours for theirs, ours in pairs if theirs is not None}


def _respell_model(model: dict[str, Any], spelled: dict[str, str]) -> None:
    """A vocabulary may hold control tokens itself, and a Unigram model would find them in plain text."""
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list):
        model["vocab"] = [[spelled.get(piece, piece), score] for piece, score in vocabulary]
    elif isinstance(vocabulary, dict):
        model["vocab"] = {spelled.get(piece, piece): number for piece, number in vocabulary.items()}
    if model.get("unk_token") in spelled:
        model["unk_token"] = spelled[model["unk_token"]]


def unused_marks(texts: Sequence[str], number: int) -> list[str]:
    """The first ``number`` characters of the private area that occur in none of ``texts``."""
    used = set().union(*texts)
    return list(islice((chr(code) for code in count(FIRST_MARK) if chr(code) not in used), number))
