"""The sources of preferences, by the name that ``data=`` takes.

Another package adds one by an entry point of the group ``crm.sources`` that names a `Source`; what a set of this
package needs besides its line here: docs/extending.md. ``license`` is as the source gives it; a set without one may be
measured on, not passed on.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from crm.data import own, table
from crm.data.fields import Read
from crm.data.public import constructed
from crm.data.splits import Splits
from crm.io.hub import PREFIX, dataset_folder
from crm.io.installed import check_known, plugin
from crm.io.rows import PACKED, data_files, is_data_file
from crm.schema import Preference

SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
"""What the `datasets` library calls the parts of a folder, by words in the names of files."""
PART = re.compile(rf"(?:^|[-_./])([\w.]+(?=-\d{{5}}-of-\d{{5}})|(?:{'|'.join(SPLITS)})(?=[-_./]))", re.IGNORECASE)
"""The part of a data set that a file's name says it is; a hub's ``<split>-00000-of-00001`` has any name."""


@dataclass(frozen=True)
class Source:
    """``read`` takes a file or folder. ``folder`` under the root of public sets; ``None`` for a file of one's own.

    ``evaluation_only`` sets are one suite ``D`` as a whole: too small, or published to be measured on.
    """

    about: str
    read: Read
    folder: str | None = None
    license: str | None = None
    evaluation_only: bool = False
    suite_of: Callable[[Preference], str] | None = None
    """The suite that a held-out record belongs to, such as ``D``; where None all are in ``D``."""
    splits: Callable[..., Splits] | None = None
    """Of a source with a split of its own: takes the path and an `Intake`, and as keywords the settings ``seed``,
    ``train``, ``validation``, ``suite`` and ``max_words`` of the data group."""
    files: Path | None = None
    """List of the files that ``prepare.py fetch=<name>`` gets, such as `files.yaml` beside the public sets."""


OWN: dict[str, Source] = {
    "records": Source("preferences in this project's own fields", own.records),
    "train_rows": Source("the published training rows", own.train_rows),
    "eval_rows": Source("the published evaluation rows", own.eval_rows, evaluation_only=True),
    "arena": Source("LMArena's public votes", own.arena),
    "trl": Source("chosen and rejected responses, as TRL's trainers take them", table.trl),
    "table": Source("a table of one's own with named columns", partial(table.read, columns={}, winners={})),
}
# fmt: off
PUBLIC: dict[str, Source] = {
    "dsp": Source("a query answered for four kinds of reader", constructed.dsp, "dsp", "CC-BY-NC-4.0",
        splits=constructed.load_dsp),
    "concise_verbose": Source("a model asked to be concise, left alone, asked to be verbose",
        constructed.concise_verbose, "alpacaeval_concise_verbose", "CC-BY-NC-4.0",
        splits=constructed.load_concise_verbose),
}
# fmt: on
SOURCES: dict[str, Source] = OWN | PUBLIC
MADE = ("simulation", "dataset", "mixture")
"""Names of data that are no `Source`: simulated, prepared, or several sources as one."""


def source_named(name: str) -> Source:
    """A source of this project or of an installed package. Raises ``ValueError`` for an unknown one."""
    check_known("data.name", name, [*MADE, *SOURCES], "sources")
    found: Source = SOURCES.get(name) or plugin("sources", name)
    return found


def location(name: str, *, root: str, path: str | None) -> Path:
    """Where a source's data are. Raises ``ValueError`` for an unknown name and for data that are not there."""
    source = source_named(name)
    if source.folder is not None:
        folder = Path(root) / source.folder
        if not folder.is_dir():
            how = f"run `crm-prepare fetch={name} out={root}`, or set data.root to one that has it"
            raise ValueError(f"data={name}: there is no folder {folder}; {how}")
        return folder
    return place_of(str(path))


def place_of(path: str, divided: bool = False) -> Path:
    """The file, folder or pattern of files that ``data.path`` names, fetched where it is on the hub.

    Raises ``ValueError`` where it is not there, and for a folder that holds the parts of a data set; ``divided`` lets
    one of `split_files` pass.
    """
    place = dataset_folder(path) if path.startswith(PREFIX) else Path(path)
    if "*" not in place.name and not place.exists():
        raise ValueError(f"data.path={path!r}: no such file or folder; check the path")
    if len(parts := _parts(place)) > 1 and not (divided and split_files(place)):
        one = next((name for name in sorted(parts) if name.startswith("train")), min(parts))
        how = re.sub("(?=@|$)", f":{one}", path, count=1) if path.startswith(PREFIX) else f"{Path(path) / parts[one]}"
        names = ", ".join(sorted(parts))
        raise ValueError(f"data.path={path}: holds the parts {names}; name one, as {shlex.quote(f'data.path={how}')}")
    return place


def _parts(place: Path) -> dict[str, str]:
    """What names of files in a folder say that its parts are, each with its own folder or a pattern of its files."""
    files = data_files(place) if place.is_dir() and not (place / "splits").is_dir() else []
    found = (PART.search(file.relative_to(place).as_posix()) for file in files)
    return {part[1]: part.string[: (end := part.end(1))] + "*" * (part.string[end] != "/") for part in found if part}


def split_files(place: Path) -> dict[str, Path]:
    """The files of train and of validation, test or both, where a folder holds these and no others."""
    found = {SPLITS.get(part.lower(), part): place / below for part, below in _parts(place).items()}
    known = len(found) > 1 and "train" in found and {*SPLITS.values()} >= {*found}
    whole = known and sorted(file for below in found.values() for file in data_files(below)) == data_files(place)
    return found if whole else {}


def stem(path: str) -> str:
    """A short name for what a path holds: its last part without a data file's ending; no owner or revision of a hub."""
    name = Path(path).name
    if path.startswith(PREFIX):
        place = path.removeprefix(PREFIX).removeprefix("datasets/").partition("@")[0]
        name = re.sub(r"[/:]", "-", place.partition("/")[2])
    elif is_data_file(name):
        name = Path(name.removesuffix(PACKED)).stem
    return name.strip("*-.") or "votes"
