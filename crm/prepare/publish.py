"""The licence of a dataset, and its upload to the hub."""

from __future__ import annotations

import logging
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from crm.data.catalogue import source_named

log = logging.getLogger(__name__)
OWN_LICENSE = "Apache-2.0"
"""Of this project, and so of the texts of its simulation."""


def license_of(source: str, given: str | None) -> str | None:
    """The user's ``given`` licence, else the source's own, if any."""
    return given or (OWN_LICENSE if source == "simulation" else source_named(source).license)


def check_upload(name: str, source: str, license: str | None) -> None:
    """Raise ``ValueError`` for texts without a licence, and for a name that the hub does not allow."""
    if license_of(source, license) is None:
        raise ValueError(
            f"push_to: {source} has no licence, so its texts may not be passed on; if you may, say under which "
            "licence with license=<name>"
        )
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(f"push_to={name!r}: {_first_line(error)}; give a name such as me/votes") from None


def upload(folder: Path, name: str, *, private: bool, ignored: list[str], api: HfApi | None = None) -> str:
    """Upload the folder, except files that match ``ignored`` or begin with a dot; returns the address."""
    api = api or HfApi()
    ignored = [*ignored, ".*", "*/.*"]
    try:
        api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        done = api.upload_folder(repo_id=name, repo_type="dataset", folder_path=folder, ignore_patterns=ignored)
    except Exception as error:  # the client's own, and those of the HTTP library under it, which is not always the same
        raise ValueError(
            f"push_to={name}: {_first_line(error)}; the dataset is ready in {folder}: log in with `hf auth login`, "
            "check the name and the network, and run again"
        ) from None
    log.info("uploaded: %s", done.commit_url)
    return str(done.commit_url)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
