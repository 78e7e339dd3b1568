"""`tadam info`, `tadam add` and `tadam remove`: what is in a classifier's file, and changing it."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.labelled_photos import LabelledPhotos, Nested, print_classes, read_labelled
from tadam.cli.options import Device, Force, Json, NoCache, Strict
from tadam.cli.predict import Classifier
from tadam.cli.skipped import told
from tadam.errors import UserError
from tadam.reports.terminal import err, out, print_json, progress_bar
from tadam.system.folder_lock import PATIENCE, locked
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

Elsewhere = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", metavar="FILE.tadam", help="Write this file and leave the old one alone."
    ),
]


def info(classifier: Classifier, as_json: Json = False) -> None:
    """Say what is in a classifier's file."""
    check_inputs([classifier])
    from tadam.classify.info import classifier_info

    found = classifier_info(classifier)
    if as_json:
        print_json(found.to_json())
        return
    table = Table(show_header=False)
    counts = list(found.images_per_class.values())
    table.add_row(
        "file", f"{printable(found.file)}, {found.bytes / 2**20:.1f} MB, written {found.changed}"
    )
    table.add_row("classes", f"{len(counts)}, with {min(counts)} to {max(counts)} photos each")
    table.add_row("photos", f"{found.images}, {found.thumbnails} of them as thumbnails")
    table.add_row("model", printable(f"{found.model or 'your own object'}, with a {found.network}"))
    table.add_row("images", f"{found.image_size} pixels, {found.features} features")
    table.add_row("unknown", f"with --reject, beyond {found.reject_threshold:.3g}")
    out.print(table)
    print_classes(list(found.images_per_class), counts)


def add(
    classifier: Classifier,
    folder: LabelledPhotos,
    output: Elsewhere = None,
    nested: Nested = False,
    no_cache: NoCache = False,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Add labelled photos, or new classes, to a classifier."""
    check_inputs([classifier, folder])
    from tadam.classify.duplicates import copies_among

    with _changing(classifier, output, force, device) as known:
        known.set_params(cache=not no_cache)
        old_classes, old = known.classes_.tolist(), len(known.support_labels_)
        with told() as problems, progress_bar("reading") as progress:
            files, labels = read_labelled(folder, nested, problems)
            skipped = None if strict else problems
            known.partial_fit(files, labels, progress=progress, problems=skipped)
        again = copies_among(known.support_embeddings_, old)
        known.save(output or classifier)
    new = [name for name in known.classes_.tolist() if name not in old_classes]
    if again:
        photos = "1 photo is" if again == 1 else f"{again} photos are"
        err.print(f"note: {photos} the same as others that it had already", soft_wrap=True)
    result = {
        "file": str(output or classifier),
        "added": len(known.support_labels_) - old,
        "new_classes": new,
        "had_already": again,
        "skipped": problems,
    }
    _print(known, result, as_json, f"{result['added']} photos added, {len(new)} new classes")


def remove(
    classifier: Classifier,
    label: Annotated[str, typer.Argument(metavar="CLASS", help="The class to forget.")],
    output: Elsewhere = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Remove a class from a classifier."""
    check_inputs([classifier])
    with _changing(classifier, output, force, "cpu") as known:
        by_name: dict[str, Any] = {str(name): name for name in known.classes_.tolist()}
        if label not in by_name:
            close = difflib.get_close_matches(label, by_name, n=1)
            more = (
                f"did you mean {close[0]!r}?" if close else f"'tadam info {classifier}' lists them"
            )
            raise UserError(f"{classifier} has no class {label!r}: {more}")
        photos = int(known.shots_[list(by_name).index(label)])
        known.remove(by_name[label])
        known.save(output or classifier)
    result = {"file": str(output or classifier), "removed": label, "photos": photos}
    _print(known, result, as_json, f"{label} removed with its {photos} photos")


@contextmanager
def _changing(
    classifier: Path, output: Path | None, force: bool, device: str
) -> "Iterator[FewShotClassifier]":
    """The classifier, once it can be written; other commands that change the file wait."""
    check_outputs([output] if output else [classifier], force or output is None)
    from tadam.classify.classifier import FewShotClassifier

    file = (output or classifier).resolve()
    with locked(file.with_name(f".{file.name[:50]}.lock"), output or classifier, PATIENCE):
        yield FewShotClassifier.load(classifier, device=device)


def _print(
    known: "FewShotClassifier", result: dict[str, Any], as_json: bool, sentence: str
) -> None:
    counts = known.shots_.tolist()
    if as_json:
        names = map(str, known.classes_.tolist())
        print_json({**result, "images_per_class": dict(zip(names, counts, strict=True))})
        return
    said = f"{result['file']}: {sentence}; {len(counts)} classes from {sum(counts)} images now"
    out.print(printable(said), soft_wrap=True)
    print_classes(known.classes_.tolist(), counts)
