"""What ``--help`` of a command shows. In: its name. Out: the groups that it takes, with their options, no others."""

from __future__ import annotations

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf

from crm.cli.mistakes import option_names
from crm.config import config_dir

ASKED = {"-h", "--help"}
TEMPLATE = """\
${hydra.help.header}
== Groups ==
Choose an option of each with group=option

%s
== Settings ==
Change any of them with name=value

$CONFIG
${hydra.help.footer}
"""
"""Hydra's own lists every group of ``conf/``, whichever command takes it."""


def taken_groups(command: str) -> list[str]:
    """The groups that the defaults of ``conf/<command>.yaml`` name, those without a default too, sorted."""
    composed = OmegaConf.load(config_dir() / f"{command}.yaml")
    assert isinstance(composed, DictConfig) and isinstance(composed.defaults, ListConfig)
    return sorted(str(group) for entry in composed.defaults if isinstance(entry, DictConfig) for group in entry)


def with_own_help(command: str, arguments: list[str]) -> list[str]:
    """The command line, where it asks for help with the choice of this help added."""
    if not ASKED & set(arguments):
        return arguments
    groups = "".join(f"{group}: {', '.join(option_names(group))}\n" for group in taken_groups(command))
    shown = {
        "app_name": "${hydra.job.name}",
        "header": "crm-${hydra.help.app_name}: Hydra composes its settings; docs/configuration.md says what they do\n",
        "footer": "Use --hydra-help to view Hydra specific help\n",
        "template": TEMPLATE % groups,
    }
    ConfigStore.instance().store(group="hydra/help", name="of_command", node=shown)
    return [*arguments, "hydra/help=of_command"]
