"""Wordings for training and for suites stay apart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from experiments.real_judge import traits
from experiments.real_judge.traits import FRAMES, TRAITS, wording

SIDES = [(trait.name, sign) for trait in TRAITS for sign in (1, -1)]
FILE = yaml.safe_load(Path(traits.__file__).with_name("wordings.yaml").read_text(encoding="utf-8"))


def taught(name: str, sign: int) -> set[str]:
    """What training may say of a side."""
    side = wording(name, sign)
    return {text.casefold() for text in (*side.training, *side.framed)}


def test_every_trait_has_words_and_no_other_has() -> None:
    assert set(FILE["traits"]) == {trait.name for trait in TRAITS}
    with pytest.raises(KeyError):
        wording("Length of the nose", 1)


def test_what_training_never_sees_it_sees_for_no_trait_and_no_side() -> None:
    kept_apart = {text.casefold() for name, sign in SIDES for text in wording(name, sign).unseen}
    seen = {text for name, sign in SIDES for text in taught(name, sign)}
    assert not kept_apart & seen
    assert len(kept_apart) == sum(len(wording(name, sign).unseen) for name, sign in SIDES), "each once"


@pytest.mark.parametrize(("name", "sign"), SIDES)
def test_a_frame_likes_its_own_side_and_dislikes_the_other(name: str, sign: int) -> None:
    own, other = ("more", "less") if sign > 0 else ("less", "more")
    nouns = {side: FILE["traits"][name][side]["nouns"] for side in (own, other)}
    assert nouns[own] and nouns[other]
    expected = {frame.format(noun) for frame in FILE["like"] for noun in nouns[own]}
    expected |= {frame.format(noun) for frame in FILE["dislike"] for noun in nouns[other]}
    framed = set(wording(name, sign).framed)
    kept_apart = {text.casefold() for trait, side in SIDES for text in wording(trait, side).unseen}
    assert framed <= expected and not {text.casefold() for text in framed} & kept_apart
    for noun in (*nouns[own], *nouns[other]):
        assert sum(noun in text for text in framed) >= FRAMES - 1, "in a few frames each, less what is kept apart"
    assert len(framed) <= 2 * FRAMES * max(len(nouns[own]), len(nouns[other]))


def test_what_is_drawn_is_of_the_kind_that_is_asked_for() -> None:
    side = wording("Length", 1)
    rng = random.Random(0)
    drawn = [side.draw(rng) for _ in range(400)]
    assert set(drawn) <= {*side.training, *side.framed} and not set(drawn) & set(side.unseen)
    assert 120 < sum(text in side.training for text in drawn) < 280, "about half"
    assert {side.draw(rng, unseen=True) for _ in range(400)} == set(side.unseen)
    assert side.draw(random.Random(3)) == side.draw(random.Random(3))
