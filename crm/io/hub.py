"""A dataset of a hub. In: its address, ``hf://owner/name`` or ``hf://owner/name@revision``. Out: a local folder of it.

Only data files are fetched, never code. What is cached is not fetched again; a revision that is a commit never changes.
"""

from __future__ import annotations

import re
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from crm.io.rows import SUFFIXES

PREFIX = "hf://"
FILES = [f"*{suffix}{end}" for suffix in SUFFIXES for end in ("", ".gz")]
TIMEOUT = 5.0
"""Seconds to wait for the hub to answer at all, before any data is read."""
_ADDRESS = re.compile(r"hf://(?:datasets/)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def dataset_folder(address: str) -> Path:
    """The folder, from the cache or downloaded into it. Raises ``ValueError`` in one sentence."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        raise ValueError(f"data.path={address}: expected hf://owner/name, or hf://owner/name@revision")
    name, revision = found[1], found[2]
    try:
        return Path(snapshot_download(name, repo_type="dataset", revision=revision, local_files_only=True))
    except (OSError, ValueError):
        commit = _ask_hub(address, name, revision)
    return Path(snapshot_download(name, repo_type="dataset", revision=commit, allow_patterns=FILES))


def _ask_hub(address: str, name: str, revision: str | None) -> str | None:
    """The commit behind the revision: one request without retries, so that an absent hub is known within seconds."""
    try:
        return HfApi().dataset_info(name, revision=revision, timeout=TIMEOUT).sha
    except GatedRepoError:
        raise ValueError(
            f"data.path={address}: its owner asks for terms; accept them there and `hf auth login`"
        ) from None
    except RevisionNotFoundError:
        raise ValueError(f"data.path={address}: no such revision; see the dataset's page") from None
    except RepositoryNotFoundError:
        raise ValueError(f"data.path={address}: the hub has no such dataset, or it is private") from None
    except Exception:  # which class it is depends on the HTTP library under this version of the hub's client
        raise ValueError(
            f"data.path={address}: not cached here, and the hub cannot be reached; give the folder of a copy"
        ) from None
