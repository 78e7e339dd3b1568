"""`predict --copy-to` and `--move-to`, and `tadam undo`: photos into a folder for each class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tadam.cli.files import check_inputs
from tadam.cli.options import Json
from tadam.cli.skipped import told
from tadam.errors import Interrupted, RunFailed, UserError
from tadam.reports.terminal import out, print_json, progress_bar
from tadam.system.interruption import interruption
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.predictions import Prediction
    from tadam.classify.sorting import Filing


@dataclass(frozen=True)
class SortOptions:
    """Where photos are sorted into."""

    copy_to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy each image into DIR/CLASS; overwrites nothing."),
    ] = None
    move_to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Move each image into DIR/CLASS; 'tadam undo' reverts."),
    ] = None

    def checked(self, paths: Sequence[Path]) -> Path | None:
        """The folder to sort into, if any, once it is clear that this can be done."""
        folder = self.copy_to or self.move_to
        if folder is None:
            return None
        if self.copy_to and self.move_to:
            raise UserError("`copy_to` and `move_to` exclude each other: choose one")
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file: name a folder to sort into")
        if self.copy_to:
            from tadam.classify.sorting import inside_any

            for path in inside_any(folder, paths):
                raise UserError(
                    f"copies in {folder} would be among the images of {path}: choose a folder "
                    "outside, or `move_to`"
                )
        return folder


@dataclass(frozen=True)
class Sorted:
    """What became of the photos."""

    folder: Path
    move: bool
    filings: "list[Filing]"
    record: Path | None
    problems: list[str]
    planned: int

    def moved(self, predictions: "Sequence[Prediction]") -> "list[Prediction]":
        """The predictions with the photos where they are now."""
        places = {str(f.source): str(f.target) for f in self.filings} if self.move else {}
        return [
            replace(p, path=places.get(str(Path(p.path).absolute()), p.path)) if p.path else p
            for p in predictions
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        files = [{"from": str(f.source), "to": str(f.target)} for f in self.filings]
        undo = str(self.record) if self.record else None
        return {"sorted": {"files": files, "undo": undo, "skipped": self.problems}}

    def print(self) -> None:
        """Says what was done and how to undo it."""
        if self.record is None:
            out.print(
                f"{printable(self.folder)}: every photo is in its place already", soft_wrap=True
            )
            return
        count = len(self.filings)
        out.print(
            f"{count} {'photo' if count == 1 else 'photos'} {'moved' if self.move else 'copied'} "
            f"to {printable(self.folder)}; to undo it: tadam undo {printable(self.record)}",
            soft_wrap=True,
        )

    def check(self) -> None:
        """An error if not all of it was done."""
        if self.problems:
            action = "moved" if self.move else "copied"
            raise RunFailed(f"{len(self.problems)} of {self.planned} photos were not {action}")
        if len(self.filings) < self.planned:
            raise Interrupted(f"stopped after {len(self.filings)} of {self.planned} photos")


def sort_into(
    folder: Path, predictions: "Sequence[Prediction]", move: bool, problems: list[str]
) -> Sorted:
    """Sorts the photos; Ctrl-C stops after the one under way."""
    from tadam.classify.sorting import alone_in, plan_sorting, sort_photos

    title = "moving" if move else "copying"
    with alone_in(folder), progress_bar(title) as progress, interruption() as stop:
        plan = plan_sorting(predictions, folder)
        done, record = sort_photos(plan, folder, move, problems, progress, stop)
    return Sorted(folder, move, done, record, problems, len(plan))


def undo(
    record: Annotated[
        Path, typer.Argument(metavar="LIST", help="DIR/tadam-undo.jsonl of a sorted folder.")
    ],
    as_json: Json = False,
) -> None:
    """Undo predict --move-to or --copy-to."""
    check_inputs([record])
    from tadam.classify.sorting import alone_in, undo_sorting

    with alone_in(record.parent), told() as problems, progress_bar("putting back") as progress:
        count = undo_sorting(record, problems, progress)
    if as_json:
        print_json({"undone": count, "skipped": problems})
    else:
        out.print(f"{count} {'photo is' if count == 1 else 'photos are'} as before")
    if problems:
        raise RunFailed(f"{len(problems)} photos could not be put back: {record} is kept")
