"""Repositories of a hub as local folders, and its datasets (``hf://owner/name[/config][:split][@revision]``).

Only data files and the card are fetched, never code. What is cached in full is not fetched again. Without configuration
and split the data files are read as they are; with one of them the `datasets` library finds what the card says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from crm.io.files import drafted
from crm.io.rows import PACKED, SUFFIXES

PREFIX = "hf://"
FILES = ["README.md", *(f"*{suffix}{end}" for suffix in SUFFIXES for end in ("", PACKED))]
TIMEOUT = 5.0
"""Seconds to wait for the hub to answer at all, before any data is read."""
_TROUBLES = {
    "GatedRepoError": "its owner asks for terms; accept them on its page and `hf auth login`",
    "RevisionNotFoundError": "{name} has no revision {revision}; see its page on the hub",
    "RepositoryNotFoundError": "the hub has no such {kind}, or it is private; {instead}",
}
"""By class of `huggingface_hub.errors`."""
_ADDRESS = re.compile(r"hf://(?:datasets/)?([\w.-]+/[\w.-]+)(?:/([\w.-]+))?(?::([\w.-]+))?(?:@([\w./-]+))?")


def dataset_folder(address: str) -> Path:
    """The folder of the data files, or the file of one split's rows. Raises ``ValueError`` in one sentence."""
    found = _ADDRESS.fullmatch(address)
    if not found:
        raise ValueError(f"data.path={address}: expected hf://owner/name, then /config, :split or @revision, if any")
    from huggingface_hub import snapshot_download  # a fifth of a second

    name, configuration, split, revision = found.groups()
    try:
        asked = {"repo_type": "dataset", "revision": revision, "allow_patterns": FILES}
        folder = Path(snapshot_download(name, **asked, local_files_only=True))  # type: ignore[arg-type]
        # The client checks the folder by this listing, and takes one without it, as of a single file, for whole.
        whole = (folder.parents[1] / "trees" / f"{folder.name}.json").is_file()
    except (OSError, ValueError):
        whole = False
    if not whole:
        folder = download(f"data.path={address}", name, revision, FILES, "give the folder of a copy", "dataset")
    return folder if configuration is split is None else _rows_of(address, folder, configuration, split or "train")


def _rows_of(address: str, folder: Path, configuration: str | None, split: str) -> Path:
    """The rows of a split as JSON Lines, made once: what reads files then counts and checks them line by line."""
    import datasets  # half a second, which nobody else should wait for

    key = hashlib.sha256(f"{folder.resolve()}|{configuration}|{split}".encode()).hexdigest()[:16]
    path = Path(datasets.config.HF_DATASETS_CACHE) / "crm" / key / f"{split}.jsonl"
    if path.exists():
        return path
    try:
        rows = datasets.load_dataset(str(folder), configuration, split=split)
    except Exception as error:  # the library's own, and those of its readers of files
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ValueError(f"data.path={address}: {why:.300}; see the dataset's card for its names") from None
    with drafted(path) as draft:
        rows.to_json(draft, force_ascii=False)
    return path


def download(
    setting: str, name: str, revision: str | None, files: Sequence[str], instead: str, kind: str = "model"
) -> Path:
    """The folder with ``files`` (patterns) of a repository, under its revision in the cache.

    Raises ``ValueError``, which begins with ``setting``, within seconds where the hub does not answer or has none, and
    says what to give ``instead``.
    """
    from huggingface_hub import HfApi, errors, snapshot_download

    try:  # one request without retries: a download retries for half a minute
        HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=TIMEOUT)
        return Path(snapshot_download(name, repo_type=kind, revision=revision, allow_patterns=list(files)))
    except Exception as error:  # which class it is depends on the HTTP library under this version of the hub's client
        absent = "not cached here, and the hub cannot be reached; {instead}"
        why = next((why for known, why in _TROUBLES.items() if isinstance(error, getattr(errors, known))), absent)
        why = why.format(name=name, revision=revision, kind=kind, instead=instead)
        raise ValueError(f"{setting}: {why}") from None
