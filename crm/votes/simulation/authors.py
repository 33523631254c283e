"""The simulated LLMs. In: a name. Out: its style profile, a tendency in [-1, 1] on every axis of taste.

On every axis the authors' tendencies are the same evenly spaced numbers in another order, so each axis ranks them
differently and with clear gaps; the baseline stands in the middle of all axes.
"""

from __future__ import annotations

from collections.abc import Mapping

from crm.votes.simulation.axes import AXES
from crm.votes.simulation.draws import generator

BASELINE = "birch-base"
_OTHERS = (
    "aster-large",
    "aster-mini",
    "cedar-chat",
    "dahlia-pro",
    "elm-turbo",
    "fern-instruct",
    "ginkgo-max",
    "hazel-lite",
    "iris-open",
    "juniper-plus",
    "linden-preview",
    "maple-nano",
)


def _profiles() -> dict[str, dict[str, float]]:
    steps = [2 * rank / (len(_OTHERS) - 1) - 1 for rank in range(len(_OTHERS))]
    profiles: dict[str, dict[str, float]] = {BASELINE: {axis.name: 0.0 for axis in AXES}}
    profiles.update({author: {} for author in _OTHERS})
    for axis in AXES:
        order = list(_OTHERS)
        generator("profile", axis.name).shuffle(order)
        for author, tendency in zip(order, steps, strict=True):
            profiles[author][axis.name] = tendency
    return profiles


PROFILES: Mapping[str, Mapping[str, float]] = _profiles()
"""Tendency of every author on every axis; fixed, the same for every seed."""
AUTHORS = tuple(sorted(PROFILES))
