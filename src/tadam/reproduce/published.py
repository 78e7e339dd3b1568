"""The paper's own numbers, from published.toml."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from tadam.reproduce.experiments import Cell


@cache
def numbers() -> dict[str, Any]:
    """The whole file."""
    text = resources.files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published(experiment: str, dataset: str, cell: Cell) -> tuple[float, float] | None:
    """Accuracy and half its interval as fractions; None if the paper has no such row."""
    rows = numbers().get(experiment, {}).get(dataset, {})
    key = cell.train_way if experiment == "table2" else cell.shot
    found = rows.get(cell.row, {}).get(str(key))
    return (found[0] / 100, found[1] / 100) if found else None


def seen(figure: str) -> str:
    """What the paper's text and plots say of a figure."""
    return str(numbers()[figure]["seen"])
