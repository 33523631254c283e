"""Settings of commands: composed by Hydra from ``conf/``, checked as dataclasses; values in Hydra's grammar.

The settings of a command are beside its code. A typo or a wrong type fails while Hydra composes. What a setting may be
is written with its field (`setting`), what holds for two together in ``__post_init__``; `checked` runs both once.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import field, fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, TypeVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf

Config = TypeVar("Config")
Value = TypeVar("Value")
ENTRY_POINTS = {
    "train": ("crm.training.config:TrainConfig", "crm.training.train:run_training"),
    "evaluate": ("crm.evaluation.config:EvaluateConfig", "crm.evaluation.run:run_evaluation"),
    "leaderboard": ("crm.leaderboard.config:LeaderboardConfig", "crm.leaderboard.run:run_leaderboard"),
    "prepare": ("crm.prepare.config:PrepareConfig", "crm.prepare.run:run_prepare"),
    "app": ("crm.page.config:AppConfig", "crm.page.run:run_app"),
    "bank": ("crm.leaderboard.config:BankBuildConfig", "crm.leaderboard.bank.run:run_bank"),
    "bank_score": ("crm.leaderboard.config:BankScoreConfig", "crm.leaderboard.bank_score:run_bank_score"),
    "best_of_n": ("crm.rewards.config:BestOfNConfig", "crm.rewards.best_of_n:run_best_of_n"),
    "serve": ("crm.rewards.config:ServeConfig", "crm.rewards.server:run_server"),
    "score": ("crm.rewards.config:ScoreConfig", "crm.rewards.score_file:run_score"),
}
"""The settings of every command, and the function that takes them once they are checked."""
PRECISIONS = ("32-true", "bf16-mixed")
MAPPING = """a mapping: {key: value}, or where a key is not plain letters '["key=value","other key=value"]'"""
MAX_SEED = 2**32 - 1
"""The largest that numpy takes."""


def setting(
    default: Value,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
    one_of: Iterable[Any] = (),
    zero: str = "",
    unit: str = "",
    why: str = "",
) -> Value:
    """A field of `Settings` and what it may be: a finite number in a range, or ``one_of`` some values.

    Of a list it is every item that may be so. A refusal says what ``zero`` means, the ``unit`` and ``why``.
    """
    choices, low, high = tuple(one_of), max(at_least, above), min(at_most, below)

    def fits(value: Any) -> bool:
        return value in choices if choices else at_least <= value <= at_most and above < value < below

    if choices:
        allowed = f"one of {', '.join(map(str, choices))}"
    elif high < math.inf:
        allowed = f"a number in {'(' if above == low else '['}{low}, {high}{')' if below == high else ']'}"
    else:
        allowed = f"a number above {low}" if above == low else f"{low}{zero and f' ({zero})'} or more"
    rule = {"fits": fits, "allowed": allowed + (unit and f" {unit}") + (why and f": {why}")}
    if isinstance(default, list):
        return field(default_factory=partial(copy, default), metadata=rule)
    return field(default=default, metadata=rule)


class Settings:
    """What the classes of settings inherit. ``group`` is how their names begin; those of a command have none."""

    _prefix: ClassVar[str] = ""

    def __init_subclass__(cls, group: str = "") -> None:
        if group:
            cls._prefix = f"{group}."

    def __post_init__(self) -> None:
        """Check each field that is a `setting`; what holds for two together comes after this, in the subclass."""
        for each in fields(self):  # type: ignore[arg-type]  # those who inherit are dataclasses
            value = getattr(self, each.name)
            if each.type == "list[str]" and not all(isinstance(item, str) for item in value):  # OmegaConf lets lists in
                raise self.refused(each.name, "a list of texts", value)
            for item in value if isinstance(value, list) else [value]:
                if "fits" in each.metadata and item is not None and not each.metadata["fits"](item):
                    raise self.refused(each.name, each.metadata["allowed"], item)

    def require(self, condition: object, name: str, allowed: str) -> None:
        """Raise ``ValueError`` naming the setting ``name``, its value and what is allowed, unless ``condition``."""
        if not condition:
            raise self.refused(name, allowed, attrgetter(name)(self))

    def as_mappings(self, *names: str) -> None:
        """Have these settings be mappings of texts, or null. Raises ``ValueError`` for anything else.

        Hydra's grammar has no quotes for keys, so a mapping may also be a list of texts ``["key=value"]``, split at the
        last equals sign. The fields are typed Any and null by default: Hydra adds no keys to a mapping that is there.
        """
        for name in names:
            value = getattr(self, name)
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                split = [item.rpartition("=") for item in value]
                value = {key if mark else text: text if mark else "" for key, mark, text in split}
                self.require(len(value) == len(split), name, "every key once")
            self.require(value is None or isinstance(value, dict), name, MAPPING)
            setattr(self, name, value and {str(key): str(item) for key, item in value.items()})

    def refused(self, name: str, allowed: str, value: Any) -> ValueError:
        """The error for a setting or an item of it."""
        return ValueError(f"{self._prefix}{name}={value!r}: expected {allowed}")


def count_or_auto(settings: Settings, name: str) -> int | str:
    """A number of devices or machines, or ``auto`` (also written -1). Raises ``ValueError`` for anything else."""
    value = getattr(settings, name)
    if value in ("auto", -1, "-1"):
        return "auto"
    number = int(value) if str(value).isdecimal() else value
    settings.require(type(number) is int and number >= 1, name, "1 or more, or auto")
    return int(number)


@cache
def schema(name: str) -> type:
    """The settings of an entry point, known to Hydra as ``<entry point>_schema`` from then on.

    They stand beside their code, which is imported only here.
    """
    found: type = resolve_name(ENTRY_POINTS[name][0])
    ConfigStore.instance().store(name=f"{name}_schema", node=found)
    return found


def config_dir() -> Path:
    """Folder of the configuration: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def group_names() -> list[str]:
    """Folders of ``conf/``, each a group of options; ``hydra/`` holds presets of Hydra's own."""
    folders = (path.name for path in config_dir().iterdir() if path.is_dir())
    return sorted(name for name in folders if not name.startswith("_") and name != "hydra")


def taken_groups(command: str) -> list[str]:
    """The groups that the defaults of ``conf/<command>.yaml`` name, those without a default too, sorted."""
    composed = OmegaConf.load(config_dir() / f"{command}.yaml")
    assert isinstance(composed, DictConfig) and isinstance(composed.defaults, ListConfig)
    return sorted(str(group) for entry in composed.defaults if isinstance(entry, DictConfig) for group in entry)


def option_names(group: str) -> list[str]:
    """Options of a group, sorted."""
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def compose(name: str, overrides: Sequence[str], run_dir: Path | None = None) -> Any:
    """The checked configuration of an entry point (a key of `ENTRY_POINTS`), as its command line would give it.

    ``run_dir`` is for the entry points that write into a run folder, all but ``prepare``.
    """
    settings = schema(name)
    place = [f"run_dir={hydra_value(run_dir)}"] if run_dir else []
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        composed = hydra_compose(name, overrides=[*overrides, *place])
    return checked(composed, settings)


def checked(composed: DictConfig, settings: type[Config]) -> Config:
    """Resolve interpolations and run every check. Raises ``ValueError`` naming field, value and what is allowed.

    Hydra adds whatever is written with a leading ``+``, so that a typo there is found only here.
    """
    known = setting_names(settings)
    for name in setting_names(composed):
        if name not in known:
            raise ValueError(f"{name}: no such setting{nearest(name, known)}")
    composed = deepcopy(composed)
    OmegaConf.set_readonly(composed, False)
    config = OmegaConf.to_object(composed)
    if not isinstance(config, settings):
        raise ValueError("--config-name: no configuration of this command; config=<file> reads settings from a file")
    return config


def setting_names(settings: Any, prefix: str = "") -> list[str]:
    """Dotted names of all settings of a schema or of a composed configuration."""
    node = settings if isinstance(settings, DictConfig) else OmegaConf.structured(settings)
    names = []
    for key in map(str, node):
        names.append(f"{prefix}{key}")
        child = None if OmegaConf.is_missing(node, key) or OmegaConf.is_interpolation(node, key) else node[key]
        if isinstance(child, DictConfig) and is_dataclass(OmegaConf.get_type(child)):  # not a mapping of a user's
            names += setting_names(child, f"{prefix}{key}.")
    return names


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing where no name is near."""
    whole = {each.lower(): each for each in names if each != name}
    for known in (whole, {each.rpartition(".")[2]: whole[each] for each in whole}):
        if near := difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
            return f"; did you mean {known[near[0]]}?"
    return ""


def hydra_text(text: str) -> str:
    """A text in the quotes of Hydra's grammar, whatever is in it but ``${``."""
    escaped = re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + ("\\" if found[2] else "") + found[2], text)
    return f'"{escaped}"'


def escaped(text: str) -> str:
    """A text in which OmegaConf reads no interpolation: ``${`` as ``\\${``."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)


def hydra_value(value: Any) -> str:
    """A setting's value: texts in quotes, a mapping as a list of ``key=value`` (see `crm.config.Settings`)."""
    if isinstance(value, Mapping):
        return hydra_value([f"{key}={item}" for key, item in value.items()])
    if isinstance(value, str | Path):
        return hydra_text(escaped(str(value)))
    if isinstance(value, Sequence):
        return f"[{','.join(map(hydra_value, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
