"""A finished dataset to the hub. In: its folder and a name there. Out: the files that users load, uploaded."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from crm.prepare.licence import check_may_be_shared

log = logging.getLogger(__name__)
NOT_UPLOADED = ["stages/*", ".*"]
"""What the stages keep for themselves: raw rows, replies of a model."""


def upload(
    folder: Path, name: str, source: str, license: str | None, *, private: bool, api: HfApi | None = None
) -> str:
    """Upload the folder without its ``stages`` and return the address. Raises ``ValueError`` in one sentence."""
    check_may_be_shared(source, license)
    api = api or HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        done = api.upload_folder(repo_id=name, repo_type="dataset", folder_path=folder, ignore_patterns=NOT_UPLOADED)
    except (HfHubHTTPError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"push_to={name}: {first}; log in with `hf auth login`, check the name, and run again"
        ) from None
    log.info("uploaded: %s", done.commit_url)
    return str(done.commit_url)
