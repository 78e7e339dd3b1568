"""The training state of a run: everything that step t + 1 depends on, in one safetensors file.

Tasks, augmentation and schedules follow from the step number, so the state is just the weights,
batch-norm statistics, optimiser state and a few counters.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from tadam.errors import UserError
from tadam.models.modelfile import ModelInfo, check_numbers, read_tensors, write_tensors
from tadam.system.files import write_with
from tadam.system.untrusted_json import BadJson, FieldCheck, fields, flag, number, whole
from tadam.training.trainer import Trainer

LAST = "last.safetensors"
#: The checkpoint before the last one, should that one be damaged.
PREVIOUS = "previous.safetensors"


@dataclass
class Counters:
    """How far a run has got.

    Attributes:
        step: Steps done.
        best_accuracy: Best validation accuracy so far; -1 before the first validation.
        best_ci95: Half-width of its 95% interval.
        best_step: Step that reached it.
        stale: Validations since that step.
        stopped_early: Whether patience has run out.
        seconds: Training time so far, including time before a resume.
    """

    step: int = 0
    best_accuracy: float = -1.0
    best_ci95: float = 0.0
    best_step: int = 0
    stale: int = 0
    stopped_early: bool = False
    seconds: float = 0.0


_COUNTERS: dict[str, FieldCheck] = {
    "step": whole(),
    "best_accuracy": number(-1, 1),
    "best_ci95": number(0),
    "best_step": whole(),
    "stale": whole(),
    "stopped_early": flag,
    "seconds": number(0),
}


def save_state(path: Path, trainer: Trainer, counters: Counters, info: ModelInfo) -> None:
    """Writes the training state; the one that was there stays beside it as `PREVIOUS`."""
    if path.exists():
        write_with(path.with_name(PREVIOUS), lambda temporary: _duplicate(path, temporary))
    write_tensors(path, _tensors(trainer), info, counters=asdict(counters))


def _duplicate(path: Path, copy: Path) -> None:
    """A second name for a file, or a copy where the file system has no links."""
    copy.unlink()
    try:
        os.link(path, copy)
    except OSError:
        shutil.copyfile(path, copy)


def load_last(folder: Path, trainer: Trainer, classes: Sequence[str] = ()) -> Counters | None:
    """Restores the last training state in a run folder; None if there is none.

    If it is damaged, the error names the one before it, which is read once the last one is gone.
    """
    last, previous = folder / LAST, folder / PREVIOUS
    if not last.exists():
        return load_state(previous, trainer, classes) if previous.exists() else None
    try:
        return load_state(last, trainer, classes)
    except UserError as error:
        if not previous.exists() or not _is_intact(previous):
            raise
        raise UserError(
            f"{error}; to resume from the checkpoint before it, {previous}, delete {last}"
        ) from None


def _is_intact(path: Path) -> bool:
    try:
        return "counters" in read_tensors(path)[2]
    except UserError:
        return False


def load_state(path: Path, trainer: Trainer, classes: Sequence[str] = ()) -> Counters:
    """Restores the training state of a trainer built from the same recipe.

    Args:
        path: The file.
        trainer: Receives the state.
        classes: Names of the training classes; they must match the saved ones.
    """
    tensors, info, raw = read_tensors(path)
    if "counters" not in raw:
        raise UserError(f"{path} holds weights but no training state: it cannot be resumed")
    if changed := sorted(set(info.classes) ^ set(classes)) if info.classes else []:
        raise UserError(
            f"the training classes differ from those in {path} (such as {changed[0]!r}): "
            "put the images back as they were, or choose another `out`"
        )
    current = _tensors(trainer)
    # 0.1.0 saved the auxiliary optimiser's state even when it was unused.
    tensors = {n: t for n, t in tensors.items() if n in current or not n.startswith("auxiliary.")}
    if {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in current.items()}:
        raise UserError(f"{path} holds the state of another architecture: choose another `out`")
    try:
        counters = Counters(**fields(raw["counters"], _COUNTERS))
    except BadJson as error:
        raise UserError(
            f"{path} holds a damaged training state ({error}): choose another `out`"
        ) from None
    for name in current:
        check_numbers(name, tensors[name], path)
    with torch.no_grad():
        for name, tensor in current.items():
            tensor.copy_(tensors[name])
    return counters


def share_state(trainer: Trainer, counters: Counters) -> Counters:
    """Copies the first process's state to every process of a run."""
    if trainer.ranks.size > 1:
        trainer.ranks.broadcast(_tensors(trainer).values())
    return trainer.ranks.gather(counters)[0]


def _tensors(trainer: Trainer) -> dict[str, Tensor]:
    """A trainer's live tensors by name; optimiser state that is not there yet is set to zero."""
    tensors = {f"model.{name}": t for name, t in trainer.model.state_dict().items()}
    names = {parameter: name for name, parameter in trainer.model.named_parameters()}
    for kind, optimiser in trainer.optimisers.items():
        for parameter in (p for group in optimiser.param_groups for p in group["params"]):
            state = optimiser.state[parameter]
            # Zeros give the same first update as no state at all.
            adam = isinstance(optimiser, torch.optim.AdamW)
            if adam:
                state.setdefault("step", torch.tensor(0.0))
            for name in ("exp_avg", "exp_avg_sq") if adam else ("momentum_buffer",):
                if state.get(name) is None:
                    state[name] = torch.zeros_like(parameter)
            tensors |= {f"{kind}.{names[parameter]}.{name}": t for name, t in state.items()}
    return tensors
