"""The table of licences: complete, as the packages say, and without one that is not allowed."""

from __future__ import annotations

import re
from email.message import Message
from types import SimpleNamespace
from typing import Any, cast

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.audit.licences import (
    CORE,
    PAGE,
    ROOT,
    UNKNOWN,
    Row,
    installed,
    is_allowed,
    licence_of,
    needed_by,
    page_of,
    pins,
    requirements,
)

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def table() -> dict[str, Row]:
    """What the page says."""
    text = PAGE.read_text(encoding="utf-8").split("## Every package")[1]
    rows = [Row(*(cell.strip() for cell in line.split("|")[1:-1])) for line in text.splitlines()[4:] if line]
    return {row.name: row for row in rows}


def package(requires: tuple[str, ...] = (), **told: str | list[str]) -> Any:
    metadata = Message()
    for name, values in told.items():
        for value in [values] if isinstance(values, str) else values:
            metadata[name.replace("_", "-")] = value
    return SimpleNamespace(metadata=metadata, requires=list(requires))


def test_what_the_core_and_each_extra_ask_for_is_there_in_its_pinned_version() -> None:
    rows, versions = table(), pins()
    for who, texts in requirements().items():
        for name in (canonicalize_name(requirement.name) for requirement in texts):
            assert rows[name].version == versions[name], f"{name}: run `python -m bench.audit.licences`"
            assert rows[name].needed_by == CORE or who in rows[name].needed_by.split(", "), (name, who)


def test_what_those_bring_along_is_there_too() -> None:
    """Of what has a pin: elsewhere torch brings NVIDIA's packages, which the page says."""
    assert needed_by(requirements(), installed()).keys() & pins().keys() <= table().keys()


def test_no_licence_is_unknown_or_forbidden() -> None:
    rows = table()
    assert len(rows) > 150
    assert [row for row in rows.values() if not is_allowed(row.licence)] == []
    assert [row for row in rows.values() if row.version not in (pins().get(row.name), "any")] == []


def test_the_page_is_what_the_packages_that_are_installed_say() -> None:
    rows, found = table(), installed()
    there = [row for row in rows.values() if row.name in found and row.version == found[row.name].version.split("+")[0]]
    assert len(there) > 100
    for row in there:
        assert row.licence == licence_of(found[row.name]) or licence_of(found[row.name]) == UNKNOWN, row
    assert page_of(list(rows.values())) == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("told", "licence", "allowed"),
    [
        ({"License_Expression": "MIT OR Apache-2.0", "License": "GPL"}, "MIT OR Apache-2.0", True),
        ({"License_Expression": "(MIT AND GPL-3.0-only)"}, "(MIT AND GPL-3.0-only)", False),
        ({"License": "Apache 2.0"}, "Apache-2.0", True),
        ({"License": "UNKNOWN", "Classifier": ["License :: OSI Approved :: ISC License (ISCL)"]}, "ISC", True),
        (
            {"License": "Long text\nof many lines", "Classifier": ["License :: OSI Approved :: BSD License"]},
            "BSD",
            True,
        ),
        ({"License": "MIT", "Classifier": ["License :: OSI Approved :: GNU GPLv3"]}, "MIT, GNU GPLv3", False),
        ({"License": "AGPL-3.0"}, "AGPL-3.0", False),
        ({"License": "Free for friends"}, "Free for friends", False),
        ({}, UNKNOWN, False),
    ],
)
def test_a_licence_is_read_from_what_a_package_says(told: dict[str, Any], licence: str, allowed: bool) -> None:
    assert licence_of(package(**told)) == licence
    assert is_allowed(licence) == allowed
    assert not is_allowed("")


def test_who_needs_a_package_is_known_through_others_and_their_extras() -> None:
    found = {
        "web": package(("core>=1", "fast; extra == 'fast'", "never; extra == 'other'", "old; python_version < '3'")),
        "core": package(("web",)),  # a circle
        "fast": package(),
    }
    wanted = {CORE: [Requirement("core")], "app": [Requirement("web[fast]"), Requirement("absent")]}
    assert needed_by(wanted, cast(Any, found)) == {
        "core": {CORE, "app"},
        "web": {CORE, "app"},
        "fast": {"app"},
        "absent": {"app"},
    }


def test_the_environment_of_the_audit_has_the_tools_of_its_extra() -> None:
    found = re.search(r"-c constraints\.txt (bandit .*)", MAKEFILE)
    assert found and sorted(found[1].split()) == sorted(requirement.name for requirement in requirements()["audit"])
