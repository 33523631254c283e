"""`bank.py fetch=`: pins of the repositories' own files, checked against a copy of them where there is one."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from crm.config import compose
from crm.leaderboard.bank.public import FOLDERS, read_public_bank
from crm.leaderboard.bank.run import run_bank

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[4] / "shared" / "data"))


@pytest.mark.parametrize("name", FOLDERS)
def test_addresses_are_of_one_commit_and_digests_are_whole(name: str) -> None:
    fetch = compose("bank", [f"fetch={name}", "out=here"]).fetch
    assert fetch.name == name and fetch.licence
    for place, pin in fetch.files.items():
        assert re.fullmatch(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/[0-9a-f]{40}/[\w./-]+", pin.url)
        assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
        assert place.startswith((f"{FOLDERS[name]}/", "bank_justeval/tags_list.json")) and ".." not in place


@pytest.mark.parametrize("name", FOLDERS)
def test_a_fetched_bank_is_the_copy_at_hand(name: str, tmp_path: Path) -> None:
    """The copy is compressed here and there; the pins are of what is inside."""
    if not (ROOT / FOLDERS[name]).is_dir():
        pytest.skip(f"no {FOLDERS[name]} under {ROOT}; set CRM_DATA_ROOT")
    words = [f"fetch={name}", f"out='{tmp_path / 'out'}'", f"fetch.mirror='{tmp_path / 'mirror'}'", "progress=false"]
    for place in compose("bank", words).fetch.files:
        copy, packed = ROOT / place, ROOT / f"{place}.gz"
        (tmp_path / "mirror" / place).parent.mkdir(parents=True, exist_ok=True)
        content = copy.read_bytes() if copy.is_file() else gzip.decompress(packed.read_bytes())
        (tmp_path / "mirror" / place).write_bytes(content)
    fetched = run_bank(compose("bank", words))
    assert fetched == read_public_bank(name, str(tmp_path / "out")) == read_public_bank(name, str(ROOT))


def test_nothing_else_is_asked_beside_it() -> None:
    with pytest.raises(ValueError, match=r"author='me': expected nothing beside fetch, which adds no model"):
        compose("bank", ["fetch=alpacaeval", "out=here", "author=me"])
    with pytest.raises(ValueError, match=r"author='': expected the model's name in the bank; or fetch=alpacaeval"):
        compose("bank", ["out=here"])
