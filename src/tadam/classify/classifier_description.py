"""What a `.tadam` file says of its classifier, beside the tensors: written, read back, checked."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tadam.classify.adapted_predictor import AdaptedPredictor
from tadam.classify.labels import class_array, plain_labels
from tadam.classify.strangeness_limits import Expected
from tadam.errors import UserError
from tadam.metric import DISTANCES
from tadam.models.modelfile import ModelInfo, describe, parse_description
from tadam.system.untrusted_json import (
    BadJson,
    FieldCheck,
    fields,
    flag,
    maybe,
    number,
    one_of,
    positive,
    text,
    whole,
)

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

CLASSIFIER_FORMAT = 2
#: Files of version 0.1 had prototypes and a cosine threshold; their metric is estimated at loading.
WITHOUT_METRIC = 1
#: Parameters of the constructor that a file keeps, and those that files of version 0.1 had.
_OLD_PARAMETERS: dict[str, FieldCheck] = {
    "alpha": maybe(positive),
    "reject_threshold": maybe(number(0)),
}
_PARAMETERS: dict[str, FieldCheck] = {**_OLD_PARAMETERS, "image_size": maybe(whole(1))}


@dataclass(frozen=True)
class ClassifierDescription:
    """What a file says of itself, checked.

    Attributes:
        expected: None if the file has no metric yet.
        adapts: Whether a method adapts to the support images, instead of comparing embeddings.
    """

    classes: npt.NDArray[Any]
    power: float
    normalised: bool
    expected: Expected | None
    reject_threshold: float
    parameters: dict[str, float | int | None]
    backbone: str
    model: ModelInfo | None
    model_name: str | None
    mirrored: bool
    adapts: bool = False


def description_of(classifier: "FewShotClassifier") -> dict[str, Any]:
    """A fitted classifier's description, as JSON."""
    classes = classifier.classes_.tolist()
    if not isinstance(classes[0], (str, int, float)):
        raise UserError(
            f"labels such as {classes[0]!r} cannot be saved: fit with text or numbers as labels"
        )
    origin, predictor = classifier.origin_, classifier.predictor_
    return {
        "format": CLASSIFIER_FORMAT,
        "classes": classes,
        "metric": {"power": predictor.metric.power, "normalised": predictor.metric.normalised},
        "expected": asdict(classifier.expected_),
        "reject_threshold": classifier.reject_threshold_,
        "parameters": {name: getattr(classifier, name) for name in _PARAMETERS},
        "backbone": predictor.backbone_name,
        "mirrored": predictor.mirrored,
        "adapts": isinstance(predictor, AdaptedPredictor),
        "model": describe(replace(origin, classes=())) if origin else None,  # nobody's business
        "model_name": classifier.model_name_,
    }


def _classes(raw: Any) -> npt.NDArray[Any]:
    """At least two labels, text or numbers, in the order that `class_array` gives them."""
    if not isinstance(raw, list) or len(raw) < 2:
        raise BadJson("there must be at least two")
    if not all(isinstance(label, str | int | float) for label in raw):
        raise BadJson("they must be text or numbers")
    try:
        classes = class_array(plain_labels(raw, len(raw)))
    except UserError:  # its sentence shows the labels, which may be long
        raise BadJson("they must be all text or all numbers") from None
    if classes.tolist() != raw:
        raise BadJson("they are not sorted")
    return classes


#: What every description must hold; `model` has a table of its own.
_FIELDS: dict[str, FieldCheck] = {
    "classes": _classes,
    "reject_threshold": number(0),
    "backbone": text,
    "model": lambda raw: raw,
}
#: What older files may lack.
_NEWER_FIELDS: dict[str, FieldCheck] = {
    "model_name": maybe(text),
    "mirrored": flag,
    "adapts": flag,
}
#: What files of version 0.1 hold besides.
_OLD_METRIC: dict[str, FieldCheck] = {
    "distance": one_of(DISTANCES),
    "trained_alpha": positive,
    "parameters": lambda raw: fields(raw, _OLD_PARAMETERS),
}
#: What later files hold besides.
_METRIC: dict[str, FieldCheck] = {"power": positive, "normalised": flag}
_EXPECTED: dict[str, FieldCheck] = {
    "kept": maybe(number(0, 1)),
    "caught": number(0, 1),
    "auroc": maybe(number(0, 1)),
}
_METRIC_FIELDS: dict[str, FieldCheck] = {
    "metric": lambda raw: fields(raw, _METRIC),
    "expected": lambda raw: Expected(**fields(raw, _EXPECTED)),
    "parameters": lambda raw: fields(raw, _PARAMETERS),
}


def parsed_description(raw: dict[str, Any], path: Path) -> ClassifierDescription:
    """What `description_of` returned, read from the file `path`, which is not trusted."""
    try:
        said = fields(raw, _FIELDS, _NEWER_FIELDS) | _metric_said(raw)
        if said["model"] is not None:
            said["model"] = parse_description(said["model"], path)
    except BadJson as error:
        raise UserError(f"{path} does not describe a classifier ({error}): make it again") from None
    model = said["model"]
    older = {"model_name": None, "mirrored": model is not None and model.config.backbone.mirrored}
    return ClassifierDescription(**{**older, **said})


def _metric_said(raw: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its metric, as fields of a description."""
    if raw["format"] == WITHOUT_METRIC:
        # Its scale and threshold were of another metric: they go.
        said = fields(raw, _OLD_METRIC)
        return {
            "power": 1.0,
            "normalised": said["distance"] == "cosine",
            "expected": None,
            "reject_threshold": 1.0,
            "parameters": dict.fromkeys(_PARAMETERS),
        }
    said = fields(raw, _METRIC_FIELDS)
    return {**said.pop("metric"), **said}
