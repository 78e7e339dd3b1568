"""Do tasks with classes in common have similar representations (TADAM, sec. 2.2)? A picture.

Around each of a few sets of four classes, tasks are drawn that have these four and one other. If
representations cluster by shared classes, the nearest task to each has the same four.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tadam.data.episodes import bits, uniforms
from tadam.errors import UserError
from tadam.methods.task_description import REPRESENTATIONS, TaskDescription
from tadam.metric import prototypes
from tadam.reports import plots
from tadam.reports.figure import PALETTE, available, new_figure, save_png, style
from tadam.reproduce.embedded_tasks import EmbeddedSplit, embedded_split
from tadam.reproduce.origin import Origin, origin_lines
from tadam.reproduce.published import seen
from tadam.reproduce.table_files import write_rows
from tadam.system.files import write_text
from tadam.system.progress import Progress
from tadam.training.run_folder import check_results

CLUSTER_COLUMNS = ("representation", "nearest shares its four, %", "by chance, %", "distance ratio")
_TITLE = "Task representations and shared classes"
_CORES, _TASKS, _SHARED, _SHOT = 6, 25, 4, 5


@dataclass(frozen=True)
class TaskClusters:
    """How tasks cluster, by kind of representation.

    Attributes:
        model: The model and its data.
        nearest: Share of tasks whose nearest neighbour has the same four classes.
        ratio: Mean distance between tasks with the same four, divided by that between others.
        plane: The first two principal components of each task, (tasks, 2).
        chance: What `nearest` would be without any clustering.
        origin: See `tadam.reproduce.origin`.
    """

    model: str
    seed: int
    nearest: dict[str, float]
    ratio: dict[str, float]
    plane: dict[str, list[list[float]]]
    chance: float = (_TASKS - 1) / (_CORES * _TASKS - 1)
    origin: Origin = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {"experiment": "task-clusters", **asdict(self)}


@torch.inference_mode()
def task_clusters(
    model: str | Path, dataset: str | None = None, seed: int = 0, progress: Progress | None = None
) -> TaskClusters:
    """Represents tasks around a few sets of classes of the test split in each way."""
    found = embedded_split(model, dataset, "test", progress)
    classes = len(found.store.class_names)
    if classes < _SHARED + 2:
        raise UserError(f"{found.name} has {classes} classes, but this takes {_SHARED + 2} or more")
    support, cores = _supports(found, seed)
    z = found.z[torch.from_numpy(support)]  # (T, N, D)
    labels = torch.arange(_SHARED + 1).repeat_interleave(_SHOT).expand(len(z), -1)
    c = prototypes(z, labels, _SHARED + 1)
    nearest, ratio, plane = {}, {}, {}
    for kind in REPRESENTATIONS:
        task = TaskDescription(kind, z.shape[2])(z, labels, c).double().numpy()
        task = (task - task.mean(axis=0)) / (task.std(axis=0) + 1e-6)
        distances = np.linalg.norm(task[:, None] - task[None], axis=2)
        same = cores[:, None] == cores[None]
        apart = ~np.eye(len(task), dtype=bool)
        ratio[kind] = float(distances[same & apart].mean() / distances[~same].mean())
        np.fill_diagonal(distances, np.inf)
        nearest[kind] = float((cores[distances.argmin(axis=1)] == cores).mean())
        directions = np.linalg.svd(task, full_matrices=False)[2][:2]
        plane[kind] = (task @ directions.T).tolist()
    return TaskClusters(found.name, seed, nearest, ratio, plane)


def _supports(
    found: EmbeddedSplit, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of the support images of each task, (T, N), and the set it belongs to, (T,)."""
    classes, rows, cores = len(found.store.class_names), [], []
    for core in range(_CORES):
        order = np.argsort(uniforms(bits(seed, 0, core), classes), kind="stable")
        for task in range(_TASKS):
            source = bits(seed, 1, core * _TASKS + task)
            other = order[_SHARED + int(uniforms(source, 1)[0] * (classes - _SHARED))]
            chosen = []
            for k in (*order[:_SHARED], other):
                own = found.rows(int(k))
                chosen.append(own[np.argsort(uniforms(source, len(own)), kind="stable")[:_SHOT]])
            rows.append(np.concatenate(chosen))
            cores.append(core)
    return np.stack(rows), np.array(cores)


def cluster_rows(result: TaskClusters) -> list[list[str]]:
    """Table rows under `CLUSTER_COLUMNS`."""
    return [
        [kind, f"{100 * share:.1f}", f"{100 * result.chance:.1f}", f"{result.ratio[kind]:.2f}"]
        for kind, share in result.nearest.items()
    ]


def cluster_notes(result: TaskClusters) -> list[str]:
    """What was measured, and what the paper says."""
    return [
        f"{result.model}: {_CORES} sets of {_SHARED} classes, {_TASKS} 5-shot tasks around each "
        f"with one further class, seed {result.seed}. Nearest: how often the nearest task has the "
        "same four classes. Distance ratio: mean distance between tasks with the same four, "
        "divided by that between others.",
        seen("task-clusters"),
    ]


def load_task_clusters(path: Path) -> TaskClusters:
    """Reads what `to_json` returned."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("experiment") != "task-clusters":
            raise ValueError("another experiment")
        result = TaskClusters(**stored)
        origin_lines(result.origin)
        return result
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(
            f"{path} was not written by tadam reproduce task-clusters: remove it"
        ) from None


def cluster_markdown(result: TaskClusters, heading: str = "#") -> str:
    """The table with its notes."""
    lines = [f"{heading} {_TITLE}", "", *cluster_notes(result), ""]
    lines += ["| " + " | ".join(CLUSTER_COLUMNS) + " |"]
    lines += ["|---" + "|---:" * (len(CLUSTER_COLUMNS) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in cluster_rows(result)]
    lines += origin_lines(result.origin)
    return "\n".join(lines) + "\n"


def write_task_clusters(out: str | Path, result: TaskClusters) -> list[Path]:
    """Writes task-clusters.json, .md, .csv, .tex and, if matplotlib is installed, .png."""
    folder, name = Path(out), "task-clusters"
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    if paths[0].exists():
        load_task_clusters(paths[0])
    else:
        check_results(folder, name)
    write_text(paths[0], json.dumps(result.to_json(), indent=2) + "\n")
    write_text(paths[1], cluster_markdown(result))
    paths += write_rows(folder, name, _TITLE, CLUSTER_COLUMNS, cluster_rows(result))
    if available():
        paths.append(folder / f"{name}.png")
        _draw(result, paths[-1])
    return paths


def _draw(result: TaskClusters, path: Path) -> None:
    """A panel for each representation, a colour for each set of classes."""
    figure, panels = new_figure(height=900, rows=len(result.plane))
    for axes, (kind, points) in zip(panels, result.plane.items(), strict=True):
        flat = np.array(points)
        with style():
            for core in range(_CORES):
                some = slice(core * _TASKS, (core + 1) * _TASKS)
                axes.plot(*flat[some].T, "o", color=PALETTE[core % len(PALETTE)], ms=4, alpha=0.7)
            axes.set_xticks([])
            axes.set_yticks([])
        title = f"{kind}: {100 * result.nearest[kind]:.0f} % have a nearest task with the same four"
        plots.label_axes(axes, "", "", title=title)
    save_png(figure, path)
