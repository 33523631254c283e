"""Prepare a dataset. In: a checked `PrepareConfig`. Out: a dataset folder; every stage made once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from crm.dataset.prepare.config import STAGES, PrepareConfig
from crm.dataset.prepare.criteria import plan
from crm.dataset.prepare.preparation import Preparation, votes_of
from crm.dataset.prepare.references import check_sets, reference_folders
from crm.dataset.prepare.stages import check_current, run_stage
from crm.dataset.prepare.upload import check_upload, upload
from crm.dataset.prepare.workspace import Workspace, make_place
from crm.io.fetch import fetch
from crm.votes.public.banks import FOLDERS as BANKS

log = logging.getLogger(__name__)


def run_prepare(config: PrepareConfig) -> Path:
    """Run the wanted stages in their order, those that are fresh not again; the folder of the dataset.

    With ``fetch`` bring a public set's files instead; the folder they are in.
    """
    if config.fetch.name is not None:
        return _fetched(config)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every request
    space = _checked_place(config)
    with _alone_in(space):
        _run_stages(Preparation(config, space), config)
    if config.dry_run:
        return space.root
    if config.push_to:
        upload(space.root, config.push_to, config.data.name, config.license, private=config.private)
    log.info("dataset: %s", space.root)
    return space.root


def _fetched(config: PrepareConfig) -> Path:
    out, name = Path(str(config.out)), config.fetch.name
    fetch(config.fetch, out, config.progress)
    kind = "bank" if name in BANKS else "data"
    log.info("use it as %s=%s %s.root=%s", kind, name, kind, out)
    return out


def _run_stages(preparation: Preparation, config: PrepareConfig) -> None:
    """The wanted stages; those before the last of them that are not wanted must be what they would make."""
    folder = preparation.space.stages
    wanted = [name for name in STAGES[:1] if config.dry_run] or [name for name in STAGES if name in config.stages]
    for name in STAGES[: STAGES.index(wanted[-1]) + 1] if wanted else ():
        if name not in wanted:
            check_current(preparation.stage(name), folder)
            continue
        record, _ = run_stage(preparation.stage(name), folder)
        if record.failed:
            log.warning("%s: %d requests failed; run the same command again to ask only those", name, record.failed)
        if name == "suites" and not any(record.counts.values()):
            log.warning("suites: all are empty: no vote that is held out has criteria and a winner; bring more votes")
    if config.dry_run:
        _tell_cost(preparation, config)


def _tell_cost(preparation: Preparation, config: PrepareConfig) -> None:
    """Say what the stages with a language model would cost."""
    if preparation.asker is None:
        log.info("dry run: annotator=offline asks nobody; 0 calls")
        return
    for name, cost in plan(preparation.space, preparation.asker, filtering=config.annotator.filter).items():
        log.info(
            "dry run: %s: %d calls (%d more are answered already), about %d prompt tokens and at most %d reply"
            " tokens; retries, repairs and names of topics come on top",
            name,
            cost.calls,
            cost.cached,
            cost.prompt_tokens,
            cost.max_completion_tokens,
        )


@contextmanager
def _alone_in(space: Workspace) -> Iterator[None]:
    """Nobody else writes into the folder meanwhile; the lock ends with its process, however that ends."""
    try:
        with FileLock(space.stages / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(
            f"out={str(space.root)!r}: another run is at work there; wait, or name another folder"
        ) from None


def _checked_place(config: PrepareConfig) -> Workspace:
    """The folder to write into. Raises ``ValueError`` now for what would only be found after hours of stages."""
    if config.push_to:
        check_upload(config.push_to, config.data.name, config.license)
    check_sets(config.split.drop_leaked, reference_folders(config.data.root, config.banks, config.data.name))
    return make_place(Path(str(config.out)), votes_of(config.data))
