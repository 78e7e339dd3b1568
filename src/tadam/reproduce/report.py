"""All results of a reproduction folder on one page, with `not run` for the rest."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tadam.errors import UserError
from tadam.recipes.method_recipes import METHOD_DATASETS
from tadam.reproduce import figure3
from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.experiments import DATASETS, Request, stem, stems
from tadam.reproduce.gradients import gradient_markdown, load_gradients
from tadam.reproduce.lemma1_results import load_lemma1
from tadam.reproduce.origin import origin_lines
from tadam.reproduce.published import seen
from tadam.reproduce.table_text import NOT_RUN, markdown
from tadam.reproduce.tables import build_table, load_table
from tadam.reproduce.task_clusters import cluster_markdown, load_task_clusters
from tadam.system.files import write_text

_HEAD = """\
# The paper's results, published and reproduced

Written by `tadam reproduce report` from the JSON files in {folder}. Every training run there has \
all of its settings, its machine and the command that reproduces it; a result that took no \
training has command and machine under it if they were recorded. Minutes are wall-clock time, \
whatever else was running.
"""
#: The preset to list as not run while an experiment has no results.
_PRESETS = {"table2": "paper", "table3": "cpu", "figure4": "cpu", "omniglot": "cpu"}


def write_report(out: str | Path, page: str | Path) -> Path:
    """Writes the page of a reproduction folder."""
    if not Path(out).is_dir():
        raise UserError(
            f"there is no folder {out}: run 'tadam reproduce' first, or give another `out`"
        )
    text = report(Path(out), Path(page))
    if Path(page).exists() and not _is_ours(Path(page)):
        raise UserError(f"{page} is not a page of 'tadam reproduce report': choose another `page`")
    write_text(Path(page), text)
    return Path(page)


def _is_ours(page: Path) -> bool:
    title = _HEAD.partition("\n")[0].encode()
    return page.is_file() and page.read_bytes().startswith(title)


def report(folder: Path, page: Path) -> str:
    """The page as Markdown, with links relative to where the page is."""
    relative = Path(os.path.relpath(folder, page.parent))
    link = f"[{relative.as_posix()}]({relative.as_posix()})" if relative.name else "this folder"
    parts = [_HEAD.format(folder=link)]
    nine = [name for dataset in METHOD_DATASETS for name in stems("table1", dataset)]
    parts += [_stored(folder, relative, name) for name in _existing(folder, nine)]
    for name in ("table2", "table3", "figure4"):
        parts += _tables(folder, relative, name)
    for dataset in DATASETS:
        name = stem("figure3", dataset)
        if (folder / f"{name}.json").exists():
            text = figure3.markdown(figure3.load_figure3(folder / f"{name}.json"), "##")
            parts.append(text + _picture(folder, relative, name))
        elif dataset == "fc100":
            parts.append(f"## Figure 3\n\n{NOT_RUN.capitalize()}. {seen('figure3')}\n")
    parts += [*_tables(folder, relative, "omniglot"), _lemma1(folder, relative)]
    parts += _others(folder, relative)
    return "\n".join(parts)


def _others(folder: Path, relative: Path) -> list[str]:
    """Ablations and pictures that have results, and the names of those that have none."""
    parts, missing = [], []
    for name in ("figure4-no-ten", *ABLATIONS):
        every = [one for dataset in DATASETS for one in stems(name, dataset)]
        found = _existing(folder, every)
        parts += [_stored(folder, relative, one) for one in found]
        missing += [] if found else [name]
    pictures: dict[str, Callable[[Path], str]] = {
        "gradients": lambda path: gradient_markdown(load_gradients(path), "##"),
        "task-clusters": lambda path: cluster_markdown(load_task_clusters(path), "##"),
    }
    for name, text_of in pictures.items():
        if (folder / f"{name}.json").exists():
            text = text_of(folder / f"{name}.json")
            parts.append(text + _picture(folder, relative, name))
        else:
            missing.append(name)
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        parts.append(f"## Without results\n\nExperiments that nobody has run here: {names}.\n")
    return parts


def _tables(folder: Path, relative: Path, experiment: str) -> list[str]:
    """What has results, on both data sets and with both presets; without any on FC100, no rows."""
    parts = []
    for dataset in DATASETS:
        found = _existing(folder, stems(experiment, dataset))
        parts += [_stored(folder, relative, name) for name in found]
        if dataset == "fc100" and not found:
            parts.append(
                markdown(build_table(Request(experiment, preset=_PRESETS[experiment])), "##")
            )
    return parts


def _existing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if (folder / f"{name}.json").exists()]


def _stored(folder: Path, relative: Path, name: str) -> str:
    text = markdown(load_table(folder / f"{name}.json"), "##")
    return text + _picture(folder, relative, name)


def _picture(folder: Path, relative: Path, name: str) -> str:
    if not (folder / f"{name}.png").exists():
        return ""
    return f"\n![{name}]({(relative / name).as_posix()}.png)\n"


def _lemma1(folder: Path, relative: Path) -> str:
    lines = ["## Lemma 1: the gradient at both ends of alpha", ""]
    path = folder / "lemma1.json"
    if not path.exists():
        return "\n".join([*lines, f"{NOT_RUN.capitalize()}."]) + "\n"
    lines += [
        "Relative L2 difference between the gradient of the loss, divided by alpha, and the limit "
        "that the lemma gives, at the smallest and the largest alpha tried (`tadam reproduce "
        "lemma1`).",
        "",
        "| distance | smallest alpha | error to the limit α→0 | largest alpha | "
        "error to the limit α→∞ |",
        "|---|---:|---:|---:|---:|",
    ]
    results = load_lemma1(path)
    for result in results:
        small = f"{result.alphas[0]:.2g} | {result.error_to_small_limit[0]:.1e}"
        large = f"{result.alphas[-1]:.2g} | {result.error_to_large_limit[-1]:.1e}"
        lines.append(f"| {result.distance} | {small} | {large} |")
    lines += origin_lines(results[0].origin)
    return "\n".join(lines) + "\n" + _picture(folder, relative, "lemma1")
