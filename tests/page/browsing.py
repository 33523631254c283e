"""What browser tests share: a server of the whole application, and what a person does and sees."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from crm.config import compose
from crm.judges.controls import LengthJudge
from crm.judges.judge import Asked, Reading
from crm.judges.oracle import OracleJudge
from crm.leaderboard.bank.bank import Bank
from crm.page import server as serving
from crm.page.index_ranker import AnyRanker
from crm.page.profile import DISLIKE
from crm.page.ranker import Ranker
from crm.page.run import make_additions, make_app
from crm.page.score_store import ScoreStore
from crm.page.scoring_queue import ScoringQueue
from crm.schema import GENERIC_CRITERION

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = Path(__file__).parents[2] / "results" / "screenshots"
ROWS = """table => [...table.querySelectorAll('[role=row]')].map(
    row => [...row.querySelectorAll('[role=gridcell]')].map(cell => cell.innerText.trim()))"""
"""What a screen reader is told of a table; only rows on the screen are there."""


class KnowingJudge(OracleJudge):
    """The truth of the simulation; longer wins where that is silent: for nobody in particular, and on dislikes."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in comparisons:
            silent = any(line == GENERIC_CRITERION or line.startswith(DISLIKE) for line in row.criteria)
            yield from (LengthJudge() if silent else super()).read([(row, order)])


@contextmanager
def serve(bank: Bank, judge: Any, folder: Path, *words: str) -> Iterator[str]:
    """The whole application on a port of its own; ``words`` are overrides of ``app.py``."""
    queue = ScoringQueue(judge, ScoreStore(folder / "scores.sqlite"), places=20)
    try:
        with serve_ranker(Ranker(bank, queue), folder, *words) as address:
            yield address
    finally:
        queue.close()


@contextmanager
def serve_ranker(ranker: AnyRanker, folder: Path, *words: str) -> Iterator[str]:
    """As `serve`, of a ranker that is there."""
    config = compose("app", ["checkpoint=none", *words], folder)
    app = make_app(ranker, "oracle", config, make_additions(ranker, config))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, timeout_graceful_shutdown=1, **serving.options()))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)


def shown(page: Any, name: str) -> str:
    """The text of a field."""
    value: str = page.locator(f"#{name} textarea, #{name} input").first.input_value()
    return value


def until(page: Any, name: str, start: str, ending: str = "", seconds: float = 30) -> str:
    """Wait until a field begins and ends with a text; the field."""
    end = time.monotonic() + seconds
    while not ((text := shown(page, name)).startswith(start) and text.endswith(ending)):
        assert time.monotonic() < end, f"{name} still says {text!r}"
        page.wait_for_timeout(50)
    return text


def eventually(page: Any, condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        page.wait_for_timeout(100)


def cells(page: Any, name: str) -> list[list[str]]:
    """The rows of a table as a person reads them, once they have stood still for a moment."""
    seen: list[list[list[str]]] = []
    while len(seen) < 3 or seen[-3:] != 3 * seen[-1:]:
        assert len(seen) < 60, f"{name} does not come to rest"
        rows: list[list[str]] = page.locator(f"#{name}").evaluate(ROWS)
        seen.append([row for row in rows if any(row)])
        page.wait_for_timeout(200)
    return seen[-1]


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def shot(page: Any, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def rank(page: Any, *criteria: str) -> None:
    tab(page, "My leaderboard")
    page.locator("#criteria textarea").fill("\n".join(criteria))
    page.locator("#rank").click()
    until(page, "link", "", ending=urlencode([("criteria", line) for line in criteria]))
    until(page, "my-status", "Complete")
    page.wait_for_timeout(300)
