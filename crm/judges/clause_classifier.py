"""The network of the sentence reader: the first layers of a BERT in NumPy, with weights of few bits.

Letters: B texts, T word pieces, N of all texts without padding, D width, C criteria.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from scipy.special import ndtr, softmax
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from crm.model.manifest import sha256

Floats = npt.NDArray[np.float32]
Arrays = Mapping[str, npt.NDArray[Any]]
PADDING, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
LONGEST = 40
"""Word pieces of a clause that are read, begin and end among them."""
MIDDLE = 4
"""The whole number that stands for 0."""
EPSILON = 1e-12


class ClauseClassifier:
    """Logits of more and less of each criterion, and of nothing, for clauses.

    ``facts`` are what else the file holds, ``digest`` is of all of it.
    """

    def __init__(self, path: Path) -> None:
        stored = load_file(path)
        self.digest = sha256(path)[:16]
        self.facts: dict[str, Any] = json.loads(zlib.decompress(stored.pop("facts").tobytes()))
        self._heads, self._layers = int(self.facts["heads"]), int(self.facts["layers"])
        self._tokenizer, self._weights = word_pieces(self.facts["pieces"]), unpacked(stored)

    def logits(self, texts: Sequence[str]) -> Floats:
        """(B, 2C + 1) for texts that are not empty."""
        rows = self._tokenizer.encode_batch(list(texts))
        ids, known = np.array([row.ids for row in rows]), np.array([row.attention_mask for row in rows], bool)
        states = (self._weights["embedding.weight"][ids] + self._weights["position"][: ids.shape[1]])[known]
        states = self._normed(states, "norm")  # of the pieces alone: padding is put between them where it is needed
        for layer in range(self._layers):
            name = f"encoder.layers.{layer}"
            states = self._normed(states + self._attention(states, known, f"{name}.self_attn"), f"{name}.norm1")
            inner = self._linear(states, f"{name}.linear1")
            states = self._normed(states + self._linear(inner * ndtr(inner), f"{name}.linear2"), f"{name}.norm2")
        weights = softmax(_padded(self._linear(states, "query"), known, -np.inf), axis=1)
        pooled = np.einsum("btk,btd->bkd", weights, _padded(states, known))
        return self._linear(pooled.reshape(len(ids), -1), "out")

    def _linear(self, inputs: Floats, name: str) -> Floats:
        return inputs @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normed(self, states: Floats, name: str) -> Floats:
        centred = states - states.mean(axis=-1, keepdims=True)
        scaled: Floats = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _attention(self, states: Floats, known: npt.NDArray[np.bool_], name: str) -> Floats:
        """(N, D) for the N pieces that are no padding; those of other texts are not read."""
        together = states @ self._weights[f"{name}.in_proj_weight"].T + self._weights[f"{name}.in_proj_bias"]
        size = states.shape[-1] // self._heads
        apart = _padded(together, known).reshape(*known.shape, 3, self._heads, size)
        query, key, value = apart.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(2, 3) / np.float32(np.sqrt(size))
        read = softmax(np.where(known[:, None, None], scores, -np.inf), axis=-1) @ value
        return self._linear(read.swapaxes(1, 2).reshape(*known.shape, -1)[known], f"{name}.out_proj")


def _padded(rows: Floats, known: npt.NDArray[np.bool_], padding: float = 0.0) -> Floats:
    """(B, T, D) with ``rows`` (N, D) at the N places that are ``known``."""
    whole = np.full((*known.shape, rows.shape[-1]), padding, np.float32)
    whole[known] = rows
    return whole


def word_pieces(pieces: Sequence[str]) -> Tokenizer:
    """Small letters, then BERT's word pieces between `BEGIN` and `END`, padded; the first of ``pieces`` is padding."""
    places = {piece: row for row, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(places, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing((END, places[END]), (BEGIN, places[BEGIN]))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()
    return tokenizer


def unpacked(stored: Arrays) -> dict[str, Floats]:
    """Weights by name.

    A matrix (N, D) is stored as ``<name>:codes``, whole numbers below 2 `MIDDLE` as bytes in zlib, which less
    `MIDDLE` are multiplied by ``<name>:scale`` (N, G), each in a group of D / G.
    """
    found = {name: np.asarray(weights, np.float32) for name, weights in stored.items() if ":" not in name}
    for name in (each.removesuffix(":codes") for each in stored if each.endswith(":codes")):
        scale = np.asarray(stored[f"{name}:scale"], np.float32)
        codes = np.frombuffer(zlib.decompress(stored[f"{name}:codes"].tobytes()), np.uint8)
        values = codes.reshape(*scale.shape, -1).astype(np.float32) - MIDDLE
        found[name] = (values * scale[..., None]).reshape(len(scale), -1)
    return found
