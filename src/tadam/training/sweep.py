"""Cross-validation of alpha: one run per value, the best chosen on the validation split."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tadam.config import Config
from tadam.distributed.jobs import Cluster, Job, Watcher, open_pool, run_jobs
from tadam.errors import UserError
from tadam.recipes import resolve
from tadam.system.files import write_text
from tadam.system.untrusted_json import parse_json
from tadam.training.reporter import Reporter
from tadam.training.run import check_recipe, train
from tadam.training.run_folder import check_folder

#: Holds the recipe that all runs of a sweep share; its alpha is ignored.
SWEEP = "sweep.toml"
_RESULT = "sweep.json"


@dataclass(frozen=True)
class SweepPoint:
    """One value of alpha and the best validation accuracy of its run."""

    alpha: float
    accuracy: float
    ci95: float
    step: int
    seconds: float
    folder: str


@dataclass(frozen=True)
class SweepResult:
    """All points in ascending order of alpha.

    Attributes:
        plot: The curve, once it is drawn (`tadam.reports.sweep_plot`).
    """

    folder: Path
    distance: str
    dataset: str
    way: int
    shot: int
    points: tuple[SweepPoint, ...]
    plot: Path | None = None

    @property
    def best(self) -> SweepPoint:
        """The most accurate point; ties go to the smallest alpha."""
        return max(self.points, key=lambda point: point.accuracy)

    @property
    def at_edge(self) -> bool:
        """Whether the best value is the smallest or largest tried: a better one may lie beyond."""
        return self.best.alpha in (self.points[0].alpha, self.points[-1].alpha)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        fields = asdict(self)
        fields["folder"] = str(self.folder)
        fields["plot"] = str(self.plot) if self.plot else None
        return {**fields, "best": asdict(self.best), "at_edge": self.at_edge}


def sweep_alpha(
    recipe: str | Path | Config,
    values: Sequence[float],
    out: str | Path,
    *,
    settings: Sequence[str] = (),
    dataset: str | None = None,
    device: str = "auto",
    resume: bool = False,
    cluster: Cluster | None = None,
    reporter: Reporter | None = None,
    watcher: Watcher | None = None,
    on_point: Callable[[SweepPoint], None] | None = None,
) -> SweepResult:
    """Trains a recipe once for each fixed alpha and compares validation accuracies.

    Writes `sweep.json` and `sweep.md` into `out`, beside a run folder per value. The test split is
    never used.

    Args:
        recipe: A shipped recipe's name, a TOML file, or a `Config`.
        values: Alphas, at least two.
        out: Sweep folder; must not hold a sweep unless `resume`.
        settings: Changes such as `backbone.width=16`, applied in order.
        dataset: Replaces the recipe's data set.
        device: auto, cpu, cuda or mps.
        resume: Keep the finished runs in `out` and continue an unfinished one; values from an
            earlier sweep stay in the result even if they are not listed again.
        cluster: Train on Ray instead of here, one value at a time; `out` must be on storage that
            all its machines share.
        reporter: Shows each run's progress, if the runs are here.
        watcher: Shows which runs are in progress.
        on_point: Called after each value, in the order in which they finish.
    """
    folder = Path(out)
    base = _base(recipe, settings, dataset)
    check_folder(folder, base, resume, SWEEP)
    found = _found(folder) if resume else []
    alphas = _checked(values, found)
    check_recipe(base, "cpu" if cluster else device)  # the workers' device may not exist here
    jobs = _jobs(base, alphas, folder.absolute(), device, None if cluster else reporter)
    points: dict[int, SweepPoint] = {}

    def keep(index: int, point: SweepPoint) -> None:
        points[index] = point
        if points.keys() >= set(range(len(found))):  # else earlier points would be lost
            write_sweep(_result(folder, base, points))  # so that a crash keeps what is done
        if on_point:
            on_point(point)

    with open_pool(cluster, watcher) as pool:
        write_text(folder / SWEEP, base.to_toml())
        run_jobs(jobs, pool, keep)
    return _result(folder, base, points)


def _jobs(
    base: Config, alphas: Sequence[float], folder: Path, device: str, reporter: Reporter | None
) -> list[Job[SweepPoint]]:
    shared = {"base": base, "device": device, "reporter": reporter}
    runs = [folder / _name(alpha) for alpha in alphas]
    return [
        Job(f"alpha {alpha:g}", _train_point, {"alpha": alpha, "folder": run, **shared}, run)
        for alpha, run in zip(alphas, runs, strict=True)
    ]


def _result(folder: Path, base: Config, points: Mapping[int, SweepPoint]) -> SweepResult:
    ordered = sorted(points.values(), key=lambda point: point.alpha)
    task = (base.data.name, base.episode.way, base.episode.shot)
    return SweepResult(folder, base.metric.distance, *task, tuple(ordered))


def _train_point(
    base: Config, alpha: float, folder: Path, device: str, reporter: Reporter | None
) -> SweepPoint:
    # A finished run returns from its checkpoint at once, an unfinished one continues. A new sweep
    # has neither, unless a worker died and this is a retry.
    run = train(
        base,
        folder,
        settings=[f"metric.alpha={alpha!r}"],
        resume=True,
        device=device,
        reporter=reporter,
    )
    return SweepPoint(
        alpha, run.best_accuracy, run.best_ci95, run.best_step, run.seconds, folder.name
    )


def parse_values(text: str) -> list[float]:
    """Comma-separated numbers, as the command line takes them."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"`values` must be numbers such as 0.5,1,2, got {text!r}") from None


def _name(alpha: float) -> str:
    return f"alpha-{alpha:.12g}"


def _fits(alpha: float) -> bool:
    return 0 < alpha < 1e6


def _checked(values: Sequence[float], found: Sequence[float]) -> list[float]:
    """Alphas of the earlier sweep, then the new ones in ascending order."""
    for value in values:
        if not _fits(value):
            raise UserError(f"`values` must be above 0 and below 1e6, got {value:g}")
    done = {_name(alpha) for alpha in found}
    names = {_name(value) for value in values}
    if len(names) < len(values):
        raise UserError(f"`values` must differ, got {', '.join(f'{v:g}' for v in values)}")
    if len(names | done) < 2:
        raise UserError(f"a sweep needs at least 2 `values`, got {len(values)}")
    return [*found, *sorted(float(value) for value in values if _name(value) not in done)]


def _found(folder: Path) -> list[float]:
    """The alphas that an earlier sweep finished in this folder."""
    path = folder / _RESULT
    if not path.exists():
        return []
    try:
        alphas = [float(point["alpha"]) for point in parse_json(path.read_bytes())["points"]]
    except (OSError, ValueError, OverflowError, KeyError, TypeError):
        alphas = [math.nan]
    if not all(map(_fits, alphas)) or len(set(map(_name, alphas))) < len(alphas):
        raise UserError(
            f"{path} is damaged: delete it and give all `values` again; finished runs are kept"
        )
    return alphas


def _base(recipe: str | Path | Config, settings: Sequence[str], dataset: str | None) -> Config:
    """The recipe that all runs share, with a neutral alpha so that sweeps can be compared."""
    for setting in settings:
        if setting.partition("=")[0].strip() in ("metric.alpha", "metric.learn_alpha"):
            raise UserError(f"leave {setting} out of `settings`: the sweep decides it")
    config = resolve(recipe, settings, dataset)
    if "metric" not in config.method.tables:
        raise UserError(f"method {config.method.name!r} has no alpha to sweep: use another recipe")
    return replace(config, metric=replace(config.metric, alpha=1.0, learn_alpha=False))


def write_sweep(result: SweepResult) -> None:
    """Writes `sweep.json` and `sweep.md` into the sweep's folder."""
    write_text(result.folder / _RESULT, json.dumps(result.to_json(), indent=2) + "\n")
    write_text(result.folder / "sweep.md", _markdown(result))


def _markdown(result: SweepResult) -> str:
    best = result.best
    lines = [
        f"# alpha on {result.dataset}, {result.way}-way {result.shot}-shot, {result.distance}",
        "",
        "| alpha | validation accuracy | at step |",
        "|---:|---:|---:|",
    ]
    for point in result.points:
        accuracy = f"{point.accuracy:.2%} ± {point.ci95:.2%}"
        mark = "**" if point == best else ""
        lines.append(f"| {point.alpha:g} | {mark}{accuracy}{mark} | {point.step} |")
    lines += ["", f"Best on the validation split: alpha = {best.alpha:g}."]
    if result.at_edge:
        lines.append("It is at the edge of the values tried: a better one may lie beyond.")
    return "\n".join(lines) + "\n"
