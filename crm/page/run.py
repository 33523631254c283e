"""Start the server. In: a checked `AppConfig`. Out: a page and an HTTP API, until it is stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

import gradio as gr
import uvicorn
from fastapi import FastAPI

from crm import __version__
from crm.io.chat.config import make_endpoint
from crm.io.installed import commit
from crm.judges import CrmJudge, check_judge, open_judge
from crm.leaderboard import open_bank
from crm.leaderboard.bank_judge import index_bank, judge_of_bank
from crm.model.backbone import show_loading
from crm.page import server
from crm.page.additions import Additions
from crm.page.api import make_api
from crm.page.config import AppConfig
from crm.page.gate import Gate
from crm.page.guard import Guard
from crm.page.index_ranker import AnyRanker, IndexRanker
from crm.page.page import make_page
from crm.page.page_actions import Actions
from crm.page.ranker import Ranker
from crm.page.score_store import ScoreStore
from crm.page.scoring_queue import ScoringQueue
from crm.page.uploads import MAX_FILE, add_uploads

log = logging.getLogger(__name__)
EXAMPLES = (
    "Prefers detailed answers",
    "Prefers concise answers",
    "Prefers bulleted lists",
    "Prefers formal language",
    "Prefers evidence and data",
)
SCORES = "scores.sqlite"


def make_ranker(config: AppConfig) -> tuple[AnyRanker, str]:
    """The bank with its index, or with the judge behind a queue; and the judge's name.

    Raises ``ValueError`` as their makers do.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    show_loading(config.progress)
    check_judge(config)
    bank = open_bank(config.bank)
    opened = open_judge(config)
    folder = Path(config.predictions or opened.predictions)
    indexed = index_bank(opened.judge, bank, folder, progress=config.progress)
    if indexed is not None:
        return IndexRanker(indexed), opened.name
    store = ScoreStore(folder / SCORES)
    log.info("%s: %d scores of earlier are there", store.path, len(store))
    judge = opened.judge
    if isinstance(judge, CrmJudge):
        judge = judge_of_bank(judge, bank, folder, states_gb=config.bank_states_gb, by_query=True)
    return Ranker(bank, ScoringQueue(judge, store, places=config.places)), opened.name


def make_additions(ranker: AnyRanker, config: AppConfig) -> Additions | None:
    """What people may add to, with what was added before; ``None`` where they may not."""
    if not config.additions:
        return None
    endpoint = make_endpoint(config.endpoint, "endpoint") if config.endpoint.base_url else None
    queries = hashlib.sha256(json.dumps([query.id for query in ranker.bank.queries]).encode()).hexdigest()[:16]
    additions = Additions(ranker, ranker.folder / f"added-{queries}", endpoint)
    if names := additions.restore():
        log.info("added before: %s", ", ".join(names))
    return additions


def make_app(ranker: AnyRanker, judge: str, config: AppConfig, additions: Additions | None = None) -> Any:
    """The whole application: API, page, and the guard before both; without ``additions`` nobody can add a model."""
    version = f"{__version__} {commit()}"
    api = make_api(ranker, judge=judge, version=version)
    add_uploads(api, additions)
    bank = ranker.bank
    about = (
        f"Bank {bank.name}: {len(bank.queries)} queries on {len(bank.topics)} topics, {len(bank.authors)} models. "
        f"Judge: {judge}. Version {version}."
    )
    page = make_page(Actions(ranker), list(EXAMPLES), additions, about)
    page.queue(default_concurrency_limit=None, max_size=4 * config.places, api_open=False)
    mounted = mount(api, page)
    return Guard(Gate(mounted), per_minute=config.requests_per_minute, max_upload=MAX_FILE)


def mount(api: FastAPI, page: gr.Blocks) -> FastAPI:
    """``api`` with the page below it. What goes wrong inside Gradio is told to nobody: its words name files."""
    mounted: FastAPI = gr.mount_gradio_app(
        api, page, path="/", allowed_paths=[], footer_links=[], ssr_mode=False, run_history=False, show_error=False
    )
    page.has_launched = True  # or Gradio checks no path that people send (`processing_utils._check_allowed`)
    return mounted


def run_app(config: AppConfig) -> None:
    """Serve until interrupted."""
    ranker, judge = make_ranker(config)
    app = make_app(ranker, judge, config, make_additions(ranker, config))
    log.info("bank %s, judge %s: http://%s:%d", ranker.bank.name, judge, config.host, config.port)
    logging.getLogger("uvicorn.error").addFilter(_not_cut_off)
    uvicorn.run(app, host=config.host, port=config.port, timeout_graceful_shutdown=3, **server.options())


def _not_cut_off(record: logging.LogRecord) -> bool:
    """A page that is open when the server ends is cut off, which is nothing to report with a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
