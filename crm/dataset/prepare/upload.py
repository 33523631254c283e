"""A finished dataset to the hub. In: its folder and a name there. Out: the files that users load, uploaded."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from crm.dataset.prepare.licence import check_may_be_shared

log = logging.getLogger(__name__)
NOT_UPLOADED = ["stages/*", ".*", "*/.*"]
"""What the stages keep for themselves (raw rows, replies of a model), and drafts that a killed run left behind."""


def check_upload(name: str, source: str, license: str | None) -> None:
    """Raise ``ValueError`` for what would be refused in the end: texts without a licence, no name of a dataset."""
    check_may_be_shared(source, license)
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(f"push_to={name!r}: {_first_line(error)}; give a name such as me/votes") from None


def upload(
    folder: Path, name: str, source: str, license: str | None, *, private: bool, api: HfApi | None = None
) -> str:
    """Upload the folder without its ``stages`` and return the address. Raises ``ValueError`` in one sentence."""
    check_upload(name, source, license)
    api = api or HfApi()
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        done = api.upload_folder(repo_id=name, repo_type="dataset", folder_path=folder, ignore_patterns=NOT_UPLOADED)
    except Exception as error:  # the client's own, and those of the HTTP library under it, which is not always the same
        raise ValueError(
            f"push_to={name}: {_first_line(error)}; the dataset is ready in {folder}: log in with `hf auth login`, "
            "check the name and the network, and run again"
        ) from None
    log.info("uploaded: %s", done.commit_url)
    return str(done.commit_url)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
