"""`tadam fit`: a classifier of one's own pictures, in one file."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tadam.cli.files import check_inputs, check_outputs
from tadam.cli.labelled_photos import LabelledPhotos, Nested, print_classes, read_labelled
from tadam.cli.options import Device, Force, Json, Model, NoCache, PhotoSize, Strict
from tadam.cli.skipped import told
from tadam.errors import UserError
from tadam.reports.terminal import err, out, print_json, progress_bar
from tadam.system.untrusted_text import printable

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.nn.foreign import ForeignEncoder


_NUMBERS = "How an ONNX encoder's pixels are normalised, if its file does not say; white is 1."


def fit(
    folder: LabelledPhotos,
    output: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE.tadam", help="Where the classifier goes.")
    ],
    model: Model = None,
    image_size: PhotoSize = None,
    mean: Annotated[str | None, typer.Option(metavar="R,G,B", help=_NUMBERS)] = None,
    std: Annotated[str | None, typer.Option(metavar="R,G,B", help=_NUMBERS)] = None,
    nested: Nested = False,
    no_cache: NoCache = False,
    strict: Strict = False,
    force: Force = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Learn the classes of a folder of pictures: seconds, no training."""
    name = _checked(folder, output, model, force)

    from tadam.classify.classifier import FewShotClassifier

    own = mean is not None or std is not None
    classifier = FewShotClassifier(
        _encoder(name, image_size, mean, std) if own else name,
        image_size=None if own else image_size,
        cache=not no_cache,
        device=device,
    )
    with told() as problems, progress_bar("reading") as progress:
        files, labels = read_labelled(folder, nested, problems)
        classifier.fit(files, labels, progress=progress, problems=None if strict else problems)
    classifier.save(output)
    if as_json:
        print_json(
            {
                "file": str(output),
                "model": name,
                "classes": classifier.classes_.tolist(),
                "images": len(classifier.support_labels_),
                "images_per_class": classifier.shots_.tolist(),
                "skipped": problems,
                "alpha": classifier.predictor_.metric.alpha.item(),
                "shrinkage": classifier.predictor_.metric.shrinkage.item(),
                "reject_threshold": classifier.reject_threshold_,
                "expected": asdict(classifier.expected_),
            }
        )
    else:
        _print(classifier, output)


def _checked(folder: Path, output: Path, model: str | None, force: bool) -> str:
    """The model to use, once everything has been found that can be found before any work."""
    from tadam.models.encoders import names_encoder
    from tadam.models.find import default_model, find_model, what_is_missing

    check_inputs([folder])
    name = model or default_model()
    if not names_encoder(name):
        find_model(name)
    if output.suffix.lower() == ".onnx":
        own = output.with_suffix(".tadam")
        raise UserError(
            f"fit writes a .tadam file, not ONNX: name it {own}, then run "
            f"'tadam export {own} -o {output}'"
        )
    check_outputs([output], force)
    if model is None and (advice := what_is_missing()):
        err.print(f"note: {advice}", soft_wrap=True)
    return name


def _encoder(
    name: str, image_size: int | None, mean: str | None, std: str | None
) -> "ForeignEncoder":
    """An encoder whose normalisation is given."""
    from tadam.models.encoders import names_encoder, open_encoder

    if not names_encoder(name):
        raise UserError("`mean` and `std` are for an ONNX file or hf:NAME as `model`")
    return open_encoder(name, image_size, _numbers("mean", mean), _numbers("std", std))


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return [float(part) for part in text.split(",")] if text else None
    except ValueError:
        raise UserError(f"`{name}` must be numbers such as 0.5,0.5,0.5, got {text}") from None


def _print(classifier: "FewShotClassifier", file: Path) -> None:
    images, way = len(classifier.support_labels_), len(classifier.classes_)
    said = f"{file}: {way} classes from {images} images, with the model {classifier.model_name_}"
    out.print(printable(said), soft_wrap=True)
    print_classes(classifier.classes_.tolist(), classifier.shots_.tolist())
    out.print(_rejection(classifier), soft_wrap=True)


def _rejection(classifier: "FewShotClassifier") -> str:
    """What to expect of `predict --reject`, in words."""
    if "unknown" in classifier.classes_.tolist():
        return "predict --reject will not work, because a class is called 'unknown'"
    try:
        classifier.require_embeddings("say 'none of these'")
    except UserError as error:
        return f"predict --reject will not work: {error}"
    expected = classifier.expected_
    caught = f"{100 * expected.caught:.0f} of 100 photos of anything else"
    if expected.kept is None:
        return (
            f"with --reject, predict will say 'unknown' to about {caught}; with one photo of each "
            "class, that and the probabilities are rough: add photos"
        )
    return (
        f"with --reject, predict will say 'unknown' to about {caught} and to "
        f"{100 * (1 - expected.kept):.0f} of 100 of these classes"
    )
