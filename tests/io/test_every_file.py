"""Each kind of file under flipped bytes, cuts, a full disk and a read-only folder: sound, or one sentence naming it."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crm.judges.crm_judge import CrmJudge
from tests.io.file_kinds import FILES, KINDS, Parts

FLIPS, CUTS = 12, 4
LIMITS = (0, 1_000)
"""Bytes of a file at which the disk is full."""
NOBODY = 65_534


@pytest.fixture(scope="module")
def parts(make_model: Any, make_encoder: Any, preferences: Any, many: Any) -> Parts:
    late = CrmJudge(make_model("late"), make_encoder("late", max_length=200), batch_size=8, model_digest="m")
    return Parts(preferences, many[:6], late)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user can reach, which those of pytest are not."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put_back(folder: Path, sound: dict[Path, bytes]) -> None:
    """As it was; into new files, because arrays may still be mapped on the old ones."""
    for path, content in contents(folder).items():
        if sound.get(path) != content:
            path.unlink()
    for path, content in sound.items():
        if not path.exists():
            path.write_bytes(content)


def harmed(content: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for _ in range(FLIPS):
        place, flip = rng.randrange(len(content)), rng.randrange(1, 256)
        yield f"byte {place} ^ {flip}", content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :]
    for length in [0, len(content) - 1, *(rng.randrange(len(content)) for _ in range(CUTS - 2))]:
        yield f"cut to {length} of {len(content)}", content[:length]


@pytest.mark.parametrize(("kind", "file"), FILES, ids=[f"{kind}: {file}" for kind, file in FILES])
def test_a_flipped_byte_or_a_cut_is_found_or_changes_nothing(kind: str, file: str, parts: Parts, folder: Path) -> None:
    found = KINDS[kind]
    found.write(parts, folder)
    expected, sound = found.read(parts, folder), contents(folder)
    path, *_ = sorted(folder.glob(file))
    for what, content in harmed(sound[path], random.Random(f"{kind} {file}")):
        path.unlink()
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert found.read(parts, folder) == expected, f"{what}: another value, and not a word"
            except ValueError as error:
                assert path.name in str(error), f"{what}: which file? {error}"
                assert re.search(r";|:\d+: ", str(error)), f"{what}: and what now? {error}"
        put_back(folder, sound)


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_told_and_costs_nothing_that_was_there(kind: str, parts: Parts, folder: Path) -> None:
    """Into an empty folder, where nothing half-written stays in the way; and over what is there."""
    found = KINDS[kind]
    found.write(parts, folder)
    expected = found.read(parts, folder)
    largest = max(map(len, contents(folder).values()))
    for number, room in enumerate(room for room in LIMITS if room < largest):
        again = folder / f"again-{number}"
        again.mkdir()
        with pytest.raises((OSError, ValueError)), full_disk(room):
            found.write(parts, again)
        assert not list(again.rglob("*.tmp")), "drafts take room"
        found.write(parts, again)
        assert found.read(parts, again) == expected
        try:
            with full_disk(room):
                found.write(parts, again)
        except (OSError, ValueError):
            pass
        assert found.read(parts, again) == expected


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """As another user where this one is root, whom modes do not stop."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_only_folder_is_told(kind: str, parts: Parts, folder: Path) -> None:
    found = KINDS[kind]
    found.write(parts, folder)  # and all is imported
    closed = folder / "closed"
    closed.mkdir()
    with read_only(closed), pytest.raises((OSError, ValueError)) as told:
        found.write(parts, closed)
    assert "closed" in str(told.value), "where?"
    assert not contents(closed)
