"""``python -m bench.memory_table``: peak memory of a training step, counted by torch's trackers on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.weak import WeakIdKeyDictionary
from transformers import Qwen3Model

from bench.models import QWEN3, Size, config_of
from crm.model.backbone import add_lora, without_lora_wrapper
from crm.model.batching.batches import PaddedBatch
from crm.model.reward_model import RewardModel
from crm.training.config import OptimizerConfig
from crm.training.devices import enable_checkpointing, wrap
from crm.training.lit_module import build_optimizer
from crm.training.loss import preference_loss
from crm.training.memory import GIB, training_need

SEQUENCES, LENGTH = 2, 2048


@dataclass(frozen=True)
class Setup:
    """One column of the table."""

    title: str
    strategy: str = "single"
    devices: int = 1
    rank: int = 0


SETUPS = [
    Setup("1 GPU"),
    Setup("DDP, 2 to 8", "ddp", 2),
    *(Setup(f"FSDP2, {devices}", "fsdp", devices) for devices in (2, 4, 8)),
    Setup("LoRA, 1 GPU", rank=16),
    *(Setup(f"LoRA, FSDP2, {devices}", "fsdp", devices, rank=16) for devices in (2, 4, 8)),
]


class Tracker(MemTracker):  # type: ignore[no-untyped-call]
    """Torch's tracker for any module, frozen weights included; of totals alone, in time linear in the depth."""

    def _update_peak_stats(self, peak_state: Any) -> None:
        by_module, self.memory_tracking = self.memory_tracking, WeakIdKeyDictionary()
        super()._update_peak_stats(peak_state)
        self.memory_tracking = by_module

    def _track_module_params_and_buffers(self, module: nn.Module, install_grad_hooks: bool = True) -> tuple[int, int]:
        # The hooks only label gradients, and torch refuses them on frozen weights.
        return super()._track_module_params_and_buffers(module, install_grad_hooks=False)


class ShardedTracker(Tracker, FSDPMemTracker):  # type: ignore[no-untyped-call]
    """The same for a module sharded by FSDP2."""


def peak_and_estimate(size: Size, setup: Setup, checkpointing: bool, length: int = LENGTH) -> tuple[int, int]:
    """Bytes on one device: the tracker's peak over a step, and what `training_need` estimates."""
    model = meta_model(size, setup.rank, checkpointing)
    places = {"shards" if setup.strategy == "fsdp" else "replicas": setup.devices}
    need = training_need(
        without_lora_wrapper(model.backbone), SEQUENCES * length, mixed=True, checkpointing=checkpointing, **places
    )
    with fake_processes(setup.devices):
        mesh = init_device_mesh("cpu", (setup.devices,)) if setup.strategy == "fsdp" else None
        # Built on the meta device and only then made fake: torch cannot convert a module that is already fake.
        with FakeTensorMode(allow_non_fake_inputs=True):
            model.to_empty(device="cpu")
            if mesh is not None:
                wrap(model, mesh, torch.bfloat16)
            return track_step(model, setup, fake_batch(length)), sum(need)


def meta_model(size: Size, rank: int, checkpointing: bool) -> RewardModel:
    """A scalar reward model without weights."""
    config = config_of(size)
    config.use_cache = False
    with torch.device("meta"):
        backbone: Any = Qwen3Model(config)  # type: ignore[arg-type]
        backbone = add_lora(backbone, rank, 2 * rank) if rank else backbone
        score = nn.Linear(size.hidden, 1, bias=False)
    if checkpointing:
        enable_checkpointing(without_lora_wrapper(backbone))
    return RewardModel(backbone, score, "scalar").train()


def fake_batch(length: int) -> PaddedBatch:
    """One comparison: two sequences without padding, each read at its last token."""
    ids = torch.zeros(SEQUENCES, length, dtype=torch.int64)
    ends = torch.full((1, 2), length - 1)
    row = torch.ones(1)
    labels: dict[str, Any] = {"target": row, "sign": row, "reverse": row.bool(), "tokens": ids.numel()}
    rows, mask = torch.tensor([[0, 1]]), torch.ones_like(ids)
    return PaddedBatch(input_ids=ids, attention_mask=mask, rows=rows, positions=ends, **labels)


@contextmanager
def fake_processes(count: int) -> Iterator[None]:
    """A process group of ``count`` in which only this process exists."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    try:
        yield
    finally:
        dist.destroy_process_group()


def track_step(model: RewardModel, setup: Setup, batch: PaddedBatch) -> int:
    """Peak bytes of a step after the first one: gradients and moments are there when the forward pass starts."""
    optimizer = stepped_optimizer(model)
    tensors = [part for part in vars(batch).values() if isinstance(part, Tensor)]
    tracker: Tracker
    if setup.strategy == "fsdp":
        tracker = sharded = ShardedTracker(model, optimizer)
        sharded.track_inputs(tuple(tensors))
    else:
        tracker = Tracker()
        tracker.track_external(model, optimizer, *tensors)
    with tracker:
        step(data_parallel(model) if setup.strategy == "ddp" else model, optimizer, batch)
    return sum(snapshot["Total"] for snapshot in tracker.get_tracker_snapshot("peak").values())


def stepped_optimizer(model: RewardModel) -> Optimizer:
    """Our AdamW with its moments, fused as on a GPU, where it needs no memory of its own."""
    optimizer = build_optimizer(model, OptimizerConfig(weight_decay=0.1))
    for group in optimizer.param_groups:
        group["fused"] = True
        for weight in group["params"]:
            weight.grad = torch.zeros_like(weight)
    optimizer.step()
    return optimizer


def data_parallel(model: nn.Module) -> nn.Module:
    """DDP that exchanges nothing: its reducer does not take what the fake process group answers."""
    wrapped = DistributedDataParallel(model, init_sync=False)
    wrapped.register_comm_hook(None, noop_hook)
    return wrapped


def step(model: Callable[[PaddedBatch], Any], optimizer: Optimizer, batch: PaddedBatch) -> None:
    """Forward, backward and update in Lightning's order, which clears gradients after the forward pass."""
    with torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
        loss = preference_loss(output.preference_logit, batch.target).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def main() -> None:
    """Print the table, GiB without / with checkpointing, and the estimate's ratio to it."""
    header = "| model | " + " | ".join(setup.title for setup in SETUPS) + " |\n|---|" + "--:|" * len(SETUPS)
    print(header)
    ratios = []
    for name, size in QWEN3.items():
        cells, quotients = [f"Qwen3-{name}"], [f"Qwen3-{name}"]
        for setup in SETUPS:
            pairs = [peak_and_estimate(size, setup, checkpointing) for checkpointing in (False, True)]
            cells.append(" / ".join(f"{peak / GIB:.1f}" for peak, _ in pairs))
            quotients.append(" / ".join(f"{estimate / peak:.2f}" for peak, estimate in pairs))
        print(f"| {' | '.join(cells)} |", flush=True)
        ratios.append(f"| {' | '.join(quotients)} |")
    print("\nestimate / tracker\n", header, *ratios, sep="\n")


if __name__ == "__main__":
    main()
