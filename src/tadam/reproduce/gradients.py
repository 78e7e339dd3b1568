"""Which queries still give gradients: their share against alpha (TADAM, sec. 2.1).

The gradient of a query's loss with respect to its logits is `p - y`; divided by alpha, the gradient
of the embedding is made of these. A query gives one as far as 1 - p(true class) is not zero. With a
large alpha that is left of wrongly assigned queries alone, which Lemma 1 states for the limit.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tadam.data.episodes import EpisodeSampler
from tadam.errors import UserError
from tadam.metric import prototypes
from tadam.reports import plots
from tadam.reports.figure import available, save_png
from tadam.reproduce.embedded_tasks import embedded_split
from tadam.reproduce.origin import Origin, origin_lines
from tadam.reproduce.published import seen
from tadam.reproduce.table_files import write_rows
from tadam.system.files import write_text
from tadam.system.progress import Progress
from tadam.training.run_folder import check_results

GRADIENT_COLUMNS = ("alpha", "queries with a gradient, %", "mean 1 - p(true), %")
_TITLE = "Queries that give gradients, against alpha"
#: A query counts if 1 - p(true class) is above this.
_LEAST = 0.01
_GRID = tuple(10 ** (i / 4) for i in range(-4, 13))


@dataclass(frozen=True)
class GradientShares:
    """For each alpha, the share of queries with a gradient and the mean of 1 - p(true class).

    Attributes:
        model: The model and its data.
        distance: The distance that alpha scales.
        trained_alpha: The alpha that the model was trained with.
        wrong: Share of queries that are assigned to a wrong class, whatever alpha is.
        least: A query counts if 1 - p(true class) is above this.
        origin: See `tadam.reproduce.origin`.
    """

    model: str
    distance: str
    trained_alpha: float
    wrong: float
    alphas: tuple[float, ...]
    shares: tuple[float, ...]
    weights: tuple[float, ...]
    tasks: int
    seed: int
    least: float = _LEAST
    origin: Origin = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {"experiment": "gradients", **asdict(self)}


@torch.inference_mode()
def gradient_shares(
    model: str | Path,
    dataset: str | None = None,
    alphas: Sequence[float] = _GRID,
    tasks: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> GradientShares:
    """Measures on random 5-way 5-shot tasks of the training classes, where gradients arise."""
    found = embedded_split(model, dataset, "train", progress)
    metric = found.model.metric
    sampler = EpisodeSampler(found.store, 5, 5, 25, seed)
    distances, labels = [], []
    for number in range(tasks):
        task = sampler.task(number)
        c = prototypes(found.z[task.support], torch.from_numpy(task.support_labels), 5)
        distances.append(metric.distance(found.z[task.query], c)[0])
        labels.append(torch.from_numpy(task.query_labels[0]))
    d, y = torch.cat(distances).double(), torch.cat(labels)  # (T*Q, K) and (T*Q,)
    left = [1 - (-alpha * d).softmax(dim=1)[torch.arange(len(y)), y] for alpha in alphas]
    return GradientShares(
        found.name,
        metric.distance_name,
        metric.alpha.item(),
        float((d.argmin(dim=1) != y).double().mean()),
        tuple(alphas),
        tuple(float((weight > _LEAST).double().mean()) for weight in left),
        tuple(float(weight.mean()) for weight in left),
        tasks,
        seed,
    )


def gradient_rows(result: GradientShares) -> list[list[str]]:
    """Table rows under `GRADIENT_COLUMNS`."""
    numbers = zip(result.alphas, result.shares, result.weights, strict=True)
    return [[f"{a:.3g}", f"{100 * s:.1f}", f"{100 * w:.1f}"] for a, s, w in numbers]


def gradient_notes(result: GradientShares) -> list[str]:
    """What was measured, and what the paper says."""
    return [
        f"{result.model}, {result.distance} distance, trained with alpha "
        f"{result.trained_alpha:.3g}, {result.tasks} 5-way 5-shot tasks, seed {result.seed}. A "
        f"query gives a gradient if 1 - p(true class) is above {100 * result.least:g} %. "
        f"{100 * result.wrong:.1f} % of the queries are wrongly assigned.",
        seen("gradients"),
    ]


def load_gradients(path: Path) -> GradientShares:
    """Reads what `to_json` returned."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("experiment") != "gradients":
            raise ValueError("another experiment")
        lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
        fields: dict[str, Any] = {**stored, **lists}
        result = GradientShares(**fields)
        origin_lines(result.origin)
        return result
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{path} was not written by tadam reproduce gradients: remove it") from None


def gradient_markdown(result: GradientShares, heading: str = "#") -> str:
    """The table with its notes."""
    lines = [f"{heading} {_TITLE}", "", *gradient_notes(result), ""]
    lines += ["| " + " | ".join(GRADIENT_COLUMNS) + " |", "|" + "---:|" * len(GRADIENT_COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in gradient_rows(result)]
    lines += origin_lines(result.origin)
    return "\n".join(lines) + "\n"


def write_gradients(out: str | Path, result: GradientShares) -> list[Path]:
    """Writes gradients.json, .md, .csv, .tex and, if matplotlib is installed, .png."""
    folder, name = Path(out), "gradients"
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    if paths[0].exists():
        load_gradients(paths[0])
    else:
        check_results(folder, name)
    write_text(paths[0], json.dumps(result.to_json(), indent=2) + "\n")
    write_text(paths[1], gradient_markdown(result))
    paths += write_rows(folder, name, _TITLE, GRADIENT_COLUMNS, gradient_rows(result))
    if available():
        series = {
            "with a gradient": (result.alphas, result.shares),
            "wrongly assigned": (result.alphas, [result.wrong] * len(result.alphas)),
        }
        figure = plots.line_chart(
            series, f"alpha ({result.distance})", "share of queries", logx=True, percent=True
        )
        paths.append(folder / f"{name}.png")
        save_png(figure, paths[-1])
    return paths
