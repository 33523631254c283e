"""Packages know each other by their front doors: at most twelve names each, all of them told and all of them there."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in (ROOT / "crm").rglob("__init__.py")
    if path.parent.name not in ("crm", "cli") and "__all__" in path.read_text(encoding="utf-8")
)


def doors(package: str) -> list[str]:
    """The names of a front door."""
    return list(importlib.import_module(package).__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_front_door_has_at_most_twelve_names_and_tells_what_each_is(package: str) -> None:
    door = importlib.import_module(package)
    names = doors(package)
    assert 1 <= len(names) <= 12
    told = dict(re.findall(r"^- `(\w+)`(.*)$", door.__doc__ or "", re.MULTILINE))
    assert sorted(told) == sorted(names)
    assert all(re.match(r": \S", what) for what in told.values())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_front_door_is_there(package: str) -> None:
    for name in doors(package):
        try:
            importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError:
            assert getattr(importlib.import_module(package), name) is not None


def is_open(module: str, name: str) -> bool:
    """Whether ``from module import name`` goes through front doors only."""
    parts = module.split(".")
    for depth in range(2, len(parts)):
        if ".".join(parts[:depth]) in PACKAGES and parts[depth] not in doors(".".join(parts[:depth])):
            return False
    return name in doors(module) if module in PACKAGES else True


def parsed(code: str) -> ast.Module:
    """Until CPython 3.11.8 a count is shared by all that parse at a time, finalizers too (gh-106905): parse again."""
    for _ in range(9):
        with suppress(SystemError):
            return ast.parse(code)
    return ast.parse(code)


def imports(code: str) -> Iterator[tuple[str, str]]:
    """Every (module, name) of this project that ``code`` imports."""
    for node in ast.walk(parsed(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "crm":
            yield from ((node.module, alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("crm."))


INSIDERS = {"bench/memory_table.py", "experiments/real_judge/bundled.py"}
"""They measure and pack the model's own parts."""


def sources() -> Iterator[tuple[str, str]]:
    """Name and code of every file that is no test: modules, studies, benchmarks, notebooks, examples of the docs."""
    for folder in ("crm", "bench", "experiments"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        yield path.name, re.sub(r"^[%!].*$", "", code, flags=re.MULTILINE)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            yield path.name, block


def test_other_packages_are_entered_by_their_front_doors_only() -> None:
    past_the_door = [
        f"{file}: from {module} import {name}"
        for file, code in sources()
        for module, name in imports(code)
        if file not in INSIDERS and file.split("/")[:2] != module.split(".")[:2] and not is_open(module, name)
    ]
    assert past_the_door == []


def test_this_test_sees_who_climbs_through_a_window() -> None:
    assert is_open("crm.judges", "Judge") and is_open("crm.io.files", "replace_file")
    assert not is_open("crm.judges.judge", "Judge")
    assert not is_open("crm.judges", "LengthJudge")
    assert list(imports("from crm.judges.judge import Judge")) == [("crm.judges.judge", "Judge")]
