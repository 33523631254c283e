"""Attention calls of a forest: groups and variable lengths describe what the spans say, and few calls do."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from crm.model.batching.forest import Forest, grow_forest
from crm.model.batching.tree_mask import CALL, GATHERED, TreeMask, full_mask, read_mask, varlen


@pytest.fixture(params=range(6))
def forest(request) -> Forest:
    """Sequences of 1 to 200 tokens that begin alike in runs of any length, some of them equal."""
    draw = random.Random(request.param)
    sequences = [tuple(draw.choices(range(3, 9), k=draw.randint(1, 80)))]
    for _ in range(24):
        beginning = draw.choice(sequences)
        beginning = beginning[: draw.randint(0, len(beginning))]
        sequences.append(beginning + tuple(draw.choices(range(3, 9), k=draw.randint(not beginning, 120))))
    return grow_forest([*sequences, *sequences[:3]])


def tree_masks(forest: Forest) -> list[TreeMask]:
    """Of all tokens, and of the last of each node and a few more."""
    some = {node.start + node.length - 1 for node in forest.nodes} | set(range(0, len(forest.ids), 17))
    return [full_mask(forest), read_mask(forest, sorted(some))]


def said(tree_mask: TreeMask, tokens: int) -> Tensor:
    """(queries, tokens) bool, by the spans."""
    rows = [(span.keys, count) for span in tree_mask.spans for count in span.seen]
    seen = torch.zeros(len(rows), tokens, dtype=torch.bool)
    for query, (keys, count) in enumerate(rows):
        seen[query, keys[:count]] = True
    return seen


def test_groups_see_what_the_readings_say(forest) -> None:
    for tree_mask in tree_masks(forest):
        answers = []
        for group in tree_mask.calls.groups:
            count, queries, keys = group.shape
            mask = torch.ones(count, 1, queries, keys).tril().log() if group.mask is None else group.mask
            assert mask.shape == (count, 1, queries, keys) and set(mask.unique().tolist()) <= {0.0, -torch.inf}
            of, index = group.queries.view(count, queries).tolist(), group.keys.view(count, keys)
            for row in range(count):
                for query in range(queries):
                    answers.append((of[row][query], index[row][mask[row, 0, query] == 0]))
        expected = said(tree_mask, len(forest.ids))
        assert len(tree_mask.calls.back) == len(expected)
        for query, place in enumerate(tree_mask.calls.back.tolist()):
            whose, seen = answers[place]
            assert whose == query and sorted(seen.tolist()) == expected[query].nonzero().flatten().tolist()


def test_a_call_is_saved_where_little_is_read_in_vain(forest) -> None:
    for tree_mask in tree_masks(forest):
        read = sum(count * queries * keys for count, queries, keys in (group.shape for group in tree_mask.calls.groups))
        needed = sum(len(span.keys) * len(span.seen) for span in tree_mask.spans)
        assert read - needed <= CALL * len(tree_mask.spans)
    alike = grow_forest([(*range(9), last, *range(40)) for last in range(20, 52)])
    assert len(alike.nodes) == 33 and len(full_mask(alike).calls.groups) == 2
    long = grow_forest([(first, *range(100 * first)) for first in (1, 4, 8)])
    assert len(full_mask(long).calls.groups) == 3
    many = grow_forest([(*range(3000), last, *range(40)) for last in range(4000, 4064)])
    assert all(
        count == 1 or count * keys <= GATHERED for count, _, keys in (g.shape for g in full_mask(many).calls.groups)
    )
    assert len(full_mask(many).calls.groups) == 1 + math.ceil(64 / (GATHERED // 3041))


def test_varlen_sequences_see_what_the_readings_say(forest) -> None:
    for tree_mask in tree_masks(forest):
        index, expected = varlen(tree_mask.spans), said(tree_mask, len(forest.ids))
        queries, keys = index.cu_queries.tolist(), index.cu_keys.tolist()
        seen = torch.zeros_like(expected)
        for (q0, q1), (k0, k1) in zip(pairwise(queries), pairwise(keys), strict=True):
            own = index.keys[k0:k1]
            for query in range(q0, q1):
                seen[query, own[: len(own) - (q1 - 1 - query)]] = True
        assert torch.equal(seen, expected)
        assert index.longest == (max(b - a for a, b in pairwise(queries)), max(b - a for a, b in pairwise(keys)))
        assert tree_mask.varlen is None and tree_mask.to("cpu") is tree_mask
