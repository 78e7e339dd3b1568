"""`tadam check`: a look at labelled photos before anything relies on them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.labelled_photos import LabelledPhotos, Nested, chosen_model, read_labelled
from tadam.cli.options import Device, Force, Json, Model, NoCache, PhotoSize, Strict
from tadam.cli.skipped import told
from tadam.reports.terminal import out, percent, print_json, progress_bar
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.check import Check, Copies

#: Rows of each list on the terminal; JSON and the page have all of them.
_ROWS = 15


def check(
    folder: LabelledPhotos,
    test: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Look for copies among these photos too."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page to look at.")
    ] = None,
    model: Model = None,
    image_size: PhotoSize = None,
    nested: Nested = False,
    no_cache: NoCache = False,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Find wrong labels, copies and weak classes among labelled photos."""
    check_inputs([folder, *([test] if test else [])])
    check_outputs([report] if report else [], force)
    name = chosen_model(model)
    from tadam.classify.check import check_photos
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.reading import sources

    with told() as problems, progress_bar("looking") as progress:
        images, labels = read_labelled(folder, nested, problems)
        result = check_photos(
            FewShotClassifier(name, image_size=image_size, cache=not no_cache, device=device),
            images,
            labels,
            sources(test) if test else (),
            thumbnails=report is not None,
            progress=progress,
            problems=None if strict else problems,
        )
    if report:
        from tadam.reports.check_report import write_check_report

        write_check_report(report, result)
    if as_json:
        print_json(result.to_json())
        return
    _print(result)
    if report:
        out.print(f"written: {printable(report)}", soft_wrap=True)


def _print(result: "Check") -> None:
    if result.accuracy is None:
        out.print(f"{result.images} photos; every class has only one, so none can be left out")
    else:
        out.print(
            f"{result.images} photos in {len(result.classes)} classes; each classified by the "
            f"others: {percent(result.accuracy)} are right",
            soft_wrap=True,
        )
    _print_classes(result)
    _print_list(
        "classes most often confused, in photos",
        [f"{c.classes[0]} and {c.classes[1]}: {c.photos}" for c in result.confused[:_ROWS]],
    )
    _print_list(
        "may be mislabelled",
        [f"{m.path}: {m.label}, but looks like {m.looks_like}" for m in result.mislabelled],
    )
    _print_list(
        "unlike the others of their class", [f"{photo.path}: {photo.label}" for photo in result.odd]
    )
    _print_list("the same photo more than once", [_copies_line(c) for c in result.copies])
    if result.few:
        _print_list("classes with fewer than 5 photos", result.few)
    if result.doubled:
        now, then = result.curve[-1], result.doubled
        out.print(
            f"what more photos would bring: {percent(now.accuracy)} with {now.photos} photos of a "
            f"class, about {percent(then.accuracy)} with {then.photos} "
            f"({percent(then.low)} to {percent(then.high)} if the trend goes on)",
            soft_wrap=True,
        )
    else:
        out.print("what more photos would bring: too few photos of most classes to tell")


def _print_classes(result: "Check") -> None:
    table = Table("class", "photos", "right", "most often mistaken for")
    for c in result.classes[:_ROWS]:
        right = "-" if c.accuracy is None else percent(c.accuracy)
        mistaken = printable(c.mistaken_for or "-")
        table.add_row(printable(c.name), str(c.photos), right, mistaken)
    out.print(table)
    if len(result.classes) > _ROWS:
        out.print(f"... and {len(result.classes) - _ROWS} more classes, which do better")


def _copies_line(copies: "Copies") -> str:
    how = "same file" if copies.exact else "look the same"
    across = f", across {copies.across}" if copies.across else ""
    return f"{how}{across}: {', '.join(copies.paths)}"


def _print_list(title: str, lines: Sequence[str]) -> None:
    if not lines:
        out.print(f"{title}: none found")
        return
    out.print(f"{title}:")
    for line in lines[:_ROWS]:
        out.print(f"  {printable(line)}", soft_wrap=True)
    if len(lines) > _ROWS:
        out.print(f"  ... and {len(lines) - _ROWS} more; --json and --report have all of them")
