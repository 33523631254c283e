"""Batches on which shortcuts go wrong. In: a head. Out: named lists of encoded comparisons, drawn from a fixed seed."""

from __future__ import annotations

import torch

from bench.models import FILLER_ID, PAD_ID
from bench.pairs import FIRST_ID, from_ids
from crm.model.encoding import EncodedComparison, Order

Ids = tuple[int, ...]
TARGETS = (1.0, 0.0, 0.5)


def cases(head: str) -> dict[str, list[EncodedComparison]]:
    """Every corner by itself, and all of them in one batch."""
    draw = _Ids(seed=7)
    user, query = draw(11), draw(9)
    one = "one_token_responses", [(user, query, draw(1), draw(1)), (user, query, draw(1), draw(6))]
    same = draw(8)
    found = dict(
        [
            one,
            ("equal_lengths", [(user, query, draw(7), draw(7)) for _ in range(3)]),
            ("identical_responses", [(user, query, same, same), (user, query, same, draw(8))]),
            (
                "ends_in_the_pad_id",
                [
                    (user, query, (*draw(4), PAD_ID), (*draw(2), PAD_ID, PAD_ID)),
                    (user, query, draw(3), (*draw(5), PAD_ID)),
                ],
            ),
            ("single_comparison", [(user, query, draw(6), draw(4))]),
            ("one_criterion_and_twenty", [(draw(5), query, draw(6), draw(7)), (draw(160), query, draw(6), draw(9))]),
            ("several_prompts", _several_prompts(draw)),
            ("one_response_begins_another", [(user, query, same[:3], same), (user, query, same, same[:5])]),
        ]
    )
    encoded = {name: _encoded(head, rows, ("ab",)) for name, rows in found.items()}
    encoded["both_orders"] = _encoded(head, found["several_prompts"], ("ab", "ba"))
    encoded["everything"] = [row for rows in encoded.values() for row in rows]
    return encoded


def _several_prompts(draw: _Ids) -> list[tuple[Ids, Ids, Ids, Ids]]:
    """Two users and three queries; all candidates of a query meet one baseline, which stands first."""
    rows = []
    for user in (draw(10), draw(13)):
        for query in (draw(6), draw(12), draw(3)):
            baseline = draw(9)
            rows += [(user, query, baseline, draw(length)) for length in (5, 14, 2)]
    return rows


def _encoded(head: str, rows: list[tuple[Ids, Ids, Ids, Ids]], orders: tuple[Order, ...]) -> list[EncodedComparison]:
    found = []
    for index, (user, query, first, second) in enumerate(rows):
        target = TARGETS[index % len(TARGETS)]
        for order in orders:
            shown = (first, second) if order == "ab" else (second, first)
            name = f"{index}-{order}"
            # A target is about the response shown first.
            own = target if order == "ab" else 1.0 - target
            found.append(from_ids(head, user, query, *shown, order=order, target=own, name=name))
    return found


class _Ids:
    """Random ids that are neither control tokens nor the filler of the reference."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, length: int) -> Ids:
        return tuple(torch.randint(FIRST_ID, FILLER_ID, (length,), generator=self._generator).tolist())
