"""`.tadam` files: a fitted classifier as safetensors, the rest in the metadata, and a checksum.

The folded network is stored as it predicts; the recipe in the metadata says how to rebuild it.
Nothing here unpickles, and a file is never trusted: its checksum, and the shapes of what it holds,
are compared with what it claims before a network is built.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.labels import class_array, plain_labels
from tadam.classify.predictor import Predictor
from tadam.classify.thumbnails import packed, unpacked
from tadam.data.folder import named_like_image
from tadam.errors import UserError
from tadam.metric import DISTANCES
from tadam.models.modelfile import (
    CHECKSUM_KEY,
    CLASSIFIER_KEY,
    ModelInfo,
    check_fit,
    check_numbers,
    describe,
    described,
    open_tensors,
    parse_description,
    require_intact,
    save_tensors,
)
from tadam.models.modelfile import KEY as MODEL_KEY
from tadam.nn.backbone import Backbone, build_backbone
from tadam.nn.film import Film
from tadam.nn.folded import ForOneTask
from tadam.system.device import choose_device
from tadam.system.untrusted_json import (
    BadJson,
    Check,
    fields,
    flag,
    maybe,
    number,
    one_of,
    positive,
    text,
)

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

CLASSIFIER_FORMAT = 1
_WEIGHTS = "predictor."
#: Where a file has the predictor's preprocessing; all else is behind `_WEIGHTS`.
_STATISTICS = {
    "preprocess.pixel_mean": "pixel_mean",
    "preprocess.pixel_std": "pixel_std",
}
#: Parameters of the constructor that a file keeps.
_PARAMETERS: dict[str, Check] = {"alpha": maybe(positive), "reject_threshold": maybe(number(0))}


def save(path: Path, classifier: "FewShotClassifier") -> None:
    """Writes a fitted classifier in one piece."""
    classes = classifier.classes_.tolist()
    if not isinstance(classes[0], (str, int, float)):
        raise UserError(
            f"labels such as {classes[0]!r} cannot be saved: fit with text or numbers as labels"
        )
    origin, predictor = classifier.origin_, classifier.predictor_
    description = {
        "format": CLASSIFIER_FORMAT,
        "classes": classes,
        "distance": predictor.distance,
        "trained_alpha": classifier.trained_alpha_,
        "reject_threshold": classifier.reject_threshold_,
        "parameters": {name: getattr(classifier, name) for name in _PARAMETERS},
        "backbone": predictor.backbone_name,
        "mirrored": predictor.mirrored,
        "model": describe(replace(origin, classes=())) if origin else None,  # nobody's business
        "model_name": classifier.model_name_,
    }
    tensors = {
        **{_STATISTICS.get(n, _WEIGHTS + n): t for n, t in predictor.state_dict().items()},
        **_film_tensors(predictor),
        "support.embeddings": torch.from_numpy(classifier.support_embeddings_),
        "support.labels": torch.from_numpy(classifier.support_labels_),
        **packed(classifier.support_thumbnails_),
    }
    # safetensors keeps no strides; a channels_last weight is stored in plain order
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_tensors(path, plain, CLASSIFIER_KEY, description)


@dataclass(frozen=True)
class _Description:
    """What a file says of itself, checked."""

    classes: npt.NDArray[Any]
    distance: str
    trained_alpha: float
    reject_threshold: float
    parameters: dict[str, float | None]
    backbone: str
    model: ModelInfo | None
    model_name: str | None
    mirrored: bool


def load(path: Path, into: "FewShotClassifier", backbone: Backbone | None) -> None:
    """Fills an unfitted classifier with what `save` wrote.

    Args:
        path: The file.
        into: Gets everything.
        backbone: For a classifier that was fitted with an object: another of its architecture.
    """
    tensors, raw = _read(path)
    said = _described(raw, path)
    way = len(said.classes)
    if said.model is None and backbone is None:
        raise UserError(
            f"{path} was fitted with a {said.backbone} object: load it in Python, with "
            f"FewShotClassifier.load(path, backbone={said.backbone}(...))"
        )

    def build() -> tuple[Backbone, Predictor]:
        own = _backbone(said.model) if said.model else backbone
        assert own is not None
        own.mirrored = said.mirrored
        return own, Predictor(own, None, said.distance, torch.zeros(way, own.feature_size), 1.0)

    try:
        with torch.device("meta"):  # shapes only, so a false claim costs no memory
            empty, expected = build()
    except (RuntimeError, TypeError):
        raise UserError(f"{path} claims an impossible network: not a classifier of ours") from None
    weights = {n.removeprefix(_WEIGHTS): t for n, t in tensors.items() if n.startswith(_WEIGHTS)}
    weights |= {n: tensors[stored] for n, stored in _STATISTICS.items() if stored in tensors}
    check_fit(weights, expected.state_dict(), path)
    if weights["alpha"].item() <= 0:
        raise UserError(f"{path} has an impossible alpha: make it again")
    embeddings, labels = _support(tensors, way, empty.feature_size, path)
    thumbnails = unpacked(tensors, way, path)
    film = _film(tensors, empty.conditioned_widths, path)

    device = choose_device(into.device)
    _, predictor = build()
    predictor.load_state_dict(weights)
    if isinstance(predictor.network, ForOneTask):
        predictor.network.film = film and [
            pair and (pair[0].to(device), pair[1].to(device)) for pair in film
        ]
    into.predictor_ = predictor.to(device).eval()
    into.origin_, into.trained_alpha_ = said.model, said.trained_alpha
    into.reject_threshold_ = said.reject_threshold
    into.support_embeddings_, into.support_labels_ = embeddings, labels
    into.support_pictures_ = [list(some) for some in thumbnails]
    into.classes_, into.model_name_ = said.classes, said.model_name
    into.set_params(**said.parameters, model=said.model_name)


def _classes(raw: Any) -> npt.NDArray[Any]:
    """At least two labels, text or numbers, in the order that `class_array` gives them."""
    if not isinstance(raw, list) or len(raw) < 2:
        raise BadJson("there must be at least two")
    if not all(isinstance(label, str | int | float) for label in raw):
        raise BadJson("they must be text or numbers")
    try:
        classes = class_array(plain_labels(raw, len(raw)))
    except UserError as error:
        raise BadJson(str(error)) from None
    if classes.tolist() != raw:
        raise BadJson("they are not sorted")
    return classes


#: What a description must hold; `model` has a table of its own.
_FIELDS: dict[str, Check] = {
    "classes": _classes,
    "distance": one_of(DISTANCES),
    "trained_alpha": positive,
    "reject_threshold": number(0),
    "parameters": lambda raw: fields(raw, _PARAMETERS),
    "backbone": text,
    "model": lambda raw: raw,
}
#: What older files may lack.
_NEWER_FIELDS: dict[str, Check] = {"model_name": maybe(text), "mirrored": flag}


def _described(raw: dict[str, Any], path: Path) -> _Description:
    try:
        said = fields(raw, _FIELDS, _NEWER_FIELDS)
        if said["model"] is not None:
            said["model"] = parse_description(said["model"], path)
    except BadJson as error:
        raise UserError(f"{path} does not describe a classifier ({error}): make it again") from None
    model = said["model"]
    older = {"model_name": None, "mirrored": model is not None and model.config.backbone.mirrored}
    return _Description(**{**older, **said})


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        tensors, metadata = open_tensors(path)
    except UserError:
        kind = "a folder" if os.path.isdir(path) else "an image"
        if os.path.isdir(path) or (os.path.isfile(path) and named_like_image(path)):
            raise UserError(
                f"{path} is {kind}, not a classifier: give a .tadam file, which 'tadam fit' writes"
            ) from None
        raise
    if MODEL_KEY in metadata:
        raise UserError(f"{path} is a model, not a classifier: fit a classifier with it as `model`")
    try:
        if CLASSIFIER_KEY not in metadata or CHECKSUM_KEY not in metadata:
            raise BadJson("it has no description")
        raw = described(metadata, CLASSIFIER_KEY, CLASSIFIER_FORMAT, path)
    except BadJson:
        raise UserError(f"{path} is not a .tadam file: make one with 'tadam fit'") from None
    require_intact(metadata, CLASSIFIER_KEY, tensors, path)
    return tensors, raw


def _backbone(origin: ModelInfo) -> Backbone:
    """The recipe's backbone alone: what the file says of other parts is not built."""
    return build_backbone(origin.config.backbone, origin.spec.channels, origin.spec.image_size)


def _support(
    tensors: dict[str, Tensor], way: int, features: int, path: Path
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Support embeddings (N, D) and their classes (N,)."""
    z, labels = tensors.get("support.embeddings"), tensors.get("support.labels")
    if (
        z is None
        or labels is None
        or (z.dtype, labels.dtype) != (torch.float32, torch.int64)
        or z.ndim != 2
        or z.shape[1] != features
        or labels.shape != z.shape[:1]
        or labels.unique().tolist() != list(range(way))
    ):
        raise UserError(f"{path} has no support set that fits its classes: make it again")
    check_numbers("support.embeddings", z, path)
    return z.numpy(), labels.numpy()


def _film_tensors(predictor: Predictor) -> dict[str, Tensor]:
    """The modulations that a network carries beside it because they could not be folded."""
    film = predictor.network.film if isinstance(predictor.network, ForOneTask) else None
    return {
        f"film.{i}.{name}": tensor
        for i, pair in enumerate(film or ())
        if pair is not None
        for name, tensor in zip(("gamma", "beta"), pair, strict=True)
    }


def _film(tensors: dict[str, Tensor], widths: Sequence[int], path: Path) -> Film | None:
    """What `_film_tensors` gave."""
    found = {name: tensor for name, tensor in tensors.items() if name.startswith("film.")}
    layers = [i for i in range(len(widths)) if f"film.{i}.gamma" in found]
    expected = {
        f"film.{i}.{name}": torch.zeros(1, widths[i]) for i in layers for name in ("gamma", "beta")
    }
    check_fit(found, expected, path)
    if not layers:
        return None
    return [
        (found[f"film.{i}.gamma"], found[f"film.{i}.beta"]) if i in layers else None
        for i in range(len(widths))
    ]
