"""`tadam predict`: sort pictures into the classes that were learnt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tadam.cli.bulk import BulkOptions, predict_parts
from tadam.cli.files import PhotoFiles, check_inputs
from tadam.cli.options import Device, Json, NoCache, RejectOptions, Strict
from tadam.cli.predictions import json_rows, print_predictions, write_csv
from tadam.cli.skipped import told
from tadam.cli.sort_photos import Sorted, SortOptions, sort_into
from tadam.errors import Interrupted, UserError
from tadam.reports.terminal import print_json, progress_bar
from tadam.system.interruption import interruption

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.predictions import Prediction
    from tadam.classify.reading import ImageSource

Classifier = Annotated[Path, typer.Argument(metavar="FILE.tadam", help="What 'tadam fit' wrote.")]
Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Images, folders or zips of them.")
]


def predict(
    classifier: Classifier,
    paths: Paths,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="List the N most probable classes.")
    ] = None,
    no_cache: NoCache = False,
    strict: Strict = False,
    device: Device = "auto",
    as_json: Json = False,
    *,
    files: PhotoFiles,
    sort: SortOptions,
    rejection: RejectOptions,
    bulk: BulkOptions,
) -> None:
    """Sort pictures into the classes that were learnt."""
    others = bool(files.named) or strict or sort.copy_to is not None or sort.move_to is not None
    if bulk.wanted(others):
        predict_parts(classifier, paths, bulk, top, rejection, as_json)
        return
    check_inputs([classifier, *paths])
    files.check(classifier)
    folder = sort.checked(paths)
    from tadam.classify.classifier import FewShotClassifier

    known = FewShotClassifier.load(classifier, device=device).set_params(cache=not no_cache)
    if rejection.reject_threshold is not None:
        known.reject_threshold_ = rejection.reject_threshold
    with told() as problems, progress_bar("classifying") as progress:
        images = photos_in(paths, problems)
        left_out = len(problems)
        with interruption() as stopped:
            predictions = known.classify(
                images,
                reject=rejection.asked(),
                thumbnails=files.report is not None,
                progress=progress,
                problems=None if strict else problems,
                stop=stopped,
            )
    done, total = len(predictions) + len(problems) - left_out, len(images)
    into = folder if done == total else None
    result = _sorted_and_written(known, predictions, files, top, into, sort.move_to is not None)
    if as_json:
        rows = json_rows(known, predictions, top)
        print_json(
            {"predictions": rows, "skipped": problems, **(result.to_json() if result else {})}
        )
    else:
        print_predictions(known, predictions, top, files.named)
        if result:
            result.print()
    if done < total:
        raise Interrupted(f"stopped after {done} of {total} images; the results cover only these")
    if result:
        result.check()


def _sorted_and_written(
    known: "FewShotClassifier",
    predictions: "list[Prediction]",
    files: PhotoFiles,
    top: int | None,
    folder: Path | None,
    move: bool,
) -> Sorted | None:
    """Writes the CSV file, sorts the photos, and writes the page, which shows where they are."""
    if files.csv_file:
        write_csv(files.csv_file, known, predictions, top)
    result = None
    if folder:
        with told() as problems:
            result = sort_into(folder, predictions, move, problems)
    if files.report:
        from tadam.reports.prediction_report import write_report

        write_report(files.report, known, result.moved(predictions) if result else predictions)
    return result


def photos_in(paths: list[Path], problems: list[str]) -> "list[ImageSource]":
    """The images that the paths mean; what a folder has besides goes to `problems`."""
    from tadam.data.folder import image_files, left_out
    from tadam.data.photo_zip import zipped_photos

    found: list[ImageSource] = []
    for path in paths:
        if path.suffix.lower() == ".zip" and path.is_file():
            found += [photo for _, photo in zipped_photos(path)]
            continue
        if path.is_dir():
            images = image_files(path, closed=[])  # `left_out` names those
            problems += left_out(path, images)
            found += images
        else:
            found.append(path)
    if not found:
        raise UserError(f"there are no images in {', '.join(map(str, paths))}: check the path")
    return found
