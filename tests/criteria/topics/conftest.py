"""Three clear groups of sentences, as the tests of topics share them."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

COOKING = [
    "Boil the pasta and stir the tomato sauce",
    "A recipe for tomato sauce with fresh pasta",
    "Which pasta recipe needs a tomato sauce",
    "My tomato sauce recipe for pasta night",
    "Fresh pasta with sauce, an easy tomato recipe",
]
SPACE = [
    "The rocket carried a satellite into orbit",
    "Which rocket reaches orbit with a satellite",
    "A satellite leaves its orbit without the rocket",
    "Launch the rocket, the satellite waits for orbit",
]
CHESS = [
    "The bishop and the knight attack the queen",
    "Queen, bishop or knight: a chess opening",
    "A chess opening with the knight and queen",
]


@pytest.fixture(scope="session")
def groups() -> dict[str, list[str]]:
    return {"cooking": COOKING, "space": SPACE, "chess": CHESS}


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """The twelve sentences: labels by size are 0 x 5, 1 x 4, 2 x 3."""
    return [*COOKING, *SPACE, *CHESS]
