"""`tadam predict`: sort pictures into the classes that were learnt."""

from pathlib import Path
from typing import Annotated

import typer

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.options import Device, Force, Json, Strict
from tadam.cli.predictions import json_rows, print_predictions, write_files
from tadam.cli.skipped import told
from tadam.errors import Interrupted, UserError
from tadam.reports.terminal import print_json, progress_bar
from tadam.system.interruption import interruption

Classifier = Annotated[Path, typer.Argument(metavar="FILE.tadam", help="What 'tadam fit' wrote.")]
Paths = Annotated[list[Path], typer.Argument(metavar="PATH", help="Images, or folders of them.")]


def predict(
    classifier: Classifier,
    paths: Paths,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a row for each image.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page to look at.")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="List the N most probable classes.")
    ] = None,
    reject: Annotated[
        bool, typer.Option("--reject", help="Answer 'unknown' for an image far from every class.")
    ] = False,
    reject_threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.0,
            help="Use this distance, not the learnt one; implies --reject.",
        ),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Sort pictures into the classes that were learnt."""
    outputs = [file for file in (csv_file, report) if file]
    check_inputs([classifier, *paths])
    check_outputs(outputs, force, classifier)
    from tadam.classify.classifier import FewShotClassifier

    known = FewShotClassifier.load(classifier, device=device)
    if reject_threshold is not None:
        known.reject_threshold_, reject = reject_threshold, True
    with told() as problems, progress_bar("classifying") as progress:
        images = _images(paths, problems)
        left_out = len(problems)
        with interruption() as stopped:
            predictions = known.classify(
                images,
                reject=reject,
                thumbnails=report is not None,
                progress=progress,
                problems=None if strict else problems,
                stop=stopped,
            )
    write_files(known, predictions, top, csv_file, report)
    if as_json:
        print_json({"predictions": json_rows(known, predictions, top), "skipped": problems})
    else:
        print_predictions(known, predictions, top, outputs)
    done, total = len(predictions) + len(problems) - left_out, len(images)
    if done < total:
        raise Interrupted(f"stopped after {done} of {total} images; the results cover only these")


def _images(paths: list[Path], problems: list[str]) -> list[Path]:
    """The images that the paths mean; what a folder has besides goes to `problems`."""
    from tadam.data.folder import image_files, left_out

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            images = image_files(path, closed=[])  # `left_out` names those
            problems += left_out(path, images)
            found += images
        else:
            found.append(path)
    if not found:
        raise UserError(f"there are no images in {', '.join(map(str, paths))}: check the path")
    return found
