"""Axes, wordings and markers: complete, resolvable, and held out as they claim to be."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from crm.votes.simulation.lexicon import AXES, MARKERS
from crm.votes.simulation.taste import AXIS, HELD_OUT_AXES, pole_of, wordings

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


@pytest.mark.parametrize(("axis", "sign"), POLES)
def test_held_out_wordings_rearrange_words_of_their_own_pole(axis: str, sign: int) -> None:
    """Each word of a held-out body is a training word of the same pole or common to several axes; two are telling."""
    used_by = defaultdict(set)
    for other, other_sign in POLES:
        for body in AXIS[other].pole(other_sign).train:
            for word in words(body):
                used_by[word].add((other, other_sign))
    own = {word for word, poles in used_by.items() if (axis, sign) in poles}
    common = {word for word, poles in used_by.items() if len({name for name, _ in poles}) >= 2}
    for body in AXIS[axis].pole(sign).held_out:
        assert words(body) <= own | common, body
        # A telling word occurs in training bodies of this pole and of no other: the reader needs no negation.
        assert any(used_by[word] == {(axis, sign)} for word in words(body)), body
