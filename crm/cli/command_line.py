"""Words of a command that cannot be read. In: what Hydra or argparse says. Out: one sentence that shows a way out.

Hydra's grammar wants quotes round much that is usual in a path, and a shell takes a pair of quotes away.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from crm.config import mapping_in, nearest
from crm.quoting import hydra_text

NAMED = re.compile(r"([~+]{0,2}[\w./@-]+)=(.*)", re.DOTALL)
EMPTY = "''"
UNREAD = "cannot be read as a setting; write name=value, lists as [a,b]"


def check_options(words: Sequence[str]) -> None:
    """Raise ``ValueError`` for an option that no command has, and for a value without a name.

    argparse would print ten lines of usage, and Hydra take the value for a group's.
    """

    def refuse(message: str) -> NoReturn:
        between = message.startswith("unrecognized") and "=" in message and "--" not in message
        way_out = "write -m and the like before all settings" if between else "settings are written name=value"
        raise ValueError(f"{message}; {way_out}, --help lists them")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    nameless = [word for word in parser.parse_args(list(words)).overrides if word.startswith("=")]
    if nameless:
        raise ValueError(unread(nameless[0]))


def typed(word: str) -> str:
    """A mapping that Hydra's grammar does not take (keys have no quotes there) as a list; any other word as it is."""
    found = NAMED.fullmatch(word)
    items = mapping_in(found[2]) if found else None
    if found is None or items is None:
        return word
    try:
        OverridesParser.create().parse_override(word)
    except HydraException:
        return f"{found[1]}=[{','.join(map(hydra_text, items))}]"
    return word


def unread(word: str) -> str:
    """What to say of a word that Hydra's grammar does not take: how to quote its value, where it has one."""
    found = NAMED.fullmatch(word)
    if found is None or found[2] == "":
        return f"{word or EMPTY}: {UNREAD}"
    if found[2][0] == "{":
        return f'{word}: {UNREAD}, mappings as \'{found[1]}=["key=value","other key=value"]\''
    if found[2][0] in "[(":
        return f"""{word}: {UNREAD}; quote texts inside and the whole: 'name=["it is so"]'"""
    return f"{word}: cannot be read as a setting; quote the value, and the whole for the shell: {quoted(word)}"


def quoted(word: str) -> str:
    """``name=value`` as a shell must be given it for Hydra to take the value as a text, whatever is in it."""
    name, _, value = word.partition("=")
    return shlex.quote(hydra_word(name, value))


def hydra_word(name: str, text: str) -> str:
    """``name="text"``, which Hydra takes for a text whatever is in it."""
    return f"{name}={hydra_text(text)}"


def refused(message: str, groups: Sequence[str]) -> str | None:
    """A better sentence for what Hydra says when it composes, or ``None``; ``groups`` are those of the command."""
    for pattern, say in _SAID.items():
        if found := re.search(pattern, message):
            return say(found[1], groups)
    return None


def _no_group(name: str, groups: Sequence[str]) -> str:
    group = name.partition("@")[0]
    return f"{group}: no such group of this command, there are {', '.join(groups)}{nearest(group, groups)}"


_SAID: dict[str, Callable[[str, Sequence[str]], str]] = {
    r"Ambiguous value for argument '(.*)'": lambda word, _: (
        f"{word}: a comma makes several values: -m tries each, [a,b] is a list, and a text is quoted: {quoted(word)}"
    ),
    r"Could not override '(.+?)'\. No match": _no_group,
    r"Could not override '(.+?)'\.\s+Did you mean": _no_group,
    r"Multiple values for (.+?)\. ": lambda name, _: f"{name}: is set already; write {name}=<option> without +",
    r"BasicSweeper does not support sweep type : (\w+)": lambda kind, _: (
        f"{kind.lower().removesuffix('_sweep')}(...): searching is Optuna's, hydra/sweeper=optuna; or list: name=a,b"
    ),
    r"config directory '(.*)' not found": lambda folder, _: f"--config-dir={folder}: no such folder",
    r"config module '(.*)' not found": lambda _, __: "--config-path: the settings are this project's own; leave it out",
}
"""What Hydra says, and how it is said here."""
