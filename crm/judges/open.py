"""Open the judge of a run; torch is imported only for a judge that needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.io.installed import plugin
from crm.judges.config import AnyJudgeConfig
from crm.judges.judge import CoinJudge, Judge, LengthJudge, OracleJudge
from crm.judges.traits_judge import TraitsJudge

PREDICTIONS = Path("outputs/predictions")
"""Of judges that have no run folder of their own."""
REPLIES = "llm_replies.sqlite"
"""Beside predictions: the cache of a language model's replies."""


@dataclass(frozen=True)
class OpenedJudge:
    """A judge, its ``name`` in tables, the folder of its predictions, and the ``seeds`` that it was trained with."""

    judge: Judge
    name: str
    predictions: Path
    prompt_digest: str = ""
    """Of the template that comparisons are read through; empty for a judge that reads none."""
    seeds: tuple[int, ...] = ()

    def facts(self) -> dict[str, Any]:
        """For ``results.json``."""
        return {"judge": self.name, "judge_digest": self.judge.digest, "prompt_digest": self.prompt_digest}


def check_judge(config: AnyJudgeConfig) -> None:
    """Set threads and progress bars, and have ``checkpoint`` name a foreign reward model too, before data are read.

    Raises ``ValueError`` for a broken checkpoint, model or endpoint.
    """
    if config.threads:
        import torch

        torch.set_num_threads(config.threads)
    if config.judge.name in ("crm", "reward_model"):
        from crm.model.backbone import show_loading

        show_loading(config.progress)
    if config.judge.name == "crm":
        from crm.model.folders import checkpoint_folder, located, model_in
        from crm.model.manifest import read_manifest

        folder = located(str(config.checkpoint))
        if (folder / "config.json").is_file() and model_in(folder) is None:
            config.judge.name, config.judge.path = "reward_model", str(folder)
        else:
            read_manifest(checkpoint_folder(str(config.checkpoint)))
    if config.judge.name == "reward_model":
        from crm.model.folders import check_reachable

        check_reachable(str(config.judge.path), config.judge.revision, "judge")
    if config.judge.name == "llm":
        config.judge.api_key()


def open_judge(config: AnyJudgeConfig, *, blind: bool = False) -> OpenedJudge:
    """Load a judge; ``blind`` goes into its name.

    The entry point of another package (group ``crm.judges``) is a function or class that takes ``judge.options`` and
    returns a `Judge`. Raises ``ValueError`` for a model or an endpoint that cannot be this judge.
    """
    if config.judge.name in OPENERS:
        return OPENERS[config.judge.name](config, blind)
    judge: Judge = plugin("judges", config.judge.name)(config.judge.options or {})
    return OpenedJudge(judge, config.judge.name, _folder(config))


def _open_crm(config: AnyJudgeConfig, blind: bool) -> OpenedJudge:
    from crm.judges.crm_judge import open_checkpoint
    from crm.model.batching.plans import packing_named
    from crm.model.folders import checkpoint_folder

    folder = checkpoint_folder(str(config.checkpoint))
    packing = packing_named(config.batching.name, config.batching.tokens)
    judge, manifest = open_checkpoint(folder, batch_size=config.batch_size, precision=config.precision, packing=packing)
    local = Path(str(config.checkpoint)).expanduser().is_dir()
    predictions = _folder(config, folder.parent / "predictions" if local else PREDICTIONS)
    name = str(manifest["head"]) + (", blind" if blind else "")
    return OpenedJudge(judge, name, predictions, judge.encoder.digest, (int(manifest["seed"]),))


def _open_reward_model(config: AnyJudgeConfig, blind: bool) -> OpenedJudge:
    from crm.judges.hub_reward_model import open_reward_model

    settings = config.judge
    judge = open_reward_model(settings, batch_size=config.batch_size, precision=config.precision)
    suffix = ", blind" if blind or settings.criteria_in == "none" else ""
    name = f"reward_model {Path(str(settings.path)).resolve().name}{suffix}"
    return OpenedJudge(judge, name, _folder(config), judge.prompt_digest)


def _open_llm(config: AnyJudgeConfig, _blind: bool) -> OpenedJudge:
    from crm.endpoint.replies import ReplyCache
    from crm.judges.llm_judge import LlmJudge

    folder, settings = _folder(config), config.judge
    judge = LlmJudge(settings, ReplyCache(folder / REPLIES))
    return OpenedJudge(judge, f"llm {settings.model}", folder, judge.prompt_digest)


def _folder(config: AnyJudgeConfig, otherwise: Path = PREDICTIONS) -> Path:
    return Path(config.predictions) if config.predictions else otherwise


OPENERS: dict[str, Callable[[AnyJudgeConfig, bool], OpenedJudge]] = {
    "crm": _open_crm,
    "reward_model": _open_reward_model,
    "llm": _open_llm,
    "traits": lambda config, _: OpenedJudge(TraitsJudge(), "traits", _folder(config)),
    "length": lambda config, _: OpenedJudge(LengthJudge(), "length (longer wins)", _folder(config)),
    "coin": lambda config, _: OpenedJudge(CoinJudge(config.seed), "coin", _folder(config), seeds=(config.seed,)),
    "oracle": lambda config, _: OpenedJudge(OracleJudge(), "oracle", _folder(config)),
}
