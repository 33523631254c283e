"""Bad values in any field of any public set: refused by `RecordError`, counted, and nothing else is raised."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crm.io.intake import Intake
from crm.votes.catalogue import PUBLIC

BAD = st.one_of(
    st.none()
    | st.booleans()
    | st.integers(-2, 7)
    | st.just(10**400)
    | st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "a\0", "\ud800", "output_1", "[", "###", "\n\nHuman:", "x" * 300]),
    st.text(max_size=5),
    st.recursive(
        st.none() | st.integers(0, 2) | st.text(max_size=2), lambda inner: st.lists(inner, max_size=4), max_leaves=5
    ),
    st.dictionaries(st.sampled_from(["role", "content", "model", "rank"]), st.none() | st.text(max_size=3), max_size=3),
)
DELETE = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside ``value``."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inside for place in places(item, (*path, key)))]


def damage(files: Any, path: tuple[Any, ...], bad: Any) -> None:
    """Put ``bad`` at a path of at least a file and a row; a path that earlier damage cut off is left alone."""
    holder = files
    with suppress(KeyError, IndexError, TypeError):
        for key in path[:-1]:
            holder = holder[key]
        if bad is DELETE and isinstance(holder, dict):
            del holder[path[-1]]
        elif isinstance(holder, dict) or (isinstance(holder, list) and holder[path[-1]] is not None):
            holder[path[-1]] = None if bad is DELETE else bad


def as_cells(rows: list[Any]) -> list[dict[str, str]]:
    """Damaged rows of a table, whose cells are texts."""
    whole = [row if isinstance(row, dict) else {} for row in rows]
    cells = [{key: str(value).replace("\ud800", "?") for key, value in row.items()} for row in whole]
    return [row if row.get("question") else row | {"question": " "} for row in cells]


@pytest.mark.parametrize("name", PUBLIC)
@settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_bad_values_are_refused_and_counted(name: str, made_up: Any, write_set: Any, data: st.DataObject) -> None:
    files = made_up(name)
    rows = [path for path in places(files) if len(path) >= 2]
    for path in data.draw(st.lists(st.sampled_from(rows), min_size=1, max_size=3, unique=True)):
        damage(files, path, data.draw(BAD | st.just(DELETE)))
    files = {file: as_cells(items) if ".csv" in file else items for file, items in files.items()}
    total = sum(map(len, files.values()))
    with tempfile.TemporaryDirectory() as folder:
        write_set(Path(folder), files)
        reading = Intake(strict=False)
        records = list(PUBLIC[name].read(Path(folder), reading))
        assert reading.read == reading.kept + reading.rejected == total
        assert reading.rejected == len(reading.rejections)
        assert all(str(rejection).isprintable() for rejection in reading.rejections)
        strict = Intake(strict=True)
        try:
            assert list(PUBLIC[name].read(Path(folder), strict)) == records
            assert not reading.rejections
        except ValueError as error:
            assert str(error) == str(reading.rejections[0])


@pytest.mark.parametrize("name", PUBLIC)
def test_an_empty_folder_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no such file; check the path|no file in this folder ends in"):
        list(PUBLIC[name].read(tmp_path, Intake(strict=False)))
