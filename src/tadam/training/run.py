"""A training run in a folder: loop, validation, checkpoints, log, interruption and resumption."""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch

from tadam.allocator import keep_large_blocks
from tadam.config import Config
from tadam.data.catalogue import load_splits
from tadam.data.episodes import EpisodeSampler
from tadam.device import choose_device
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.evaluation import Evaluation, evaluate_tasks
from tadam.files import write_text
from tadam.model import InputSpec, build_model, initialise
from tadam.modelfile import BEST, ModelInfo, save_model
from tadam.recipes import load_recipe, resolve
from tadam.training.checkpoint import LAST, Counters, load_state, save_state
from tadam.training.log import LOG, RunLog, require_tensorboard
from tadam.training.trainer import StepResult, Trainer

RECIPE = "recipe.toml"


class Reporter(Protocol):
    """Someone who watches a run; see `tadam.training.progress`."""

    def reading(self, done: int, total: int) -> None: ...
    def start(self, step: int, steps: int) -> None: ...
    def step(self, step: int, record: dict[str, Any] | None) -> None: ...
    def validated(self, record: dict[str, Any], best: bool) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True)
class TrainingResult:
    """Where a run ended: the folder, its best validation accuracy and when that was."""

    folder: Path
    steps: int
    best_accuracy: float
    best_ci95: float
    best_step: int
    seconds: float


def train(
    recipe: str | Path | Config,
    out: str | Path,
    *,
    dataset: str | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> TrainingResult:
    """Trains a model by a recipe into a folder.

    Args:
        recipe: A shipped recipe's name, a TOML file, or a `Config`.
        out: Run folder; must not hold another run unless `resume`.
        dataset: Replaces the recipe's data set.
        settings: Changes such as `backbone.width=16`, applied in order.
        resume: Go on from the folder's last checkpoint, bit for bit as if never stopped.
        device: auto, cpu, cuda or mps.
        reporter: Is told of progress.

    Returns:
        The best validation accuracy; the weights behind it are in `out/best.safetensors`.
    """
    config = resolve(recipe, settings, dataset)
    folder = Path(out)
    check_folder(folder, config, resume, RECIPE, unfinished={RECIPE, LOG})
    return _Run(config, folder, device, reporter).run()


def check_recipe(config: Config, device: str) -> None:
    """Raises whatever a run of this recipe would raise before its first step."""
    _Run(config, Path(), device, None)


class _Run:
    def __init__(
        self, config: Config, folder: Path, device: str, reporter: Reporter | None
    ) -> None:
        keep_large_blocks()
        chosen_device = choose_device(device)
        if config.run.tensorboard:
            require_tensorboard()
        splits = load_splits(config.data, reporter.reading if reporter else None)
        store, validation = splits["train"], config.validation
        classes = len(store.class_names) if config.auxiliary.enabled else 0
        self.spec = InputSpec(store.channels, store.image_size, classes)
        self.config, self.folder, self.reporter = config, folder, reporter
        model = build_model(config, self.spec)
        initialise(model, config, *store.channel_statistics())
        self.trainer = Trainer(config, model, store, chosen_device)
        self.validation = EpisodeSampler(
            splits["val"],
            config.episode.way,
            config.episode.shot,
            validation.queries,
            validation.seed,
            source=f"the val split of {config.data.name}",
        )
        self.counters = Counters()

    def run(self) -> TrainingResult:
        """All checks are behind us: from here on the folder is written to."""
        last = self.folder / LAST
        if last.exists():
            self.counters = load_state(last, self.trainer)
            if self.counters.best_step and not (self.folder / BEST).is_file():
                raise UserError(f"{self.folder / BEST} is gone: put it back, or train anew")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / RECIPE, self.config.to_toml())
        log = RunLog(self.folder, self.counters.step, self.config.run.tensorboard)
        try:
            with _interruption() as interrupted:
                self._loop(log, interrupted)
        finally:
            log.close()
            if self.reporter:
                self.reporter.stop()
        c = self.counters
        return TrainingResult(
            self.folder, c.step, c.best_accuracy, c.best_ci95, c.best_step, c.seconds
        )

    def _loop(self, log: RunLog, interrupted: Callable[[], bool]) -> None:
        run, validation, counters = self.config.run, self.config.validation, self.counters
        steps = self.config.schedule.episodes
        before, started = counters.seconds, time.monotonic()
        window = _Window()
        if self.reporter:
            self.reporter.start(counters.step, steps)
        while counters.step < steps and not counters.stopped_early:
            window.add(self.trainer.step(counters.step))
            counters.step += 1
            counters.seconds = before + time.monotonic() - started
            done, record = counters.step == steps, None
            validate = done or counters.step % validation.every == 0
            checkpoint = done or validate or counters.step % run.checkpoint_every == 0
            stop = interrupted()
            if checkpoint or stop or counters.step % run.log_every == 0:
                record = self._record(window)
                log.write(record)
                window = _Window()
            if self.reporter:
                self.reporter.step(counters.step, record)
            if validate:
                self._validate(log)
                window = _Window()  # its time is no training time
            if checkpoint or stop:
                self._save_state()
            if stop and not done:
                raise Interrupted(
                    f"stopped after step {counters.step} of {steps}; the checkpoint is in "
                    f"{self.folder}: the same command with --resume goes on from there"
                )

    def _record(self, window: "_Window") -> dict[str, Any]:
        """The log record of the steps since the last one; a diverged loss ends the run here."""
        record = {"step": self.counters.step, **window.summary()}
        record["alpha"] = self.trainer.model.metric.alpha.item()
        record["learning_rate"] = self.trainer.few_shot.param_groups[0]["lr"]
        record["seconds"] = round(self.counters.seconds, 3)
        for name in ("loss", "auxiliary_loss"):
            loss = record.get(name)
            if loss is not None and not abs(loss) <= self.config.run.max_loss:  # also if NaN
                raise self._diverged(f"{name} became {loss:.4g}")
        return record

    def _diverged(self, what: str) -> RunFailed:
        last = self.folder / LAST
        kept = f"the last good checkpoint is {last}; " if last.exists() else ""
        return RunFailed(
            f"{what} by step {self.counters.step}: training diverged; {kept}"
            "try a lower optimiser.learning_rate or metric.alpha"
        )

    def _validate(self, log: RunLog) -> None:
        counters, patience = self.counters, self.config.validation.patience
        result = evaluate_tasks(
            self.trainer.model, self.validation, self.config.validation.tasks, both=False
        )
        best = result.accuracy > counters.best_accuracy
        if best:
            counters.best_accuracy, counters.best_ci95 = result.accuracy, result.ci95 or 0.0
            counters.best_step, counters.stale = counters.step, 0
            save_model(self.folder / BEST, self.trainer.model, self._info(result))
        else:
            counters.stale += 1
            counters.stopped_early = 0 < patience <= counters.stale
        record: dict[str, Any] = {
            "step": counters.step,
            "val_accuracy": result.accuracy,
            "val_ci95": result.ci95,
        }
        if self.trainer.model.ten is not None:
            multipliers = self.trainer.model.ten.multipliers()
            record["gamma0"] = {str(layer): g for layer, (g, _) in multipliers.items()}
            record["beta0"] = {str(layer): b for layer, (_, b) in multipliers.items()}
        log.write(record)
        if self.reporter:
            self.reporter.validated(record, best)

    def _save_state(self) -> None:
        # The loss speaks of the weights before the step; what is saved must be sound as well.
        if not all(p.isfinite().all() for p in self.trainer.model.parameters()):
            raise self._diverged("a weight became infinite or NaN")
        save_state(self.folder / LAST, self.trainer, self.counters, self._info())

    def _info(self, result: Evaluation | None = None) -> ModelInfo:
        validation = {"accuracy": result.accuracy, "ci95": result.ci95 or 0.0} if result else {}
        return ModelInfo(self.config, self.spec, self.counters.step, validation)


class _Window:
    """Sums of what happened since the last log record."""

    def __init__(self) -> None:
        self._results: list[StepResult] = []
        self._started = time.monotonic()

    def add(self, result: StepResult) -> None:
        self._results.append(result)

    def summary(self) -> dict[str, Any]:
        images = sum(r.images for r in self._results)
        elapsed = max(time.monotonic() - self._started, 1e-9)
        record: dict[str, Any] = {"images_per_second": round(images / elapsed, 1)}
        for name in ("loss", "accuracy", "auxiliary_loss", "auxiliary_accuracy"):
            values = [v for r in self._results if (v := getattr(r, name)) is not None]
            if values:
                record[name] = torch.stack(values).mean().item()
        return record


def check_folder(
    folder: Path,
    config: Config | None = None,
    resume: bool = False,
    marker: str = "",
    unfinished: Collection[str] = (),
) -> None:
    """Refuses to write over anything: earlier results, another recipe, somebody's files.

    Args:
        folder: Where results are to go.
        config: The recipe behind them; None if earlier results cannot be gone on with.
        resume: Whether earlier results of the same recipe may be gone on with.
        marker: File that holds the recipe of earlier results.
        unfinished: Files that count as nothing if there are no others.
    """
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise UserError(f"{existing} is a file: choose a folder with --out")
    if not os.access(existing, os.W_OK):
        raise UserError(f"{existing} cannot be written to: choose another --out")
    if not folder.is_dir() or {path.name for path in folder.iterdir()} <= set(unfinished):
        return
    recipe = folder / marker
    if config is None or not recipe.exists():
        raise UserError(f"{folder} holds other files: choose a new folder with --out")
    theirs = load_recipe(recipe)
    differing = config.differences(theirs)
    if differing:
        raise UserError(
            f"{folder} holds results of another recipe ({'; '.join(differing[:3])}): "
            "use the same settings, or choose another --out"
        )
    if not resume:
        raise UserError(
            f"{folder} already holds results: add --resume to go on with them, "
            "or choose another --out"
        )


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Turns Ctrl-C and SIGTERM into a flag; a second Ctrl-C interrupts at once."""
    received = False

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received:
            signal.default_int_handler(number, frame)
        received = True

    try:
        previous = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs us handles signals
        previous = {}
    try:
        yield lambda: received
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
