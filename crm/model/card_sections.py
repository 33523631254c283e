"""Sections of a card that are measured after the export. In: a model's folder, a heading. Out: the section's text."""

from __future__ import annotations

from pathlib import Path

from crm.io.files import replace_file
from crm.model.manifest import CARD

TALKED_ROUND = "Can it be talked round?"
"""Heading of what attacks do to the model."""


def read_section(folder: Path, title: str) -> str:
    """The text under the heading ``title`` in the card of ``folder``; empty where there is none."""
    found = (part for part in _parts(folder / CARD) if part.startswith(f"{title}\n"))
    return next(found, title).removeprefix(title).strip()


def write_section(folder: Path, title: str, text: str) -> None:
    """Put a section into the card of ``folder``, before its licence, in the place of an earlier one of that title.

    Raises ``ValueError`` where the folder has no card of ours.
    """
    card = folder / CARD
    parts = _parts(card)
    kept = [part for part in parts if not part.startswith(f"{title}\n")]
    places = [place for place, part in enumerate(kept) if part.startswith("Licence\n")]
    if not places:
        raise ValueError(f"{card}: missing, or not a card that was exported here; export the model again")
    kept.insert(places[0], f"{title}\n\n{text.strip()}\n")
    if kept != parts:
        replace_file(card, "\n## ".join(kept))


def _parts(card: Path) -> list[str]:
    """What stands before the first heading, and then the sections, each with its title first; none without a card."""
    return card.read_text(encoding="utf-8").split("\n## ") if card.is_file() else []
