"""Start the server. In: a checked `ServeConfig`. Out: rewards over HTTP, until it is stopped."""

from __future__ import annotations

import gc
import logging
import os
import sys

import torch

from crm import __version__
from crm.io.installed import commit
from crm.judges import check_judge, open_judge
from crm.model.backbone import show_loading
from crm.rewards.scoring import Rewards
from crm.rewards.server.app import make_app
from crm.rewards.server.config import ServeConfig
from crm.web.listening import bound, serve

log = logging.getLogger(__name__)
SWITCH_S = 0.0005
"""Seconds after which the judge's thread lets the one in that answers requests, which has little to do and waits each
time it has spoken to the network; Python's own 0.005 make a second of it with 50 clients."""
GRACE_S = 30
"""Seconds that requests have to end when the server is stopped."""


def run_server(config: ServeConfig) -> None:
    """Serve until interrupted. Raises ``ValueError`` for a judge that cannot be had and an address that is taken."""
    sys.setswitchinterval(SWITCH_S)
    listening = bound(config.host, config.port)
    if config.threads:
        torch.set_num_threads(config.threads)
    show_loading(config.progress)
    check_judge(config)
    opened = open_judge(config)
    name = config.name or config.checkpoint or opened.name
    key = os.environ.get(config.key_variable) or None
    app = make_app(
        Rewards(opened.judge),
        name=name,
        version=f"{__version__} {commit()}",
        queue_rows=config.queue_rows,
        batch_rows=config.batch_rows,
        key=key,
        listening=config.host,
        hosts=config.hosts,
    )
    wanted = "a key is wanted" if key else f"no key is wanted; export {config.key_variable} to ask for one"
    log.info("%s, digest %s: http://%s:%d; %s", name, opened.judge.digest, config.host, config.port, wanted)
    gc.freeze()  # what was loaded stays; to look through it takes a second, in which nobody is answered
    serve(app, listening, grace_s=GRACE_S)
