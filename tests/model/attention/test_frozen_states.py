"""What is kept comes back as it was, whatever the cuts, the place and the room."""

from __future__ import annotations

import random
import tracemalloc

import pytest
import torch
from torch import Tensor

from crm.model.attention import frozen_states
from crm.model.attention.frozen_states import INDEX_BYTES, FrozenStates
from crm.model.batching.forest import Forest, grow_forest

WIDTH = 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_states, "BLOCK", 7)


def forests(count: int, seed: int = 0) -> list[Forest]:
    """Random sequences over three ids, so that many begin alike, cut as each forest happens to."""
    rng = random.Random(seed)
    return [grow_forest([tuple(rng.choices(range(3), k=rng.randint(1, 20))) for _ in range(6)]) for _ in range(count)]


def beginnings(forest: Forest) -> list[tuple[int, ...]]:
    """Of each token of the row, all ids up to it."""
    found = []
    for node in forest.nodes:
        before: list[int] = []
        for above in (forest.nodes[index] for index in node.path[:-1]):
            before += forest.ids[above.start : above.start + above.length]
        own = forest.ids[node.start : node.start + node.length]
        found += [tuple(before + own[: index + 1]) for index in range(node.length)]
    return found


def states_of(forest: Forest) -> Tensor:
    """A state that depends on the whole beginning."""
    return torch.tensor([[hash((begin, i)) % 1000 / 7 for i in range(WIDTH)] for begin in beginnings(forest)])


def test_every_token_is_found_by_what_precedes_it() -> None:
    kept = FrozenStates(WIDTH, budget=10**6)
    seen: set[tuple[int, ...]] = set()
    for forest in forests(8):
        slots = kept.find(forest.ids, forest.nodes)
        assert [slot > 0 for slot in slots] == [begin in seen for begin in beginnings(forest)]
        assert kept.add(forest.ids, forest.nodes, states_of(forest)) == 0
        seen |= set(beginnings(forest))
        assert len(kept) == len(seen), "each beginning once"
    for forest in forests(8):
        slots = torch.tensor(kept.find(forest.ids, forest.nodes))
        assert torch.equal(kept.read(slots), states_of(forest))


def test_bfloat16_is_the_rounded_state_in_half_of_the_room() -> None:
    (forest,) = forests(1)
    kept = FrozenStates(WIDTH, budget=10**6, dtype=torch.bfloat16)
    kept.add(forest.ids, forest.nodes, states_of(forest))
    found = kept.read(torch.tensor(kept.find(forest.ids, forest.nodes)))
    assert torch.equal(found, states_of(forest).bfloat16().float())
    assert kept.token_bytes - INDEX_BYTES == (FrozenStates(WIDTH, budget=1).token_bytes - INDEX_BYTES) // 2


@pytest.mark.parametrize("room", [0, 1, 6, 7, 20])
def test_the_room_is_kept_to(room: int) -> None:
    kept = FrozenStates(WIDTH, budget=room * FrozenStates(WIDTH, budget=0).token_bytes)
    for forest in forests(4):
        found = kept.find(forest.ids, forest.nodes)
        refused = kept.add(forest.ids, forest.nodes, states_of(forest))
        slots = kept.find(forest.ids, forest.nodes)
        assert refused == slots.count(-1) <= found.count(-1)
        known = torch.tensor([index for index, slot in enumerate(slots) if slot > 0], dtype=torch.int64)
        assert torch.equal(kept.read(torch.tensor(slots)[known]), states_of(forest)[known])
    assert len(kept) == room


@pytest.mark.slow
def test_an_entry_of_the_tree_takes_no_more_than_is_reckoned() -> None:
    """At the worst moment, a dictionary that has just grown."""
    ids = list(range(90_000))
    tree = grow_forest([tuple(ids)])
    kept = FrozenStates(0, budget=10**9)
    tracemalloc.start()
    kept.add(tree.ids, tree.nodes, torch.empty(len(ids), 0))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size / len(ids) < INDEX_BYTES
