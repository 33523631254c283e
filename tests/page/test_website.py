"""The page's files: all that the page names is served, asked for again each time, and nothing else is reachable."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
from fastapi.testclient import TestClient

from crm.page.api import make_api
from crm.page.guard import Guard
from crm.page.picks import Picking
from crm.page.website import FILES, add_website
from crm.picking.pool import read_pool


@pytest.fixture
def http(make_ranker: Any) -> TestClient:
    ranker = make_ranker()
    api = make_api(ranker, Picking(ranker, read_pool()), judge="words", version="1")
    add_website(api)
    return TestClient(Guard(api, per_minute=1000))


def test_whatever_a_file_names_is_served(http: TestClient) -> None:
    named = set(re.findall(r'(?:src|href)="(static/[^"]+)"', http.get("/").text))
    for file in FILES.glob("*.js"):
        named |= {f"static/{name}" for name in re.findall(r"'\./(\w+\.js)'", file.read_text("utf-8"))}
    assert {"static/main.js", "static/style.css", "static/pick.js"} <= named
    for name in named:
        answer = http.get(f"/{name}")
        assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-cache", name
        again = http.get(f"/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304 and not again.content


def test_no_file_holds_a_script_or_a_style_of_its_own(http: TestClient) -> None:
    """The content policy would refuse it."""
    page = http.get("/")
    assert "trusted-types 'none'" in page.headers["Content-Security-Policy"]
    for file in FILES.glob("*.html"):
        text = file.read_text("utf-8")
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", text), file.name
    for file in FILES.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", file.read_text("utf-8")
        )


@pytest.mark.parametrize("path", ["/static/", "/static/../api.py", "/static/%2e%2e/api.py", "/static/nothing.js"])
def test_nothing_else_is_served(http: TestClient, path: str) -> None:
    assert http.get(path).status_code == 404


@pytest.mark.slow
def test_the_types_of_the_modules_hold() -> None:
    """As their comments say them, by the TypeScript compiler."""
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("no tsc on this machine (npm install --global typescript)")
    libraries = "es2022,dom,dom.iterable,dom.asynciterable"
    options = ["--noEmit", "--allowJs", "--checkJs", "--target", "es2022", "--module", "es2022", "--lib", libraries]
    files = [str(file) for file in sorted(FILES.glob("*.js"))]
    command = [tsc, *options, "--moduleResolution", "bundler", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
