"""How well a fitted classifier does on labelled images: accuracy, per class, confusion."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tadam.classify.classifier import FewShotClassifier
from tadam.data.folder import class_files
from tadam.errors import UserError
from tadam.evaluation.scores import calibration_error
from tadam.system.progress import Progress


@dataclass(frozen=True)
class FolderEvaluation:
    """How a classifier did on a folder of images; accuracies are fractions.

    Attributes:
        accuracy: Share of images classified correctly.
        calibration_error: Expected calibration error of the probabilities, 15 equal bins.
        images: Number of images.
        class_names: The classifier's classes, as text.
        per_class: Share of each class's images classified correctly, by class name.
        confusion: Image counts by true class (row) and answer (column), in `class_names` order.
        skipped: A sentence for each image that could not be read.
    """

    accuracy: float
    calibration_error: float
    images: int
    class_names: list[str]
    per_class: dict[str, float]
    confusion: list[list[int]]
    skipped: list[str]

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def evaluate_folder(
    classifier: FewShotClassifier,
    folder: Path,
    progress: Progress | None = None,
    problems: list[str] | None = None,
) -> FolderEvaluation:
    """Classifies the images of a folder whose sub-folders are named after the classes.

    Args:
        classifier: A fitted one.
        folder: May omit classes but must not add any.
        progress: Called with (images read, total images).
        problems: Collects a sentence for each unreadable image, which is then skipped; without
            this list, the first such image is an error.
    """
    names = [str(label) for label in classifier.classes_.tolist()]
    files = class_files(folder)
    for name in files:
        if name not in names:
            raise UserError(
                f"{folder / name} is not named after a class of the classifier "
                f"({_some(names)}): rename or remove it"
            )
    paths = [path for some in files.values() for path in some]
    truth = {str(path): names.index(name) for name, some in files.items() for path in some}
    predictions = classifier.classify(paths, progress=progress, problems=problems)
    true = np.array([truth[str(p.path)] for p in predictions])
    probabilities = np.stack([p.probabilities for p in predictions])
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
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
