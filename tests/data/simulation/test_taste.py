"""Axes, wordings and markers: complete, resolvable, and held out as they claim to be."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from crm.data.simulation.lexicon import AXES, AXIS, HELD_OUT_AXES, MARKERS, pole_of, wordings

POLES = [(axis.name, sign) for axis in AXES for sign in (1, -1)]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z-]+", text.lower()))


def test_there_are_enough_axes_poles_and_wordings() -> None:
    assert len(AXES) >= 16
    assert len(HELD_OUT_AXES) >= 2
    assert len({axis.topic for axis in AXES}) == len(AXES)
    for axis, sign in POLES:
        pole = AXIS[axis].pole(sign)
        assert len(pole.train) >= 6
        assert len(pole.held_out) == 2
        assert len(MARKERS[axis, sign]) == len(set(MARKERS[axis, sign])) >= 3


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
