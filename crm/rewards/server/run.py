"""Start the server. In: a checked `ServeConfig`. Out: rewards over HTTP, until it is stopped."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys

import torch
import uvicorn

from crm import __version__
from crm.io.installed import commit
from crm.judges import CrmJudge, check_judge, open_judge
from crm.model.backbone import show_loading
from crm.rewards.scoring import Rewards
from crm.rewards.server.app import make_app
from crm.rewards.server.config import ServeConfig
from crm.web import connections

log = logging.getLogger(__name__)
TEXTS = 4096
"""Texts whose token ids are kept: prompts and criteria come again, responses hardly."""
SWITCH_S = 0.0005
"""Seconds after which the judge's thread lets the one in that answers requests, which has little to do and waits each
time it has spoken to the network; Python's own 0.005 make a second of it with 50 clients."""
GRACE_S = 30
"""Seconds that requests have to end when the server is stopped."""


def run_server(config: ServeConfig) -> None:
    """Serve until interrupted. Raises ``ValueError`` for a judge that cannot be had and an address that is taken."""
    sys.setswitchinterval(SWITCH_S)
    listening = _bound(config.host, config.port)
    if config.threads:
        torch.set_num_threads(config.threads)
    show_loading(config.progress)
    check_judge(config)
    opened = open_judge(config)
    if isinstance(opened.judge, CrmJudge):
        opened.judge.encoder.remember(TEXTS)
    name = config.name or config.checkpoint or opened.name
    key = os.environ.get(config.key_variable) or None
    app = make_app(
        Rewards(opened.judge),
        name=name,
        version=f"{__version__} {commit()}",
        queue_rows=config.queue_rows,
        batch_rows=config.batch_rows,
        key=key,
    )
    wanted = "a key is wanted" if key else f"no key is wanted; export {config.key_variable} to ask for one"
    log.info("%s, digest %s: http://%s:%d; %s", name, opened.judge.digest, config.host, config.port, wanted)
    gc.freeze()  # what was loaded stays; to look through it takes a second, in which nobody is answered
    uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=GRACE_S, **connections.options())).run([listening])


def _bound(host: str, port: int) -> socket.socket:
    """A socket at the address, before a model is loaded for nothing."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ValueError(f"host={host} port={port}: cannot be used ({error.strerror or error}); take another") from None
    return bound
