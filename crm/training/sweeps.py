"""One job of a sweep. In: Hydra's description of the job. Out: the same job, where needed as a process of its own.

Lightning starts the other ranks with the command line of the parent. In a sweep that line says ``-m``, and every rank
would run the whole sweep again, in folders of its own (Lightning #16694). A process of its own per job has a command
line without ``-m``, frees its devices when it ends, and leaves the next job a clean start. Side by side with others,
it can be killed (for memory, say) without taking the others along.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from crm.sealed import read_sealed
from crm.training.config import TrainConfig
from crm.training.sweep_jobs import SUMMARY, SUMMARY_FORMAT, forget, is_first_rank, noted_failure

NOT_PASSED_ON = (
    *("hydra.mode", "hydra.run.", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher"),
    "hydra.output_subdir",
)
BASIC, JOBLIB, LOCAL, SLURM = "BasicLauncher", "JoblibLauncher", "LocalLauncher", "SlurmLauncher"
CONSOLE = "console.log"


class SweepFolder(Callback):
    """Remembers, in the process that starts a sweep, where that sweep writes; ``current`` is None in a single run."""

    current: Path | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Hydra calls this before the first job."""
        SweepFolder.current = Path(str(config.hydra.sweep.dir)).absolute()


def begin_job() -> Path:
    """The folder of the job at work, without the outcome of an earlier one."""
    hydra = HydraConfig.get()
    folder = Path(str(hydra.runtime.output_dir))
    forget(folder, summary=hydra.mode == RunMode.MULTIRUN)
    return folder


def launcher() -> str:
    """Name of the launcher's class in a sweep, `BASIC` for one job after the other; empty in a single run."""
    hydra = HydraConfig.get()
    return str(hydra.launcher._target_).rpartition(".")[2] if hydra.mode == RunMode.MULTIRUN else ""


def check_devices(config: TrainConfig) -> None:
    """Raise ``ValueError`` where jobs side by side would want the same devices, or SLURM starts too few processes."""
    kind, trainer, settings = launcher(), config.trainer, HydraConfig.get().launcher
    together = kind == LOCAL or (kind == JOBLIB and settings.n_jobs != 1)
    if together and (trainer.devices not in (1, "auto") or _on_gpus(trainer.accelerator)):
        raise ValueError(
            f"trainer.accelerator={trainer.accelerator} trainer.devices={trainer.devices}: jobs at once on one machine "
            "would fight for its devices; leave out hydra/launcher (one job after the other), or use "
            "hydra/launcher=slurm, or trainer=cpu with one device"
        )
    asked = (trainer.devices, trainer.nodes)
    if kind == SLURM and any(
        want not in ("auto", there) for want, there in zip(asked, _of_slurm(settings), strict=True)
    ):
        raise ValueError(
            f"hydra.launcher.tasks_per_node={settings.tasks_per_node} hydra.launcher.nodes={settings.nodes}: SLURM "
            f"starts one process a device; give trainer.devices={trainer.devices} and trainer.nodes={trainer.nodes}"
        )


def _on_gpus(accelerator: str) -> bool:
    """Whether jobs would train on GPUs; only where that is not plain is torch asked, which takes seconds to import."""
    if accelerator != "auto":
        return accelerator != "cpu"
    from crm.training.devices import training_device

    return training_device("auto").type != "cpu"


def _of_slurm(settings: Any) -> tuple[int, int]:
    return settings.tasks_per_node, settings.nodes


def needs_own_process(devices: int | str) -> bool:
    """Whether this job has other ranks that Lightning would start, or other jobs beside it."""
    kind = launcher()
    if kind == BASIC and devices == "auto":
        import torch

        devices = torch.cuda.device_count()
    return kind != "" and (kind != BASIC or int(devices) > 1)


def run_in_own_process(entry: Sequence[str]) -> Path:
    """Run the current job with the command ``entry`` and wait for it; its folder.

    Raises ``ValueError`` where it fails. Beside others, it prints to ``console.log`` in its folder.
    """
    hydra = HydraConfig.get()
    folder = Path(str(hydra.runtime.output_dir))
    overrides = [*hydra.overrides.task, *(word for word in hydra.overrides.hydra if passed_on(word))]
    command = [*entry, *single_run(overrides, str(folder), str(hydra.job.name))]
    if launcher() == JOBLIB:
        with (folder / CONSOLE).open("wb") as out:
            code = _run(command, hydra.runtime.cwd, out)
    else:
        code = _run(command, hydra.runtime.cwd, None)
    if code:
        raise ValueError(noted_failure(folder) or f"job {hydra.job.num} {_how_it_ended(code)}; its log is in {folder}")
    return folder


def validation_loss_of(folder: Path) -> float:
    """The best validation loss of the training run in ``folder``, in nats."""
    if not is_first_rank():
        return float("nan")  # the first one writes the summary, maybe later
    return float(read_sealed(folder / SUMMARY, "run the job again", version=SUMMARY_FORMAT)["validation_loss"])


def passed_on(override: str) -> bool:
    """Whether an override of Hydra's own settings still means the same in a single run."""
    return not override.lstrip("+~").startswith(NOT_PASSED_ON)


def single_run(overrides: Sequence[str], folder: str, job_name: str) -> list[str]:
    """The command line of one job as a single run in ``folder``, whose ``.hydra`` the sweep has written already."""
    quoted = folder.replace("\\", "\\\\").replace("'", "\\'")
    words = overrides
    return [*words, f"hydra.run.dir='{quoted}'", "hydra.output_subdir=null", f"hydra.job.name={job_name}"]


def entry_command() -> list[str]:
    """How this process was started, without its arguments; to be asked in the process that starts a sweep."""
    import __main__

    spec = getattr(__main__, "__spec__", None)
    return [sys.executable, str(Path(sys.argv[0]).resolve())] if spec is None else [sys.executable, "-m", spec.name]


def _run(command: Sequence[str], cwd: str, out: Any) -> int:
    errors = subprocess.STDOUT if out else None
    return subprocess.run(command, cwd=cwd, check=False, stdout=out, stderr=errors).returncode  # noqa: S603 - own command


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    memory = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{memory}"
