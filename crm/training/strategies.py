"""Lightning's engines. In: the name of a strategy and a number of processes. Out: the strategy of a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy

from crm.training.checkpointing import whole_version
from crm.training.config import TrainerConfig


def engine(settings: TrainerConfig, run_dir: Path) -> dict[str, Any]:
    """What every trainer is told, whether it trains or only reads: devices, strategy and precision as configured.

    Loaders give each process its share, and the command tells of the model itself.
    """
    return {
        "accelerator": settings.accelerator,
        "devices": settings.devices,
        "num_nodes": settings.nodes,
        "strategy": build_strategy(settings.strategy, settings.devices * settings.nodes),
        "precision": settings.precision,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "default_root_dir": run_dir,
    }


def build_strategy(name: str, processes: int) -> Strategy | str:
    """The strategy ``name`` for ``processes`` on all machines together."""
    if name == "fsdp":
        return WholeFileStrategy(processes, 1, save_distributed_checkpoint=False)
    if name == "ddp" or processes > 1:
        # The only buffers are tables of rotations, equal everywhere. Sent around before a forward pass, they would
        # make a rank that has no validation batch hang all others.
        return DDPStrategy(forward_sync_buffers=False)
    return name


class WholeFileStrategy(ModelParallelStrategy):
    """FSDP2 with checkpoints of one file of whole tensors, read back only after their digest was checked."""

    def load_checkpoint(self, checkpoint_path: _PATH, weights_only: bool | None = None) -> dict[str, Any]:
        """Lightning reads the file itself, past the checkpoint plugin, so a damaged one is found here."""
        return super().load_checkpoint(whole_version(Path(checkpoint_path)), weights_only=True)
