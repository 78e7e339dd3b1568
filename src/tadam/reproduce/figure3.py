"""Figure 3: how strongly each layer is conditioned, |gamma0| and |beta0| of trained models."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tadam.errors import UserError
from tadam.models.find import find_model
from tadam.models.modelfile import load_model
from tadam.reports import plots
from tadam.reports.figure import PALETTE, available, new_figure, save_png, style
from tadam.reproduce.experiments import DATASETS, check_choice, stem, stems
from tadam.reproduce.origin import Origin, origin, origin_lines
from tadam.reproduce.published import seen
from tadam.reproduce.runs import stored_runs
from tadam.reproduce.table_files import write_rows
from tadam.system.files import write_text
from tadam.system.untrusted_json import parse_json
from tadam.training.run_folder import check_results

FIGURE3_COLUMNS = ("layer", "median |gamma0|", "from", "to", "median |beta0|", "from", "to")
#: Experiments whose runs may be conditioned.
_EXPERIMENTS = ("table3", "table3-fair", "figure4")


@dataclass(frozen=True)
class Multipliers:
    """A model's gamma0 and beta0 by layer, counted from 1."""

    model: str
    gamma0: dict[int, float]
    beta0: dict[int, float]


@dataclass(frozen=True)
class Figure3:
    """The multipliers of all models, and the data set that they were trained on."""

    dataset: str
    models: tuple[Multipliers, ...]
    origin: Origin = field(default_factory=dict)

    def layers(self) -> list[int]:
        """Every layer that some model conditions."""
        return sorted({layer for model in self.models for layer in model.gamma0})

    def sizes(self, name: str, layer: int) -> list[float]:
        """Absolute values of `gamma0` or `beta0` in a layer, ascending."""
        found = (getattr(model, name).get(layer) for model in self.models)
        return sorted(abs(value) for value in found if value is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`; a layer's number becomes a string."""
        medians = {
            name: {layer: median(self.sizes(name, layer)) for layer in self.layers()}
            for name in ("gamma0", "beta0")
        }
        return {"experiment": "figure3", **asdict(self), "medians_of_sizes": medians}


def load_figure3(path: Path) -> Figure3:
    """Reads what `to_json` returned."""
    try:
        stored = parse_json(path.read_bytes())
        models = [
            Multipliers(
                one["model"],
                {int(layer): float(value) for layer, value in one["gamma0"].items()},
                {int(layer): float(value) for layer, value in one["beta0"].items()},
            )
            for one in stored["models"]
        ]
        made = dict(stored.get("origin", {}))
        origin_lines(made)
        return Figure3(stored["dataset"], tuple(models), made)
    except (ValueError, OverflowError, TypeError, KeyError, AttributeError):
        raise UserError(f"{path} was not written by tadam reproduce figure3: remove it") from None


def reproduce_figure3(
    out: str | Path, dataset: str = "fc100", models: Sequence[str | Path] = ()
) -> tuple[Figure3, list[Path]]:
    """Reads the multipliers of trained models and writes figure3.json, .md and .png.

    Args:
        out: Reproduction folder.
        dataset: The data set whose runs to look for there.
        models: Run folders or weights files to read instead.
    """
    started = time.monotonic()
    check_choice("data set", [dataset], DATASETS, "dataset")
    _check_old(Path(out), stem("figure3", dataset))
    folder = Path(out)
    places = [folder / name for one in _EXPERIMENTS for name in stems(one, dataset)]
    found = {str(model): find_model(model) for model in models}
    if not models:
        for run in (run for place in places for run in _conditioned(place)):
            found[str(run.relative_to(folder))] = find_model(run)
    if not found:
        raise UserError(
            f"{folder} has no trained model with task conditioning: reproduce the rows "
            "alpha-tc and tadam of table3 first, or name runs with `models`"
        )
    read = [_read(name, path) for name, path in found.items()]
    trained_on = ", ".join(sorted({name for name, _ in read}))
    named = [word for model in models for word in ("--models", model)]
    made = origin(["figure3", "--dataset", dataset, *named], started)
    figure = Figure3(trained_on, tuple(multipliers for _, multipliers in read), made)
    return figure, write_figure3(figure, folder, stem("figure3", dataset))


def _check_old(folder: Path, name: str) -> None:
    """Refuses to replace anything but an earlier figure 3."""
    old = folder / f"{name}.json"
    if old.exists():
        load_figure3(old)
    else:
        check_results(folder, name)


def _conditioned(folder: Path) -> list[Path]:
    """Folders of finished runs with task conditioning."""
    runs = stored_runs(folder)
    return [
        folder / run.cell.folder(run.seed)
        for run in runs
        if run.settings["conditioning"]["enabled"]
    ]


def _read(name: str, path: Path) -> tuple[str, Multipliers]:
    """The data set that a model was trained on, and its multipliers."""
    model, info = load_model(path)
    multipliers = model.logged_at_validation()
    if "gamma0" not in multipliers:
        raise UserError(f"{name} has no task conditioning: leave it out of `models`")
    gamma0, beta0 = (
        {int(layer): value for layer, value in multipliers[kind].items()}
        for kind in ("gamma0", "beta0")
    )
    return info.config.data.name, Multipliers(name, gamma0, beta0)


def figure3_rows(figure: Figure3) -> list[list[str]]:
    """Table rows under `FIGURE3_COLUMNS`, one per layer."""
    rows = []
    for layer in figure.layers():
        cells = [str(layer)]
        for name in ("gamma0", "beta0"):
            sizes = figure.sizes(name, layer)
            cells += [f"{value:.2g}" for value in (median(sizes), sizes[0], sizes[-1])]
        rows.append(cells)
    return rows


def markdown(figure: Figure3, heading: str = "#") -> str:
    """The table, beside what the paper reports."""
    lines = [
        f"{heading} Figure 3: how strongly each layer is conditioned, {figure.dataset}",
        "",
        f"|gamma0| and |beta0| of {count_of(figure)}, by layer. {seen('figure3')}",
        "",
        "| " + " | ".join(name.replace("|", "\\|") for name in FIGURE3_COLUMNS) + " |",
        "|" + "---:|" * len(FIGURE3_COLUMNS),
        *("| " + " | ".join(row) + " |" for row in figure3_rows(figure)),
        "",
        "Models: " + ", ".join(model.model for model in figure.models) + ".",
        *origin_lines(figure.origin),
    ]
    return "\n".join(lines) + "\n"


def count_of(figure: Figure3) -> str:
    """The number of models, in words."""
    return "1 trained model" if len(figure.models) == 1 else f"{len(figure.models)} trained models"


def write_figure3(figure: Figure3, folder: Path, name: str) -> list[Path]:
    """Writes `name`.json, .md, .csv, .tex and, if matplotlib is installed, .png."""
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    write_text(paths[0], json.dumps(figure.to_json(), indent=2) + "\n")
    write_text(paths[1], markdown(figure))
    title = f"Figure 3: conditioning by layer, {count_of(figure)}, {figure.dataset}"
    paths += write_rows(folder, name, title, FIGURE3_COLUMNS, figure3_rows(figure))
    if available():
        paths.append(folder / f"{name}.png")
        _draw(figure, paths[-1])
    return paths


def _draw(figure: Figure3, path: Path) -> None:
    """Draws a box per layer, with a dot per model; a log axis has no place for zeros."""
    drawing, panels = new_figure(height=480, rows=2)
    layers = figure.layers()
    for axes, name, colour in zip(panels, ("gamma0", "beta0"), PALETTE, strict=False):
        sizes = [[size for size in figure.sizes(name, layer) if size > 0] for layer in layers]
        with style():
            line = {"color": colour}
            axes.boxplot(
                sizes,
                positions=layers,
                widths=0.6,
                whis=(0, 100),
                manage_ticks=False,
                boxprops=line,
                whiskerprops=line,
                capprops=line,
                medianprops={**line, "linewidth": 2.5},
            )
            for layer, values in zip(layers, sizes, strict=True):
                axes.plot([layer] * len(values), values, "o", color=colour, alpha=0.5, ms=3.5)
            plots.scale_axes(axes, logx=False, logy=True)
            axes.set_xticks(layers, [str(layer) for layer in layers])
        plots.label_axes(
            axes,
            "layer" if name == "beta0" else "",
            f"|{name}|",
            title=f"|{name}| of {count_of(figure)}, {figure.dataset}",
        )
    save_png(drawing, path)
