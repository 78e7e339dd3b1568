"""`tadam suggest`: which photos to label next."""

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.options import Device, Force, Json, NoCache, Strict
from tadam.cli.predict import Classifier, Paths, photos_in
from tadam.cli.skipped import told
from tadam.reports.terminal import out, percent, print_json, progress_bar
from tadam.system.files import write_text
from tadam.system.untrusted_text import printable, spreadsheet_cell

if TYPE_CHECKING:
    from tadam.classify.suggest import Suggestion


def suggest(
    classifier: Classifier,
    paths: Paths,
    count: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many photos.")] = 20,
    csv_file: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="Write a list to fill in: 'tadam add FILE.tadam LIST' takes it.",
        ),
    ] = None,
    no_cache: NoCache = False,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Choose the photos whose labels would teach a classifier most."""
    check_inputs([classifier, *paths])
    check_outputs([csv_file] if csv_file else [], force, classifier)
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.suggest import suggest as choose

    known = FewShotClassifier.load(classifier, device=device).set_params(cache=not no_cache)
    with told() as problems, progress_bar("looking") as progress:
        images = photos_in(paths, problems)
        found = known.classify(images, progress=progress, problems=None if strict else problems)
    chosen = choose(known, found, count)
    if csv_file:
        write_text(csv_file, _csv_text(chosen))
    if as_json:
        print_json({"suggestions": [s.to_json() for s in chosen], "skipped": problems})
        return
    for s in chosen:
        first, second = percent(s.confidence), percent(s.second_confidence)
        line = f"{s.path}: {s.guess} {first}, or {s.second} {second}"
        out.print(printable(line), soft_wrap=True)
    if csv_file:
        name = printable(csv_file)
        out.print(
            f"written: {name}; fill in its column 'label', then run 'tadam add "
            f"{printable(classifier)} {name}'",
            soft_wrap=True,
        )


def _csv_text(chosen: "Sequence[Suggestion]") -> str:
    """A list of labels to fill in; paths are absolute, so that the list can be anywhere."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "label", "guess", "confidence", "second", "second_confidence"])
    for s in chosen:
        shares = (f"{s.confidence:.6g}", f"{s.second_confidence:.6g}")
        path = os.path.abspath(str(s.path))
        guesses = (spreadsheet_cell(s.guess), spreadsheet_cell(s.second))
        writer.writerow([path, "", guesses[0], shares[0], guesses[1], shares[1]])
    # a file name need not be valid text; undecodable bytes show as ?
    return text.getvalue().encode("utf-8", "replace").decode()
