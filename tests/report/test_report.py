"""The report holds what it was given, escaped, and asks nothing of the network."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from crm.report.report import Section, render_report

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = """<script>alert("1")</script>'"><img src=https://example.org/x onerror=y>{{ 7 * 7 }}"""


class Page(HTMLParser):
    """Tags with their attributes, and the text as a reader would see it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data.strip())


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "p.png"
    path.write_bytes(PNG)
    return path


def test_hostile_text_is_shown_and_never_markup(tmp_path: Path, picture: Path) -> None:
    table = pd.DataFrame({HOSTILE: [HOSTILE], "n": [1]})
    section = Section(HOSTILE, HOSTILE, {HOSTILE: table}, {HOSTILE: picture})
    path = render_report(
        tmp_path / "r.html", title=HOSTILE, summary=HOSTILE, sections=[section], facts={HOSTILE: HOSTILE}
    )
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    # title, h1, summary, h2, text, figcaption twice, header, cell, dt, dd
    assert page.text.count(HOSTILE) == 11
    assert not [tag for tag, _ in page.tags if tag == "script"]
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == [HOSTILE]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_nothing_is_loaded_from_outside(tmp_path: Path, picture: Path) -> None:
    section = Section("Suites", "One.\n\nTwo.", {"n = 1": pd.DataFrame({"a": [1]})}, {"curve": picture})
    path = render_report(tmp_path / "r.html", title="T", sections=[section], facts={"commit": "abc"})
    html = path.read_text(encoding="utf-8")
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    sources = [attributes["src"] for _, attributes in page.tags if "src" in attributes]
    assert [base64.b64decode((source or "").removeprefix("data:image/png;base64,")) for source in sources] == [PNG]
    policy = next(a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv"))
    assert (policy or "").startswith("default-src 'none'")
    assert "prefers-color-scheme: dark" in html
