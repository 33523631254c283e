"""Published files by address and digest, from a server on this machine that counts what it is asked for."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crm.io.hub import Pins, fetch_pinned

CONTENT = {"a.json": b'[{"output": "one"}]', "inner/b.json": b"[]\n"}


class Server(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Pins]]:
    """The served folder, and pins of its files."""
    folder = tmp_path / "published"
    for name, content in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    monkeypatch.setattr("datasets.config.DOWNLOADED_DATASETS_PATH", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Server.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        yield (
            folder,
            {f"out/{name}": (f"{base}/{name}", hashlib.sha256(text).hexdigest()) for name, text in CONTENT.items()},
        )
        server.shutdown()


def held(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out / "out")): path.read_bytes() for path in (out / "out").rglob("*.json")}


def test_files_are_fetched_once_and_what_was_changed_again(tmp_path: Path, published: tuple[Path, Pins]) -> None:
    _, pins = published
    assert fetch_pinned(pins, tmp_path, progress=False) == 2
    assert held(tmp_path) == CONTENT
    asked = len(Server.asked)
    assert fetch_pinned(pins, tmp_path, progress=False) == 0
    (tmp_path / "out" / "a.json").write_bytes(b"flipped")
    assert fetch_pinned(pins, tmp_path, progress=False) == 1
    assert held(tmp_path) == CONTENT
    assert len(Server.asked) == asked, "the copy of the library is used"


def test_another_content_never_gets_the_name_and_is_not_kept(tmp_path: Path, published: tuple[Path, Pins]) -> None:
    folder, pins = published
    (folder / "inner" / "b.json").write_bytes(b"[1]\n")
    with pytest.raises(ValueError, match=r"fetch: out/inner/b.json: has SHA-256 \w{12}..., expected \w{12}..."):
        fetch_pinned(pins, tmp_path, progress=False)
    assert set(held(tmp_path)) == {"a.json"}
    (folder / "inner" / "b.json").write_bytes(CONTENT["inner/b.json"])
    assert fetch_pinned(pins, tmp_path, progress=False) == 1
    assert held(tmp_path) == CONTENT


def test_a_file_of_a_compressed_name_is_compressed_here(tmp_path: Path, published: tuple[Path, Pins]) -> None:
    _, pins = published
    packed = {f"{name}.gz": pin for name, pin in pins.items()}
    assert fetch_pinned(packed, tmp_path, progress=False) == 2
    unfolded = {name: gzip.decompress((tmp_path / "out" / f"{name}.gz").read_bytes()) for name in CONTENT}
    assert unfolded == CONTENT
    assert fetch_pinned(packed, tmp_path, progress=False) == 0, "the digest is of what is inside"
    (tmp_path / "out" / "a.json.gz").write_bytes((tmp_path / "out" / "a.json.gz").read_bytes()[:-9])
    assert fetch_pinned(packed, tmp_path, progress=False) == 1, "a file that was cut is fetched again"
    (tmp_path / "out").rename(tmp_path / "copy")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "copy").rename(tmp_path / "mirror" / "out")
    assert fetch_pinned(packed, tmp_path, str(tmp_path / "mirror"), progress=False) == 2


def test_a_folder_may_stand_for_the_addresses(tmp_path: Path, published: tuple[Path, Pins]) -> None:
    folder, pins = published
    folder.rename(tmp_path / "out")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "out").rename(tmp_path / "mirror" / "out")
    assert fetch_pinned(pins, tmp_path, str(tmp_path / "mirror"), progress=False) == 2
    assert held(tmp_path) == CONTENT and not Server.asked
    (tmp_path / "mirror" / "out" / "a.json").write_bytes(b"changed")
    (tmp_path / "out" / "a.json").unlink()
    with pytest.raises(ValueError, match=r"out/a.json: has SHA-256"):
        fetch_pinned(pins, tmp_path, str(tmp_path / "mirror"), progress=False)
    assert (tmp_path / "mirror" / "out" / "a.json").exists(), "a user's own file is left alone"


def test_what_cannot_be_had_is_one_sentence(tmp_path: Path, published: tuple[Path, Pins]) -> None:
    folder, pins = published
    (folder / "a.json").unlink()
    with pytest.raises(ValueError, match=r"fetch: http://127.0.0.1:\d+/a.json: cannot be had \(FileNotFoundError\)"):
        fetch_pinned(pins, tmp_path, progress=False)
    assert not (tmp_path / "out").exists()
