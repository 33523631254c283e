"""The judge of a run. In: a checked configuration. Out: the judge, its name, and where its predictions are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.io.chat.cache import ReplyCache
from crm.io.chat.config import make_endpoint
from crm.io.installed import plugin
from crm.judges.config import AnyJudgeConfig
from crm.judges.controls import CoinJudge, LengthJudge
from crm.judges.crm_judge import open_checkpoint
from crm.judges.hub_reward_model import open_reward_model
from crm.judges.judge import Judge
from crm.judges.llm_judge import LlmJudge
from crm.judges.oracle import OracleJudge
from crm.model.backbone import check_reachable
from crm.model.batching.plans import packing_named
from crm.model.export import checkpoint_folder
from crm.model.manifest import read_manifest

PREDICTIONS = Path("outputs/predictions")
"""Of judges that have no run folder of their own."""
REPLIES = "llm_replies.sqlite"
"""File beside the predictions with the replies of language models."""


@dataclass(frozen=True)
class OpenedJudge:
    """A judge and what is said of it; ``name`` heads its column in tables, ``seeds`` are those it was trained with."""

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
    """Raise ``ValueError`` for a broken checkpoint or model, or an endpoint that is none, before any data are read."""
    if config.judge.name == "crm":
        read_manifest(checkpoint_folder(str(config.checkpoint)))
    if config.judge.name == "reward_model":
        check_reachable(str(config.judge.path), config.judge.revision, "judge")
    if config.judge.name == "llm":
        make_endpoint(config.judge, "judge")


def open_judge(config: AnyJudgeConfig, *, blind: bool = False) -> OpenedJudge:
    """Load what has to be loaded; ``blind`` is said in its name.

    A judge of another package is made by what its entry point of the group ``crm.judges`` names: a function, or class,
    that takes ``judge.options`` and gives a `Judge`.

    Raises ``ValueError`` for a model or an endpoint that is of no use as this judge.
    """
    if config.judge.name == "crm":
        return _open_crm(config, blind)
    kept = Path(config.predictions) if config.predictions else PREDICTIONS
    if config.judge.name == "length":
        return OpenedJudge(LengthJudge(), "longer wins", kept)
    if config.judge.name == "coin":
        return OpenedJudge(CoinJudge(config.seed), "coin", kept, seeds=(config.seed,))
    if config.judge.name == "oracle":
        return OpenedJudge(OracleJudge(), "oracle", kept)
    if config.judge.name == "llm":
        return _open_llm(config, kept)
    if config.judge.name == "reward_model":
        return _open_reward_model(config, kept, blind)
    made: Judge = plugin("judges", config.judge.name)(config.judge.options or {})
    return OpenedJudge(made, config.judge.name, kept)


def _open_reward_model(config: AnyJudgeConfig, kept: Path, blind: bool) -> OpenedJudge:
    """Named by the last part of its path; blind where it is told no criteria."""
    judge = open_reward_model(
        str(config.judge.path),
        config.judge.revision,
        criteria_in=config.judge.criteria_in,
        max_length=config.judge.max_length,
        batch_size=config.batch_size,
        precision=config.precision,
    )
    told = ", blind" if blind or config.judge.criteria_in == "none" else ""
    name = f"reward_model {Path(str(config.judge.path)).resolve().name}{told}"
    return OpenedJudge(judge, name, kept, judge.prompt_digest)


def _open_crm(config: AnyJudgeConfig, blind: bool) -> OpenedJudge:
    folder = checkpoint_folder(str(config.checkpoint))
    judge, manifest = open_checkpoint(
        folder,
        batch_size=config.batch_size,
        precision=config.precision,
        packing=packing_named(config.batching.name, config.batching.tokens),
    )
    local = Path(str(config.checkpoint)).expanduser().is_dir()
    beside = folder.parent / "predictions" if local else PREDICTIONS
    kept = Path(config.predictions) if config.predictions else beside
    name = str(manifest["head"]) + (", blind" if blind else "")
    return OpenedJudge(judge, name, kept, judge.encoder.digest, (int(manifest["seed"]),))


def _open_llm(config: AnyJudgeConfig, kept: Path) -> OpenedJudge:
    settings = config.judge
    cache = ReplyCache(kept / REPLIES)
    judge = LlmJudge(make_endpoint(settings, "judge"), "text" if settings.verdict == "text" else "logprobs", cache)
    return OpenedJudge(judge, f"llm {settings.model}", kept, judge.prompt_digest)
