"""Start the server of the page."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path

from starlette.types import ASGIApp

from crm import __version__
from crm.config import nearest
from crm.criteria.counting import MEASURES
from crm.criteria.pool import Criterion
from crm.data.public.banks import FOLDERS
from crm.io.installed import commit
from crm.judges.open import check_judge, open_judge
from crm.judges.sentence_reader import bundled_reader
from crm.leaderboard.bank.opening import open_bank, published_ranking
from crm.leaderboard.matrix import open_matrix
from crm.leaderboard.own_words import CriteriaReader, OwnWords
from crm.page.api import About, make_api
from crm.page.config import AppConfig
from crm.page.facts import Facts, facts_of
from crm.page.picks import Picking
from crm.page.ranker import Ranker
from crm.page.scorers import IndexScorer, WordsScorer
from crm.picking.criteria import SIMULATED as SIMULATED_POOL
from crm.picking.criteria import PoolEntry, read_pool
from crm.prepare.fetch import published as fetched
from crm.web import KnownHosts, bound, serve

log = logging.getLogger(__name__)
GRACE_S = 3
"""Seconds that requests have to end when the server is stopped."""
SIMULATED = "These models, questions and answers are simulated: the names stand for no real model."


def make_ranker(config: AppConfig) -> tuple[Ranker, str]:
    """The bank and its scores, counted or of a late head's index; and the judge's name.

    Raises ``ValueError`` for a judge that has to read every response anew for other criteria, and as their makers do.
    """
    if config.judge.name == "traits":
        matrix = open_matrix(open_bank(config.bank), config.bank.path)
        matrix.count(list(MEASURES), config.progress)
        return Ranker(WordsScorer(OwnWords(bundled_reader(), matrix))), "counting what your words ask for"
    if config.judge.name != "crm":
        raise _not_arithmetic(f"judge={config.judge.name}", "this judge")
    from crm.leaderboard.index import index_bank  # torch comes with it: counting is up seconds earlier
    from crm.model.folders import checkpoint_folder
    from crm.model.manifest import read_manifest

    check_judge(config)
    folder = checkpoint_folder(str(config.checkpoint))
    manifest = read_manifest(folder)
    if manifest["head"] != "late":
        raise _not_arithmetic(f"checkpoint={config.checkpoint}", f"head={manifest['head']}")
    bank = open_bank(config.bank)
    opened = open_judge(config)
    indexed = index_bank(opened.judge, bank, opened.predictions, progress=config.progress)
    assert indexed is not None, "a late head has vectors"
    own = {entry.name: Criterion(entry.name, entry.like, entry.opposite, entry.like) for entry in _pool(config)}
    name = f"{(folder.parent if folder.name == 'model' else folder).name}, head={opened.name}, {manifest['digest']}"
    return Ranker(IndexScorer(indexed, CriteriaReader(bundled_reader(), lambda *_: (name, "", ""), own))), name


def _pool(config: AppConfig) -> tuple[PoolEntry, ...]:
    """What people pick by: the file that settings name, or the bank's."""
    if config.pool is not None:
        return read_pool(Path(config.pool))
    return read_pool(SIMULATED_POOL if config.bank.name == "simulated" else None)


def _not_arithmetic(setting: str, why: str) -> ValueError:
    """Says which command ranks by this judge."""
    command = shlex.join(["python", "leaderboard.py", setting, 'criteria=["Prefers concise answers"]'])
    return ValueError(
        f"{setting}: {why} reads all responses again for each person, and the page serves only rankings that are "
        "arithmetic (judge=traits or head=late); rank for one person with your settings of bank and: "
        f"{command}"
    )


def make_app(ranker: Ranker, judge: str, config: AppConfig) -> ASGIApp:
    """The whole application: API, page, and the limits before both."""
    published = published_ranking(config.bank, ranker.bank.authors)
    facts = facts_of(config.facts, config.bank)
    if others := sorted(facts.keys() - set(models := ranker.bank.authors)):
        such = f"{others[0]!r}{nearest(others[0], models)}"
        log.warning("facts: %d of no model of bank %s, such as %s", len(others), ranker.bank.name, such)
    for name, display in published.display.items() if published else ():
        facts[name] = facts.get(name, Facts()).model_copy(update={"display": display})
    about = About(
        judge=judge,
        version=f"{__version__} {commit()}",
        facts=facts,
        published=published,
        licence=fetched(config.bank.name).get("licence", "") if config.bank.name in FOLDERS else "",
        simulated=SIMULATED if config.bank.name == "simulated" else "",
    )
    model = Path(str(config.checkpoint))
    cards = [path / "README.md" for path in (model / "model", model) if (path / "crm.json").is_file()]
    api = make_api(ranker, Picking(ranker, _pool(config)), about, next(filter(Path.is_file, cards), None))
    return KnownHosts(api, listening=config.host, hosts=config.hosts)


def run_app(config: AppConfig) -> None:
    """Serve until interrupted. Raises ``ValueError`` for an address that is taken, and as what it opens does."""
    listening = bound(config.host, config.port)
    ranker, judge = make_ranker(config)
    app = make_app(ranker, judge, config)
    log.info("bank %s, judge %s: http://%s:%d", ranker.bank.name, judge, config.host, config.port)
    serve(app, listening, grace_s=GRACE_S)
