"""What is in a `.tadam` file, in a few facts."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tadam.classify.classifier import FewShotClassifier


@dataclass(frozen=True)
class ClassifierInfo:
    """A classifier in a file.

    Attributes:
        file: Its path.
        bytes: Its size.
        changed: When it was last written, ISO 8601 in UTC; a copy may have another date.
        images_per_class: Labelled images of each class, by name.
        images: All of them.
        thumbnails: How many of them are in the file as small pictures.
        model: Name or path of the model it was made with; None for an object.
        network: The kind of network inside.
        image_size: Side of the square images that the network takes.
        features: Length of an embedding.
        shrinkage: Weight of the prior in the metric's covariance, in images.
        alpha: Scale of the logits.
        reject_threshold: Strangeness beyond which `--reject` answers "unknown".
    """

    file: str
    bytes: int
    changed: str
    images_per_class: dict[str, int]
    images: int
    thumbnails: int
    model: str | None
    network: str
    image_size: int
    features: int
    shrinkage: float
    alpha: float
    reject_threshold: float

    def to_json(self) -> dict[str, Any]:
        """Plain types, ready for `json.dumps`."""
        return asdict(self)


def classifier_info(path: Path, device: str = "cpu") -> ClassifierInfo:
    """Reads a `.tadam` file and says what is in it."""
    classifier = FewShotClassifier.load(path, device=device)
    predictor, found = classifier.predictor_, path.stat()
    names = map(str, classifier.classes_.tolist())
    return ClassifierInfo(
        file=str(path),
        bytes=found.st_size,
        changed=datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds"),
        images_per_class=dict(zip(names, classifier.shots_.tolist(), strict=True)),
        images=len(classifier.support_labels_),
        thumbnails=sum(map(len, classifier.support_pictures_)),
        model=classifier.model_name_,
        network=predictor.backbone_name,
        image_size=predictor.image_size,
        features=classifier.support_embeddings_.shape[1],
        shrinkage=predictor.metric.shrinkage.item(),
        alpha=predictor.metric.alpha.item(),
        reject_threshold=classifier.reject_threshold_,
    )
