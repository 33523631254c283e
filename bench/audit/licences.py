"""``python -m bench.audit.licences``: who needs which package, and its licence. Out: ``docs/licences.md``.

In: the requirements of ``pyproject.toml``, the versions of ``constraints.txt``, and what installed packages say of
themselves. Exit code 1 where a licence is unknown or not one of `ALLOWED`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "licences.md"
TOOLS = ROOT / ".venv" / "audit"
"""The environment of the extra ``audit``, kept apart from what it looks at."""
CORE = "core"
UNKNOWN = "unknown"
ALLOWED = (
    *("0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC"),
    *("LLVM-exception", "MIT", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib"),
)
"""Identifiers of SPDX that an Apache-2.0 project may be built on; ``BSD`` is one of its kinds, said no more exactly."""
ALIASES = {
    "apache": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "2-clause bsd": "BSD-2-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd license": "BSD",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
"""What packages write, in lower case, and what SPDX calls it."""
READ_BY_HAND = {
    "axe-playwright-python": "MIT AND MPL-2.0",
    "deepspeed": "Apache-2.0",
    "liger-kernel": "BSD-2-Clause",
    "openai": "Apache-2.0",
    "ray": "Apache-2.0",
}
"""Of packages that say nothing in their metadata (the first), and of those that `make install` leaves out."""
INTRODUCTION = """# Licences of what this project is built on

The project itself is licensed under [Apache-2.0](../LICENSE). This table is made by `make audit`; do not edit it.

It lists what the core and every extra need, with the versions of `constraints.txt`, on Linux with the CPU build of
torch. A licence is what the package says of itself. *Needed by* `core` means that everybody gets it; otherwise it names
the extras of `pyproject.toml` that bring it. Version `any` means that none is pinned. A test
refuses a licence that is unknown, GPL or AGPL.

Not in the table:

- torch with CUDA brings NVIDIA's packages along, under NVIDIA's own terms;
- what deepspeed, liger-kernel, openai and ray bring along, because `make install` leaves these four out;
- models and data sets. Each has its own licence: see its card, or the
  [sources](bring_your_own_votes.md) that `prepare.py` knows.
"""


class Row(NamedTuple):
    """A package; ``needed_by`` is `CORE` or extras."""

    name: str
    version: str
    licence: str
    needed_by: str


def main() -> int:
    """Write the page; say what is wrong with it."""
    rows = licence_rows()
    PAGE.write_text(page_of(rows), encoding="utf-8")
    wrong = [row for row in rows if not is_allowed(row.licence)]
    for row in wrong:
        print(
            f"{row.name} {row.version}: licence {row.licence}: not one that is allowed; do without it", file=sys.stderr
        )
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} packages, {len(wrong)} with a licence that is not allowed")
    return 1 if wrong else 0


def licence_rows() -> list[Row]:
    """A row for every package that is needed, by name."""
    found, versions = installed(), pins()
    needed = needed_by(requirements(), found)
    return [
        Row(name, versions.get(name, "any"), READ_BY_HAND.get(name) or licence_of(found[name]), _shown(who))
        for name, who in sorted(needed.items())
    ]


def requirements() -> dict[str, list[Requirement]]:
    """Of the core and of each extra, as ``pyproject.toml`` has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {CORE: project["dependencies"], **project["optional-dependencies"]}
    return {who: list(map(Requirement, texts)) for who, texts in wanted.items()}


def pins() -> dict[str, str]:
    """Versions of ``constraints.txt``."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def installed() -> dict[str, Distribution]:
    """What is installed here, and in the environment of `TOOLS` where there is one."""
    beside = [str(folder) for folder in TOOLS.glob("lib/python*/site-packages")]
    both = (*distributions(path=beside), *distributions())
    return {canonicalize_name(each.metadata["Name"]): each for each in both}


def needed_by(wanted: Mapping[str, Sequence[Requirement]], found: Mapping[str, Distribution]) -> dict[str, set[str]]:
    """For every package who needs it, be it through others. What is not installed brings nothing along."""
    needed: dict[str, set[str]] = {}
    for who, texts in wanted.items():
        waiting, seen = list(texts), set[str]()
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            if str(requirement) in seen:
                continue
            seen.add(str(requirement))
            needed.setdefault(name, set()).add(who)
            if name in found:
                waiting += _brought(found[name], requirement.extras)
    return needed


def _brought(package: Distribution, extras: Iterable[str]) -> list[Requirement]:
    asked = [{"extra": extra} for extra in ("", *extras)]
    wanted = map(Requirement, package.requires or ())
    return [one for one in wanted if one.marker is None or any(map(one.marker.evaluate, asked))]


def licence_of(package: Distribution) -> str:
    """As SPDX writes it, or the package's own words where it has no identifier for them."""
    if expressions := _told(package, "License-Expression"):
        return expressions[0]
    classifiers = [text for text in _told(package, "Classifier") if text.startswith("License")]
    said = [*_told(package, "License"), *(text.rpartition(" :: ")[2] for text in classifiers)]
    short = [text for text in said if "\n" not in text]
    known = [name for text in short if is_allowed(name := ALIASES.get(text.lower(), text))]
    if not known or any("gpl" in text.lower() for text in short):
        return ", ".join(short) or UNKNOWN
    return known[0]


def _told(package: Distribution, field: str) -> list[str]:
    return [text.strip() for text in map(str, package.metadata.get_all(field) or ()) if text.strip()]


def is_allowed(licence: str) -> bool:
    """Whether every identifier of an expression is one of `ALLOWED`."""
    names = re.findall(r"[^\s()]+", licence)
    return bool(names) and all(name in ALLOWED for name in names if name not in ("AND", "OR", "WITH"))


def _shown(who: set[str]) -> str:
    return CORE if CORE in who else ", ".join(sorted(who))


def page_of(rows: Sequence[Row]) -> str:
    """The page: how many packages a licence has, then all rows."""
    counts = Counter(row.licence for row in rows)
    summary = ["| licence | packages |", "|---|--:|", *(f"| {name} | {n} |" for name, n in counts.most_common())]
    table = ["| package | version | licence | needed by |", "|---|---|---|---|"]
    table += [f"| {row.name} | {row.version} | {row.licence} | {row.needed_by} |" for row in rows]
    return "\n".join([INTRODUCTION, *summary, "", "## Every package", "", *table, ""])


if __name__ == "__main__":
    sys.exit(main())
