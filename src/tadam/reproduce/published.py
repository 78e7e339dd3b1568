"""The paper's own numbers, from published.toml."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.experiments import Cell
from tadam.reproduce.table1 import dataset_key, table1_published


@cache
def numbers() -> dict[str, Any]:
    """The whole file."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published(experiment: str, dataset: str, cell: Cell) -> tuple[float, float] | None:
    """Accuracy and its interval's half-width as fractions; None if the paper has no such row.

    The half-width is NaN where none was published.
    """
    row = cell.row
    if experiment == "table1":
        return table1_published(numbers(), dataset, row, cell.shot)
    if experiment in ABLATIONS:
        ablation = ABLATIONS[experiment]
        variant = ablation.rows.get(row)
        if variant is None or not variant.published:
            return None
        experiment, row = ablation.table, variant.base
    rows = numbers().get(experiment, {}).get(dataset, {})
    key = cell.train_way if experiment == "table2" else cell.shot
    found = rows.get(row, {}).get(str(key))
    return (found[0] / 100, found[1] / 100) if found else None


def snell(row: str) -> str:
    """Accuracy in the paper on Prototypical Networks for a row of Omniglot, in percent."""
    return str(numbers()["omniglot"]["snell"][row])


def seen(experiment: str) -> str:
    """What was reported for an experiment that is not in the paper's tables."""
    return str(numbers()[experiment.removesuffix("-no-ten")]["seen"])


def table1_sources(dataset: str) -> list[str]:
    """Where Table 1's published numbers are from: those on the data set, and on mini-ImageNet."""
    sources = numbers()["table1"]["sources"]
    return [
        sources[key]
        for key in dict.fromkeys((dataset_key(dataset), "mini_imagenet"))
        if key in sources
    ]
