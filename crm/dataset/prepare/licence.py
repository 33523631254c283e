"""In: a source's name, and the licence that the user states. Out: what a card says of it; whether it may be shared."""

from __future__ import annotations

from crm.votes.catalogue import source_named

OWN_LICENSE = "Apache-2.0"
"""Of this project, and so of what its simulation writes."""


def license_of(source: str, stated: str | None) -> str | None:
    """The stated licence, else the source's own; ``None`` where there is neither."""
    if stated:
        return stated
    return OWN_LICENSE if source == "simulation" else source_named(source).license


def about(source: str) -> str:
    """One sentence on where the data come from."""
    if source == "simulation":
        return "Source: `simulation`, the simulated arena of this project: known truth, no people."
    facts = source_named(source)
    return f"Source: `{source}`, {facts.about}" + (f" ({facts.origin})." if facts.origin else ".")


def note(source: str, stated: str | None) -> str:
    """What a reader of the card has to know before passing the texts on."""
    name = license_of(source, stated)
    if name is None:
        public = "The source gives no licence: measure with it, and do not pass it on."
        own = "Not stated. Say under which licence the votes may be used before you pass this dataset on."
        return public if source_named(source).folder else own
    return f"{name}, as " + ("stated by whoever prepared this dataset." if stated else "its source gives it.")


def check_may_be_shared(source: str, stated: str | None) -> None:
    """Raise ``ValueError`` for texts that nobody has allowed to pass on."""
    if license_of(source, stated) is None:
        raise ValueError(
            f"push_to: {source} has no licence, so its texts may not be passed on; if you may, say under which "
            "licence with license=<name>"
        )
