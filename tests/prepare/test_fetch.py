"""``prepare.py fetch=<set>``: pins of the owners' own files, checked against a copy of them where there is one."""

import gzip
import logging
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from crm.config import compose
from crm.data.catalogue import PUBLIC, source_named
from crm.data.public.banks import FOLDERS
from crm.io.intake import Intake
from crm.leaderboard.bank.opening import read_public_bank
from crm.prepare.fetch import UNLICENSED, published
from crm.prepare.run import run_prepare
from tests.made_files import DATA_ROOT

ADDED = ("autoj", "cot_rationales", "d2t", "pandalm", "personas8", "prefeval", "prometheus_hhh", "rmb")
ADDED += ("topicalchat", "vibecheck_arena")


@pytest.mark.parametrize("name", [name for name in (*PUBLIC, *ADDED) if name != "summeval"])
def test_files_are_those_of_one_commit_and_licences_are_the_catalogues(name: str) -> None:
    source, found = source_named(name), published(name)
    assert found.get("licence") == source.license
    at = re.fullmatch(r"https://raw\.githubusercontent\.com/([\w-]+/[\w-]+)/[0-9a-f]{40}", found["source"])
    assert at, "a repository at one commit"
    for place, pin in found["files"].items():
        address = urljoin(f"{found['source']}/", pin["url"])
        assert re.fullmatch(rf"https://raw\.githubusercontent\.com/{at[1]}/[0-9a-f]{{40}}/[\w./%-]+", address)
        assert re.fullmatch(r"[0-9a-f]{64}", pin["sha256"])
        assert place.startswith(f"{source.folder}/") and ".." not in place


@pytest.mark.parametrize("name", ["justeval", "autoj", pytest.param("llmbar", marks=pytest.mark.slow)])
def test_a_fetched_set_is_the_copy_at_hand(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The copy may be compressed here or there; the pins are of the content."""
    found, mirror, out = published(name), tmp_path / "mirror", tmp_path / "out"
    for place in found["files"]:
        copy, packed = DATA_ROOT / place, DATA_ROOT / f"{place}.gz"
        if not copy.is_file() and not packed.is_file():
            pytest.skip(f"no {place} under {DATA_ROOT}; set CRM_DATA_ROOT")
        (mirror / place).parent.mkdir(parents=True, exist_ok=True)
        (mirror / place).write_bytes(copy.read_bytes() if copy.is_file() else gzip.decompress(packed.read_bytes()))
    config = compose("prepare", [f"fetch={name}", f"out='{out}'", f"mirror='{mirror}'", "progress=false"])
    with caplog.at_level(logging.INFO):
        assert run_prepare(config) == out
        run_prepare(config)
    count, kind = len(found["files"]), "bank" if name in FOLDERS else "data"
    assert [line for line in caplog.messages if line.startswith((name, "use"))] == [
        f"{name}: {count} files of {found['source']}; licence: {found.get('licence', UNLICENSED)}",
        f"{name}: {count} files fetched, 0 were there already ({out})",
        f"use it as {kind}={name} {kind}.root={out}",
        f"{name}: {count} files of {found['source']}; licence: {found.get('licence', UNLICENSED)}",
        f"{name}: 0 files fetched, {count} were there already ({out})",
        f"use it as {kind}={name} {kind}.root={out}",
    ]
    if kind == "bank":
        assert read_public_bank(name, str(out)) == read_public_bank(name, str(DATA_ROOT))
    else:
        read, folder = source_named(name).read, str(source_named(name).folder)
        theirs, ours = (list(read(root / folder, Intake(strict=True))) for root in (DATA_ROOT, out))
        assert ours == theirs


def test_what_cannot_be_fetched_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "pandalm").mkdir()
    (tmp_path / "pandalm/LICENSE").write_text("mine")
    for words, message in (
        (["fetch=summeval"], r"^fetch=summeval: its ratings .* a pickle, .* to summeval/ratings.jsonl.gz"),
        (
            ["fetch=pandalm", f"mirror='{tmp_path}'"],
            r"fetch: pandalm/LICENSE: has SHA-256 \w{12}\.\.\., expected .*cut",
        ),
        (["fetch=autoj", f"mirror='{tmp_path}'"], r"fetch: .*/autoj/\S+: cannot be fetched .* mirror=<folder>"),
    ):
        with pytest.raises(ValueError, match=message):
            run_prepare(compose("prepare", [*words, f"out='{tmp_path / 'out'}'", "progress=false"]))
