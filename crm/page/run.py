"""Start the server. In: a checked `AppConfig`. Out: a page and an HTTP API, until it is stopped."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import Any

import torch

from crm import __version__
from crm.io.chat.config import make_endpoint
from crm.io.installed import commit
from crm.judges import CrmJudge, check_judge, open_judge
from crm.leaderboard import open_bank
from crm.leaderboard.bank_judge import index_bank, judge_of_bank
from crm.model.backbone import show_loading
from crm.page.additions import Additions
from crm.page.api import make_api
from crm.page.config import AppConfig
from crm.page.facts import facts_of
from crm.page.guard import Guard
from crm.page.index_ranker import AnyRanker, IndexRanker
from crm.page.picks import Picking
from crm.page.ranker import Ranker
from crm.page.score_store import ScoreStore
from crm.page.scoring_queue import ScoringQueue
from crm.page.uploads import MAX_FILE, add_uploads
from crm.page.website import add_website
from crm.picking.pool import SIMULATED as SIMULATED_POOL
from crm.picking.pool import PoolEntry, read_pool
from crm.web.hosts import KnownHosts
from crm.web.listening import bound, serve

log = logging.getLogger(__name__)
SCORES = "scores.sqlite"
TEXTS = 4096
"""Texts whose token ids are kept where a bank has been read: what people write hardly comes again."""
GRACE_S = 3
"""Seconds that requests have to end when the server is stopped."""
SIMULATED = "These models, questions and answers are simulated: the names stand for no real model."
BIBTEX = """@article{jia2025usercentric,
  title={User-centric Subjective Leaderboard by Customizable Reward Modeling},
  author={Jia, Qi and Song, Xiujie and Zhang, Zicheng and Guo, Yijin and Zhang, Kaiwei and Chen, Zijian and
    Zhai, Guangtao},
  journal={arXiv preprint arXiv:2508.09463},
  year={2025}
}"""


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
        assert isinstance(opened.judge, CrmJudge)
        opened.judge.encoder.remember(TEXTS)
        return IndexRanker(indexed), opened.name
    store = ScoreStore(folder / SCORES)
    log.info("%s: %d scores of earlier are there", store.path, len(store))
    judge = opened.judge
    if isinstance(judge, CrmJudge):
        judge = judge_of_bank(judge, bank, folder)
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
    picking = Picking(ranker, _pool(config)) if isinstance(ranker, IndexRanker) else None
    api = make_api(ranker, judge=judge, version=version, about=about(config, additions), picking=picking)
    add_uploads(api, additions)
    add_website(api)
    known = KnownHosts(api, listening=config.host, hosts=config.hosts)
    return Guard(known, per_minute=config.requests_per_minute, max_upload=MAX_FILE)


def _pool(config: AppConfig) -> tuple[PoolEntry, ...]:
    """Criteria to pick by: those that settings name, or what comes along for such a bank."""
    if config.pool is not None:
        return read_pool(Path(config.pool))
    return read_pool(SIMULATED_POOL if config.bank.name == "simulated" else None)


def about(config: AppConfig, additions: Additions | None) -> dict[str, Any]:
    """What the page says of this server, beside its bank."""
    return {
        "facts": facts_of(config.facts, config.bank),
        "simulated": SIMULATED if config.bank.name == "simulated" else "",
        "additions": additions is not None,
        "endpoint": additions.endpoint.model if additions and additions.endpoint else None,
        "bibtex": BIBTEX,
    }


def run_app(config: AppConfig) -> None:
    """Serve until interrupted. Raises ``ValueError`` for an address that is taken, and as what it opens does."""
    listening = bound(config.host, config.port)
    ranker, judge = make_ranker(config)
    app = make_app(ranker, judge, config, make_additions(ranker, config))
    if isinstance(ranker, IndexRanker):
        usual = ["x " * words for words in range(1, 7)]  # the first people's lines find their random letters read
        threading.Thread(target=ranker.now.reaction.prepare, args=(usual,), daemon=True).start()
    log.info("bank %s, judge %s: http://%s:%d", ranker.bank.name, judge, config.host, config.port)
    logging.getLogger("uvicorn.error").addFilter(_not_cut_off)
    serve(app, listening, grace_s=GRACE_S, root_path=config.root_path.rstrip("/"), proxy=config.proxy)


def _not_cut_off(record: logging.LogRecord) -> bool:
    """A page that is open when the server ends is cut off, which is nothing to report with a traceback."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
