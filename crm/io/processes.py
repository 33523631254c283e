"""Several processes on one job, which Lightning's Fabric starts, or joins where torchrun or SLURM has started them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

Item = TypeVar("Item")
Made = TypeVar("Made")


class Processes:
    """The processes of one job, seen from one of them: ``rank`` of ``size``.

    ``group`` is a Fabric, or the strategy of a trainer; alone by default.
    """

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self.rank: int = group.global_rank if group else 0
        self.size: int = group.world_size if group else 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes what is written once."""
        return self.rank == 0

    def share(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's block of ``items``: neighbours stay together, sizes differ by one at most."""
        start, end = (len(items) * index // self.size for index in (self.rank, self.rank + 1))
        return items[start:end]

    def from_first(self, make: Callable[[], Made]) -> Made:
        """What the first process makes, on all; a mistake it meets (``ValueError``, ``OSError``) is raised on all."""
        if self._group is None:
            return make()
        made: Any = None
        if self.first:
            try:
                made = make()
            except (ValueError, OSError) as error:
                made = ValueError(str(error))
        made = self._group.broadcast(made)
        if isinstance(made, ValueError):
            raise made
        return cast(Made, made)

    def wait(self) -> None:
        """Go on when all are here."""
        if self._group is not None:
            self._group.barrier()


ALONE = Processes()


def start(devices: int | str, nodes: int | str) -> Processes:
    """Start the other processes (they run this command again), or join those that are there.

    One process a GPU, or a CPU process where there is none. Raises ``ValueError`` as `settled` does.
    """
    devices, nodes = settled(devices, nodes)
    if devices * nodes == 1:
        return ALONE
    import torch
    from lightning.fabric import Fabric
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        fabric = Fabric(accelerator=accelerator, devices=devices, num_nodes=nodes, strategy="ddp")
    except MisconfigurationException as error:
        raise ValueError(f"devices={devices}: {error}") from None
    fabric.launch()
    if fabric.global_rank:
        logging.getLogger("crm").setLevel(logging.WARNING)  # the first says what all do
    return Processes(fabric)


def launched_processes() -> tuple[int, int] | None:
    """Processes a machine, and machines, that torchrun or srun has started; ``None`` where neither has."""
    if not {"TORCHELASTIC_RUN_ID", "SLURM_NTASKS"} & os.environ.keys():
        return None  # and Fabric, which takes seconds to load, is not needed
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if TorchElasticEnvironment.detect():
        each = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return each, max(1, TorchElasticEnvironment().world_size() // each)
    if SLURMEnvironment.detect():
        nodes = int(os.environ.get("SLURM_NNODES", "1"))
        return max(1, SLURMEnvironment().world_size() // nodes), nodes
    return None


def settled(devices: int | str, nodes: int | str) -> tuple[int, int]:
    """Numbers in place of ``auto``: what a launcher has started, else every visible CUDA GPU, else one process.

    Raises ``ValueError`` for other numbers than a launcher's: each process would take itself for the only one, and all
    would write the same files.
    """
    launched = launched_processes()
    there = launched or (1, 1)
    if launched is None and "auto" in (devices, nodes):
        import torch  # takes a second or two to load

        there = max(1, torch.cuda.device_count()), 1
    found = [each if value == "auto" else int(value) for value, each in zip((devices, nodes), there, strict=True)]
    if launched and found[0] * found[1] != there[0] * there[1]:
        raise ValueError(
            f"devices={devices} nodes={nodes}: the launcher started {there[0]} processes on {there[1]} machines; leave "
            "these settings out, or give its numbers"
        )
    return found[0], found[1]
