"""Whatever happens to the disk, a whole checkpoint is left and a damaged one is never loaded."""

from __future__ import annotations

import os
import pickle
import random
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.training.checkpointing import SafeCheckpointIO, digest_of, is_whole, previous

DISK = SafeCheckpointIO()


def state(value: float) -> dict[str, Any]:
    return {"weights": torch.full((64,), value), "global_step": int(value)}


@pytest.fixture
def last(tmp_path: Path) -> Path:
    """Two versions written: 2.0 now and 1.0 before."""
    path = tmp_path / "checkpoints/last.ckpt"
    DISK.save_checkpoint(state(1.0), path)
    DISK.save_checkpoint(state(2.0), path)
    return path


def loaded(path: Path) -> int:
    step: int = DISK.load_checkpoint(path)["global_step"]
    return step


def test_the_newest_is_loaded_and_the_one_before_is_kept(last: Path) -> None:
    assert (loaded(last), loaded(previous(last))) == (2, 1)
    assert sorted(file.name for file in last.parent.iterdir()) == sorted(
        file.name for path in (last, previous(last)) for file in (path, digest_of(path))
    ), "no temporary file is left"


def test_any_flipped_bit_is_found(last: Path) -> None:
    content = last.read_bytes()
    rng = random.Random(0)
    for place in [0, len(content) - 1, *(rng.randrange(len(content)) for _ in range(62))]:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        last.write_bytes(damaged)
        assert loaded(last) == 1, place


def test_any_cut_is_found(last: Path) -> None:
    content = last.read_bytes()
    for share in range(20):
        last.write_bytes(content[: len(content) * share // 20])
        assert loaded(last) == 1, share


def test_two_damaged_versions_are_refused_in_words(last: Path) -> None:
    for path in (last, previous(last)):
        path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"last\.ckpt: missing or damaged"):
        DISK.load_checkpoint(last)


def test_a_full_disk_leaves_the_last_good_checkpoint(last: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = {"weights": torch.zeros(1 << 18)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        with pytest.raises(ValueError, match="could not be written"):
            DISK.save_checkpoint(big, last)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (loaded(last), loaded(previous(last))) == (2, 1)
    assert not list(last.parent.glob(".*.tmp")), "the half-written file takes room"


def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"could not be written.*choose another hydra\.run\.dir"):
        DISK.save_checkpoint(state(1.0), tmp_path / "file/last.ckpt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_keeps_what_it_has(last: Path) -> None:
    last.parent.chmod(0o500)
    try:
        with pytest.raises(ValueError, match="could not be written"):
            DISK.save_checkpoint(state(3.0), last)
    finally:
        last.parent.chmod(0o700)
    assert loaded(last) == 2


RENAMES = 3
"""Moves of a save over two versions: the file aside, its digest aside, the new file into place."""


@pytest.mark.parametrize("moves", range(RENAMES + 1))
def test_a_kill_between_any_two_moves_leaves_a_whole_checkpoint(
    moves: int, last: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = 0
    move = Path.replace

    def replace(self: Path, target: Any) -> Path:
        nonlocal done
        if done == moves:
            raise KeyboardInterrupt
        done += 1
        return move(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        if moves < RENAMES:
            with pytest.raises(KeyboardInterrupt):
                DISK.save_checkpoint(state(3.0), last)
        else:
            DISK.save_checkpoint(state(3.0), last)
    assert loaded(last) == (3 if moves == RENAMES else 2)


class Payload:
    """Unpickling it would make a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("raw", [True, False], ids=["bare pickle", "inside a torch file"])
def test_a_malicious_pickle_is_refused_and_does_not_run(raw: bool, tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "last.ckpt"
    if raw:
        path.write_bytes(pickle.dumps({"state_dict": Payload(marker)}))
    else:
        torch.save({"state_dict": Payload(marker)}, path)
    from crm.model.manifest import sha256

    digest_of(path).write_text(sha256(path))
    assert is_whole(path), "the digest alone does not stop it"
    with pytest.raises(ValueError, match="holds more than weights"):
        DISK.load_checkpoint(path)
    assert not marker.exists()


def test_removing_leaves_nothing(last: Path) -> None:
    DISK.remove_checkpoint(last)
    assert list(last.parent.iterdir()) == []
