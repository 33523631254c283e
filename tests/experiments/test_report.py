"""The HTML report shows hostile text as text and loads nothing from outside."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

from experiments.report import Section, render_report

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


def test_hostile_text_is_shown_and_nothing_is_loaded_from_outside(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PNG)
    section = Section(HOSTILE, HOSTILE, {HOSTILE: pd.DataFrame({HOSTILE: [HOSTILE], "n": [1]})})
    pictured = Section("Suites", images={HOSTILE: tmp_path / "p.png"})
    path = render_report(
        tmp_path / "r.html", title=HOSTILE, summary=HOSTILE, sections=[section, pictured], facts={HOSTILE: HOSTILE}
    )
    page = Page(path.read_text(encoding="utf-8"))
    # title, h1, summary, h2, text, figcaption twice, header, cell, dt, dd
    assert page.text.count(HOSTILE) == 11
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    (image,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert image["alt"] == HOSTILE
    assert base64.b64decode((image["src"] or "").removeprefix("data:image/png;base64,")) == PNG
    policy = next(a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv"))
    assert (policy or "").startswith("default-src 'none'")
