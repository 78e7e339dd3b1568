"""Lemma 1 as a command: computed for every distance, kept as JSON, shown as table and plot."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tadam.distributed.jobs import Cluster, Job, Watcher, open_pool, run_jobs
from tadam.errors import UserError
from tadam.metric import DISTANCES
from tadam.reports import plots
from tadam.reports.figure import available, new_figure, save_png
from tadam.reproduce.lemma1 import Lemma1Result, lemma1
from tadam.reproduce.origin import origin, origin_lines
from tadam.reproduce.table_files import write_rows
from tadam.system.files import write_text
from tadam.system.untrusted_json import parse_json
from tadam.training.run_folder import check_results

JSON = "lemma1.json"
LEMMA1_COLUMNS = (
    "alpha",
    "error to alpha→0 limit",
    "error to alpha→∞ limit",
    "norm of gradient/alpha",
)


def lemma1_rows(result: Lemma1Result) -> list[tuple[str, str, str, str]]:
    """Table rows under `LEMMA1_COLUMNS`, one per alpha."""
    return [
        (f"{alpha:.3g}", f"{small:.1e}", f"{large:.1e}", f"{norm:.4g}")
        for alpha, small, large, norm in zip(
            result.alphas,
            result.error_to_small_limit,
            result.error_to_large_limit,
            result.gradient_norm,
            strict=True,
        )
    ]


def reproduce_lemma1(
    out: str | Path,
    seed: int = 0,
    *,
    cluster: Cluster | None = None,
    watcher: Watcher | None = None,
) -> tuple[list[Lemma1Result], list[Path]]:
    """Checks the lemma for every distance and writes the results with `write_lemma1`.

    Args:
        out: Folder for table and plot; results that are already there are returned.
        seed: Fixes network, support and queries.
        cluster: Where to compute, if not here.
        watcher: Shows which distances are in progress.
    """
    stored = Path(out) / JSON
    if stored.exists():
        results = load_lemma1(stored)
        if any(result.seed != seed for result in results):
            raise UserError(f"{stored} has another seed: choose another `out`")
        return results, [stored]
    check_results(Path(out), stored.stem)
    started = time.monotonic()
    jobs = [Job(name, lemma1, {"distance": name, "seed": seed}) for name in DISTANCES]
    with open_pool(cluster, watcher) as pool:
        results = run_jobs(jobs, pool)
    made = origin(["lemma1", "--seed", seed], started)
    results = [replace(result, origin=made) for result in results]
    return results, write_lemma1(results, Path(out))


def load_lemma1(path: Path) -> list[Lemma1Result]:
    """Reads what `write_lemma1` wrote."""
    try:
        raw = parse_json(path.read_bytes())
        results = [Lemma1Result(**_with_tuples(one)) for one in raw]
        if not all(map(lemma1_rows, results)):
            raise ValueError("no alphas")
        origin_lines(results[0].origin)
    except (ValueError, OverflowError, TypeError, AttributeError, LookupError):
        raise UserError(f"{path} is damaged: remove it and reproduce lemma1 again") from None
    return results


def _with_tuples(raw: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in raw.items()}


def write_lemma1(results: Sequence[Lemma1Result], folder: Path) -> list[Path]:
    """Writes lemma1.json, .md, .csv, .tex and, if matplotlib is installed, lemma1.png."""
    paths = [folder / JSON, folder / "lemma1.md"]
    write_text(paths[0], json.dumps([result.to_json() for result in results], indent=2) + "\n")
    write_text(paths[1], _markdown(results))
    title = "Lemma 1: relative error of the gradient divided by alpha"
    rows = [[result.distance, *row] for result in results for row in lemma1_rows(result)]
    paths += write_rows(folder, "lemma1", title, ["distance", *LEMMA1_COLUMNS], rows)
    if available():
        paths.append(folder / "lemma1.png")
        _draw(results, paths[-1])
    return paths


def _markdown(results: Sequence[Lemma1Result]) -> str:
    lines = [
        "# Lemma 1: the gradient at both ends of alpha",
        "",
        "Relative L2 difference between the gradient of J_k divided by alpha and the two limits of",
        "the lemma, for the class k where it is largest.",
    ]
    for result in results:
        lines += [
            "",
            f"## {result.distance}",
            "",
            f"Seed {result.seed}, {result.way} classes, {result.shot} shots, {result.queries} "
            f"queries per class ({result.wrong} of them wrongly assigned), smallest gap between "
            f"the two nearest prototypes {result.smallest_gap:.3g}; norm of the limits "
            f"{result.small_limit_norm:.4g} (alpha→0) and {result.large_limit_norm:.4g} (alpha→∞).",
            "",
            "| " + " | ".join(LEMMA1_COLUMNS) + " |",
            "|" + "---:|" * len(LEMMA1_COLUMNS),
            *("| " + " | ".join(row) + " |" for row in lemma1_rows(result)),
        ]
    lines += origin_lines(results[0].origin)
    return "\n".join(lines) + "\n"


def _draw(results: Sequence[Lemma1Result], path: Path) -> None:
    figure, panels = new_figure(height=60 + 190 * len(results), rows=len(results))
    for axes, result in zip(panels, results, strict=True):
        series = {
            "to the limit α→0": (result.alphas, result.error_to_small_limit),
            "to the limit α→∞": (result.alphas, result.error_to_large_limit),
        }
        plots.draw_lines(axes, series, logx=True, logy=True, ylim=(1e-8, 10.0))
        xlabel = "α" if result is results[-1] else ""
        plots.label_axes(axes, xlabel, "relative error", title=result.distance)
    save_png(figure, path)
