"""How well a fitted classifier does on labelled images: accuracy, confusion, mistakes by name."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tadam.classify.classifier import FewShotClassifier
from tadam.classify.predictions import Prediction
from tadam.classify.reading import ImageSource, name_of
from tadam.classify.support import labelled
from tadam.errors import UserError
from tadam.evaluation.scores import calibration_error
from tadam.evaluation.trust import auroc
from tadam.system.progress import Progress

#: The folder of images of no class, and the answer for them.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class JudgedPhoto:
    """One image, its label and the answer.

    Attributes:
        path: Where it is.
        label: Its class, or `unknown` for an image of no class.
        answer: The most probable class.
        rejected: Whether the classifier would answer "unknown" with `reject`.
        prediction: Everything else.
    """

    path: str
    label: str
    answer: str
    rejected: bool
    prediction: Prediction

    @property
    def right(self) -> bool:
        """Whether the answer is the label; for an image of no class, whether it is rejected."""
        return self.rejected if self.label == UNKNOWN else self.answer == self.label

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return {
            "path": self.path,
            "label": self.label,
            "answer": self.answer,
            "confidence": self.prediction.confidence,
        }


@dataclass(frozen=True)
class Rejection:
    """How well "none of these" works; shares are fractions.

    Attributes:
        known: Images of the classes.
        unknown: Images of no class.
        kept: Share of the known ones that are not rejected.
        right_of_kept: Share of the kept ones that are classified correctly.
        caught: Share of the unknown ones that are rejected; None without any.
        auroc: Probability that an unknown image looks stranger than a known one; None without any.
    """

    known: int
    unknown: int
    kept: float
    right_of_kept: float | None
    caught: float | None
    auroc: float | None


@dataclass(frozen=True)
class FolderEvaluation:
    """How a classifier did on a folder of images; accuracies are fractions.

    Attributes:
        accuracy: Share of images classified correctly, none of them rejected.
        calibration_error: Expected calibration error of the probabilities, 15 equal bins.
        images: Number of images of the classifier's classes.
        class_names: The classifier's classes, as text.
        per_class: Share of each class's images classified correctly, by class name.
        confusion: Image counts by true class (row) and answer (column), in `class_names` order.
        skipped: A sentence for each image that could not be read.
        photos: Every image, the mistakes first, of those the most confident first.
        rejection: How well "none of these" works; None if it was not asked for.
    """

    accuracy: float
    calibration_error: float
    images: int
    class_names: list[str]
    per_class: dict[str, float]
    confusion: list[list[int]]
    skipped: list[str]
    photos: list[JudgedPhoto] = field(default_factory=list)
    rejection: Rejection | None = None

    @property
    def mistakes(self) -> list[JudgedPhoto]:
        """The images of known classes that are taken for another, the most confident first."""
        return [photo for photo in self.photos if not photo.right and photo.label != UNKNOWN]

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        names = ("photos", "rejection")
        plain = {n: v for n, v in vars(self).items() if n not in names}
        plain["mistakes"] = [photo.to_json() for photo in self.mistakes]
        if self.rejection:
            plain["rejection"] = asdict(self.rejection)
        return plain


def evaluate_folder(
    classifier: FewShotClassifier,
    folder: Path,
    progress: Progress | None = None,
    problems: list[str] | None = None,
    *,
    reject: bool = False,
    nested: bool = False,
    thumbnails: bool = False,
) -> FolderEvaluation:
    """Classifies labelled images and compares the answers with the labels.

    Args:
        classifier: A fitted one.
        folder: What `labelled` takes: a folder, a zip or a list. May omit classes but must not add
            any, except `unknown` with `reject`.
        progress: Called with (images read, total images).
        problems: Collects a sentence for each unreadable image, which is then skipped; without
            this list, the first such image is an error.
        reject: Measure "none of these" too; a class `unknown` holds images of no class.
        nested: As for `labelled`.
        thumbnails: Keep a small JPEG of each image.
    """
    if reject:
        classifier.require_embeddings("say 'none of these'")
    names = [str(label) for label in classifier.classes_.tolist()]
    images, labels = labelled(folder, nested=nested)
    _check_names(names, [str(label) for label in labels], folder, reject)
    found = classifier.classify(images, thumbnails=thumbnails, progress=progress, problems=problems)
    photos = _judged(classifier, found, _labels_by_path(images, labels), names)
    known = [photo for photo in photos if photo.label in names]
    if not known:
        raise UserError(f"no image of a class of the classifier in {folder} can be read: add some")
    true = np.array([names.index(photo.label) for photo in known])
    probabilities = np.stack([photo.prediction.probabilities for photo in known])
    confusion = np.zeros((len(names), len(names)), np.int64)
    np.add.at(confusion, (true, probabilities.argmax(axis=1)), 1)
    return FolderEvaluation(
        accuracy=float(np.trace(confusion) / len(true)),
        calibration_error=calibration_error(probabilities[None], true[None]),
        images=len(true),
        class_names=names,
        per_class={
            name: float(row[k] / row.sum())
            for k, (name, row) in enumerate(zip(names, confusion, strict=True))
            if row.sum()
        },
        confusion=confusion.tolist(),
        skipped=list(problems or []),
        photos=sorted(photos, key=lambda p: (p.right, -p.prediction.confidence)),
        rejection=_rejection(photos) if reject else None,
    )


def _check_names(names: Sequence[str], labels: Sequence[str], folder: Path, reject: bool) -> None:
    if reject and UNKNOWN in names:
        raise UserError(
            f"a class is called {UNKNOWN!r}, which is the answer for 'none of these': leave "
            "`reject` out"
        )
    for name in dict.fromkeys(labels):
        if name not in names and not (reject and name == UNKNOWN):
            hint = "rename or remove it"
            if name == UNKNOWN:
                hint = "if it holds images of no class, add `reject`"
            raise UserError(
                f"{folder / name} is not named after a class of the classifier "
                f"({_some(names)}): {hint}"
            )


def _labels_by_path(images: Sequence[ImageSource], labels: Sequence[Any]) -> dict[str, str]:
    paths = (name_of(image, number) for number, image in enumerate(images))
    return {path: str(label) for path, label in zip(paths, labels, strict=True)}


def _judged(
    classifier: FewShotClassifier,
    predictions: Sequence[Prediction],
    labels: dict[str, str],
    names: Sequence[str],
) -> list[JudgedPhoto]:
    return [
        JudgedPhoto(
            str(p.path),
            labels[str(p.path)],
            names[p.nearest],
            p.strangeness is not None and p.strangeness > classifier.reject_threshold_,
            p,
        )
        for p in predictions
    ]


def _rejection(photos: Sequence[JudgedPhoto]) -> Rejection:
    known = [photo for photo in photos if photo.label != UNKNOWN]
    others = [photo for photo in photos if photo.label == UNKNOWN]
    kept = [photo for photo in known if not photo.rejected]
    return Rejection(
        known=len(known),
        unknown=len(others),
        kept=len(kept) / len(known),
        right_of_kept=float(np.mean([photo.right for photo in kept])) if kept else None,
        caught=float(np.mean([photo.rejected for photo in others])) if others else None,
        auroc=auroc(_scores(known), _scores(others)) if others else None,
    )


def _scores(photos: Sequence[JudgedPhoto]) -> npt.NDArray[np.float64]:
    return np.array([photo.prediction.strangeness for photo in photos])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
