"""One self-contained ``report.html`` of sections with text, tables and pictures, which opens from disk.

Everything is escaped, styles are inline, pictures are data URIs, and a content security policy in the page forbids
scripts and the network.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from crm.io.files import replace_file
from crm.report.tables import cell_text


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text (split at blank lines), tables by caption, and PNG files by description."""

    heading: str
    text: str = ""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    images: Mapping[str, Path | str] = field(default_factory=dict)


def render_report(
    path: Path | str, *, title: str, sections: Sequence[Section], facts: Mapping[str, object], summary: str = ""
) -> Path:
    """Write the report and return its path.

    ``summary`` is the plain-language opening; ``facts`` (config, commit, seconds ...) are listed at the end.
    Raises ``OSError`` for an image that cannot be read.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters.update(paragraphs=_paragraphs, table=_table, picture=_picture)
    template = environment.get_template("report.html.j2")
    return replace_file(path, template.render(title=title, summary=summary, sections=sections, facts=facts))


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def _table(frame: pd.DataFrame) -> Markup:
    """An escaped HTML table; floats with three digits, missing cells as a dash."""
    html = frame.map(cell_text).to_html(index=False, border=0, justify="left", classes="data")
    return Markup(html)  # noqa: S704 - pandas escapes cells and column names, and the only classes are ours


def _picture(path: Path | str) -> str:
    """A PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode("ascii")
