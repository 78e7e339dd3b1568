"""A training run in a folder: loop, validation, checkpoints, log, interrupting and resuming."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tadam.config import Config
from tadam.data.catalogue import load_splits
from tadam.data.episodes import EpisodeSampler
from tadam.distributed.ranks import ALONE, Ranks, torchrun_ranks
from tadam.errors import Diverged, Interrupted, UserError
from tadam.evaluation.tasks import Evaluation, check_tasks, evaluate_tasks
from tadam.methods.base import InputSpec, build_model
from tadam.models.find import BEST
from tadam.models.modelfile import ModelInfo, save_model
from tadam.recipes import resolve
from tadam.system.allocator import keep_large_blocks
from tadam.system.device import choose_device
from tadam.system.files import is_left_over, make_folder, write_text
from tadam.system.folder_lock import locked
from tadam.system.interruption import interruption
from tadam.training.checkpoint import LAST, Counters, load_last, save_state, share_state
from tadam.training.log import LOG, RunLog, require_tensorboard
from tadam.training.reporter import Reporter
from tadam.training.run_folder import check_folder
from tadam.training.schedule import validates_after
from tadam.training.trainer import Trainer
from tadam.training.window import Window

RECIPE, LOCK = "recipe.toml", ".lock"
_REMEDY = "`resume` continues from the last checkpoint; torchrun --max-restarts=1 does so by itself"


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended: its folder, its best validation accuracy and the step that reached it."""

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
    """Trains a recipe's model into a folder; under torchrun, the processes share the work.

    Args:
        recipe: A shipped recipe's name, a TOML file, or a `Config`.
        out: Run folder; must not hold a run unless `resume`.
        dataset: Replaces the recipe's data set.
        settings: Changes such as `backbone.width=16`, applied in order.
        resume: Continue from the folder's last checkpoint, bit for bit as if never stopped.
        device: auto, cpu, cuda or mps.
        reporter: Watches the run: shows its progress, or sends its numbers elsewhere.

    Returns:
        The best validation accuracy; the weights behind it are in `out/best.safetensors`.
    """
    folder = Path(out)
    with torchrun_ranks(_REMEDY) as ranks:
        reporter = reporter if ranks.first else None
        reading = reporter.reading if reporter else None
        with ranks.agreed():
            config = resolve(recipe, settings, dataset)
            if ranks.first:
                resume = resume or ranks.begun
                check_run_folder(folder, config, resume)
        ranks.first_here(lambda: load_splits(config.data, reading))
        with ranks.agreed():
            run = _Run(config, folder, device, reporter, ranks)
        return run.run(resume)


def check_run_folder(folder: Path, config: Config, resume: bool) -> None:
    """Refuses a folder that a run of this recipe may not write to."""
    unfinished, recipe = {LOCK}, folder / RECIPE
    # Our own recipe file without a checkpoint: a run was killed before it saved one.
    if os.path.isfile(recipe) and recipe.read_bytes() == config.to_toml().encode():
        unfinished |= {RECIPE, LOG}
    check_folder(folder, config, resume, RECIPE, unfinished)


def check_recipe(config: Config, device: str) -> None:
    """Raises whatever a run of this recipe would raise before its first step."""
    prepare(config, device)


def prepare(config: Config, device: str) -> tuple[Trainer, EpisodeSampler]:
    """Builds the trainer and the validation tasks of a run of this recipe."""
    run = _Run(config, Path(), device, None)
    return run.trainer, run.validation


class _Run:
    def __init__(
        self,
        config: Config,
        folder: Path,
        device: str,
        reporter: Reporter | None,
        ranks: Ranks = ALONE,
    ) -> None:
        keep_large_blocks()
        chosen_device = choose_device(device)
        if config.run.tensorboard:
            require_tensorboard()
        splits = load_splits(config.data, reporter.reading if reporter else None)
        store, validation = splits["train"], config.validation
        self.classes = store.class_names
        if config.augment.rotated_classes:
            store = store.rotated()
        classes = len(store.class_names) if config.method.has_class_head(config) else 0
        self.spec = InputSpec(store.channels, store.image_size, classes)
        self.config, self.folder, self.reporter, self.ranks = config, folder, reporter, ranks
        model = build_model(config, self.spec)
        model.initialise(config, *store.channel_statistics())
        self.trainer = Trainer(config, model, store, chosen_device, ranks)
        self.validation = EpisodeSampler(
            splits["val"],
            validation.way or config.episode.way,
            config.episode.shot,
            validation.queries,
            validation.seed,
            validation.balanced,
            source=f"the val split of {config.data.name}",
            within_family=config.episode.within_family,
        )
        check_tasks(self.validation, validation.tasks)
        self.counters = Counters()

    def run(self, resume: bool) -> TrainingResult:
        """Trains; all checks have passed, so from here on the folder is written to."""
        with ExitStack() as stack:
            log = None
            with self.ranks.agreed():
                if self.ranks.first:
                    stack.enter_context(locked(self.folder / LOCK, self.folder))
                    check_run_folder(self.folder, self.config, resume)  # again: we hold the lock
                    log = self._open()
                    self.ranks.begin()
            return self._run(log)

    def _run(self, log: RunLog | None) -> TrainingResult:
        try:
            self.trainer.connect()
            self.counters = share_state(self.trainer, self.counters)
            with interruption() as interrupted:
                self._loop(log, interrupted)
        finally:
            if log:
                log.close()
            if self.reporter:
                self.reporter.stop()
        c = self.counters
        return TrainingResult(
            self.folder, c.step, c.best_accuracy, c.best_ci95, c.best_step, c.seconds
        )

    def _open(self) -> RunLog:
        """Resumes the folder's run, or starts one."""
        last = self.folder / LAST
        for path in self.folder.iterdir():
            if is_left_over(path):  # by a killed run: we hold the lock
                path.unlink()
        if saved := load_last(self.folder, self.trainer, self.classes):
            self.counters = saved
            if self.counters.best_step and not (self.folder / BEST).is_file():
                raise UserError(f"{self.folder / BEST} is gone: put it back, or start a new run")
        elif (self.folder / BEST).exists():
            raise UserError(f"{last} is gone: put it back, or start a new run with another `out`")
        else:
            make_folder(self.folder)
            if not (self.folder / RECIPE).exists():  # an existing one was found to be the same
                write_text(self.folder / RECIPE, self.config.to_toml())
        return RunLog(self.folder, self.counters.step, self.config.run.tensorboard)

    def _loop(self, log: RunLog | None, interrupted: Callable[[], bool]) -> None:
        run, counters = self.config.run, self.counters
        steps = self.config.schedule.episodes
        before, started = counters.seconds, time.monotonic()
        window = Window()
        if self.reporter:
            self.reporter.start(counters.step, steps)
        while counters.step < steps and not counters.stopped_early:
            window.add(self.trainer.step(counters.step))
            counters.step += 1
            counters.seconds = before + time.monotonic() - started
            done, record = counters.step == steps, None
            validate = validates_after(counters.step, self.config)
            checkpoint = done or validate or counters.step % run.checkpoint_every == 0
            stop = self.ranks.any(interrupted())
            if checkpoint or stop or counters.step % run.log_every == 0:
                record = self._record(window)
                if log:
                    log.write(record)
                window = Window()
            if self.reporter:
                self.reporter.step(counters.step, record)
            if validate or checkpoint or stop:
                self._require_finite()
            if validate:
                self._validate(log)
                window = Window()  # validation time is not training time
            if checkpoint or stop:
                if log:
                    log.sync()  # a checkpoint must not know more than the log
                self._save_state()
            if stop and not done:
                raise Interrupted(
                    f"stopped after step {counters.step} of {steps}; the checkpoint is in "
                    f"{self.folder}: start it again with `resume` to continue from there"
                )

    def _record(self, window: Window) -> dict[str, Any]:
        """The log record for the steps since the last one; raises if a loss has diverged."""
        record = {"step": self.counters.step, **window.summary(self.ranks)}
        record |= self.trainer.model.logged()
        record["learning_rate"] = self.trainer.learning_rate
        record["seconds"] = round(self.counters.seconds, 3)
        for name, loss in record.items():
            if name.endswith("loss") and not abs(loss) <= self.config.run.max_loss:  # also if NaN
                raise self._diverged(f"{name} became {loss:.4g}")
        return record

    def _diverged(self, what: str) -> Diverged:
        last = self.folder / LAST
        kept = f"the last good checkpoint is {last}; " if last.exists() else ""
        return Diverged(
            f"{what} by step {self.counters.step}: training diverged; {kept}"
            "try a lower optimiser.learning_rate or metric.alpha"
        )

    def _validate(self, log: RunLog | None) -> None:
        counters, patience = self.counters, self.config.validation.patience
        result = evaluate_tasks(
            self.trainer.model,
            self.validation,
            self.config.validation.tasks,
            controls=False,
            ranks=self.ranks,
        )
        best = result.accuracy > counters.best_accuracy
        if best:
            counters.best_accuracy, counters.best_ci95 = result.accuracy, result.ci95 or 0.0
            counters.best_step, counters.stale = counters.step, 0
            if self.ranks.first:
                save_model(self.folder / BEST, self.trainer.model, self._info(result))
        else:
            counters.stale += 1
            counters.stopped_early = 0 < patience <= counters.stale
        record: dict[str, Any] = {
            "step": counters.step,
            "val_accuracy": result.accuracy,
            "val_ci95": result.ci95,
        }
        record |= self.trainer.model.logged_at_validation()
        if log:
            log.write(record)
        if self.reporter:
            self.reporter.validated(record, best)

    def _require_finite(self) -> None:
        # The loss reflects the weights before the step; those we save must be finite as well.
        if not all(t.isfinite().all() for t in self.trainer.model.state_dict().values()):
            raise self._diverged("a weight became infinite or NaN")

    def _save_state(self) -> None:
        if self.ranks.first:
            save_state(self.folder / LAST, self.trainer, self.counters, self._info())

    def _info(self, result: Evaluation | None = None) -> ModelInfo:
        validation = {"accuracy": result.accuracy, "ci95": result.ci95 or 0.0} if result else {}
        step, classes = self.counters.step, self.classes
        return ModelInfo(self.config, self.spec, step, validation, classes)
