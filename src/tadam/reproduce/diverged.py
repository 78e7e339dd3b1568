"""A run of an experiment that diverged: a result of its own, stored and shown as such."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tadam.errors import UserError
from tadam.reproduce.experiments import Cell
from tadam.system.files import write_text
from tadam.system.untrusted_json import parse_json

_DIVERGED = "diverged.json"


@dataclass(frozen=True)
class DivergedRun:
    """A training run whose loss became NaN or too large, or a weight; it is not tested.

    Attributes:
        reason: What became NaN or too large, and by which step.
        settings: The whole recipe.
        command: Reproduces this run.
    """

    row: str
    shot: int
    train_way: int
    seed: int
    reason: str
    settings: dict[str, Any]
    command: str
    version: str
    date: str

    @property
    def cell(self) -> Cell:
        """The row, shots and ways it belongs to."""
        return Cell(self.row, self.shot, self.train_way)

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.cell.folder(self.seed)} diverged: {self.reason} (`{self.command}`)."


def save_diverged(folder: Path, run: DivergedRun) -> None:
    """Writes it into its run folder, so that it is not trained again."""
    write_text(folder / _DIVERGED, json.dumps(run.to_json(), indent=2) + "\n")


def load_diverged(folder: Path) -> DivergedRun | None:
    """A run that diverged; None if it did not, as far as is known."""
    path = folder / _DIVERGED
    if not path.exists():
        return None
    try:
        return DivergedRun(**parse_json(path.read_bytes()))
    except (ValueError, OverflowError, TypeError):
        raise UserError(f"{path} is damaged: remove its folder to train this run again") from None


def diverged_runs(folder: Path) -> list[DivergedRun]:
    """All runs in a folder that diverged, sorted by name."""
    runs = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [found for run in runs if (found := load_diverged(run)) is not None]
