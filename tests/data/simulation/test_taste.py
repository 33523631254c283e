"""Axes, wordings and markers: complete, resolvable, and held out as they claim to be."""

from __future__ import annotations

from collections import defaultdict

import pytest

from crm.data.simulation.lexicon import AXES, pole_of, wordings

POLES = [(axis.name, sign) for axis in AXES for sign in (1, -1)]


@pytest.mark.parametrize(("axis", "sign"), POLES)
def test_every_wording_leads_back_to_its_pole(axis: str, sign: int) -> None:
    for kind in ("train", "held_out"):
        for wording in wordings(axis, sign, kind):
            assert pole_of(wording) == pole_of(f"  {wording.upper()}. ") == (axis, sign)
            assert 2 <= len(wording.split()) <= 9


def test_no_wording_serves_two_poles_and_none_is_both_seen_and_held_out() -> None:
    owners = defaultdict(set)
    for axis, sign in POLES:
        for kind in ("train", "held_out"):
            for wording in wordings(axis, sign, kind):
                owners[wording.lower()].add((axis, sign, kind))
    assert all(len(owner) == 1 for owner in owners.values())
