"""What a `.tadam` file says of its classifier, beside the tensors: written, read back, checked."""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tadam.classify.labels import class_array, plain_labels
from tadam.classify.metric_fit import Expected
from tadam.errors import UserError
from tadam.models.modelfile import ModelInfo, describe, parse_description

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

CLASSIFIER_FORMAT = 2
#: Files of version 0.1 had prototypes and a cosine threshold; their metric is estimated at loading.
WITHOUT_METRIC = 1
#: Parameters of the constructor that a file keeps.
_PARAMETERS = ("alpha", "reject_threshold")


@dataclass(frozen=True)
class ClassifierDescription:
    """What a file says of itself, checked; `expected` is None if it has no metric yet."""

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


def described(classifier: "FewShotClassifier") -> dict[str, Any]:
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
        "parameters": {name: getattr(classifier, name) for name in (*_PARAMETERS, "image_size")},
        "backbone": predictor.backbone_name,
        "mirrored": predictor.mirrored,
        "model": describe(replace(origin, classes=())) if origin else None,  # nobody's business
        "model_name": classifier.model_name_,
    }


def parsed_description(raw: dict[str, Any], path: Path) -> ClassifierDescription:
    """What `described` returned, read from the file `path`, which is not trusted."""
    try:
        model = parse_description(raw["model"], path) if raw["model"] is not None else None
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise UserError(f"{path} does not say what model it has: make it again") from None
    try:
        said = ClassifierDescription(
            classes=class_array(plain_labels(raw["classes"], len(raw["classes"]))),
            backbone=str(raw["backbone"]),
            model=model,
            model_name=raw.get("model_name"),  # absent from older files
            mirrored=raw.get("mirrored", model is not None and model.config.backbone.mirrored),
            **_metric_said(raw),
        )
        ok = isinstance(said.model_name, str | None) and isinstance(said.mirrored, bool)
        if not ok or said.classes.tolist() != raw["classes"]:
            raise ValueError("classes or name of the model")
    except (KeyError, TypeError, IndexError, ValueError):
        raise UserError(f"{path} describes no classifier: make it again") from None
    return said


def _metric_said(raw: dict[str, Any]) -> dict[str, Any]:
    """What a file says of its metric, as fields of a description; raises `ValueError` and such."""
    if raw["format"] == WITHOUT_METRIC:
        # Its scale and threshold were of another metric: they go.
        normalised = {"cosine": True, "euclidean": False, "sqeuclidean": False}[raw["distance"]]
        parameters: dict[str, float | None] = dict.fromkeys((*_PARAMETERS, "image_size"))
        return {
            "power": 1.0,
            "normalised": normalised,
            "expected": None,
            "reject_threshold": 1.0,
            "parameters": parameters,
        }
    power, normalised = _number(raw["metric"]["power"]), raw["metric"]["normalised"]
    if not isinstance(normalised, bool) or power <= 0:
        raise ValueError("metric")
    told = raw["expected"]
    expected = Expected(
        _parameter(told["kept"]), _number(told["caught"]), _parameter(told["auroc"])
    )
    return {
        "power": power,
        "normalised": normalised,
        "expected": expected,
        "reject_threshold": _number(raw["reject_threshold"]),
        "parameters": {
            **{name: _parameter(raw["parameters"][name]) for name in _PARAMETERS},
            "image_size": _image_size(raw["parameters"]["image_size"]),
        },
    }


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"{value!r} is not a scale, a share or a threshold")
    return value


def _parameter(value: Any) -> float | None:
    return None if value is None else _number(value)


def _image_size(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"{value!r} is not a size")
    return value
