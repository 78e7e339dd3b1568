"""The paper's own numbers, from published.toml."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from tadam.reproduce.ablations import ABLATIONS
from tadam.reproduce.experiments import Cell


@cache
def numbers() -> dict[str, Any]:
    """The whole file."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published(experiment: str, dataset: str, cell: Cell) -> tuple[float, float] | None:
    """Accuracy and its interval's half-width as fractions; None if the paper has no such row."""
    row = cell.row
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
