"""`.tadam` files: a fitted classifier as safetensors, the rest in the metadata, and a checksum.

The folded network is stored as it predicts; the recipe in the metadata says how to rebuild it.
Nothing here unpickles, and a file is never trusted: its checksum, and the shapes of what it holds,
are compared with what it claims before a network is built.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.adapted_predictor import AdaptedPredictor
from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.classifier_description import (
    CLASSIFIER_FORMAT,
    WITHOUT_METRIC,
    ClassifierDescription,
    description_of,
    parsed_description,
)
from tadam.classify.metric_fit import fit_metric
from tadam.classify.predictor import Predictor
from tadam.classify.strangeness_limits import Expected
from tadam.classify.thumbnails import packed, unpacked
from tadam.data.folder import named_like_image
from tadam.errors import UserError
from tadam.models.modelfile import (
    CHECKSUM_KEY,
    CLASSIFIER_KEY,
    ModelInfo,
    assemble,
    check_fit,
    check_numbers,
    described,
    open_tensors,
    require_intact,
    save_tensors,
)
from tadam.models.modelfile import KEY as MODEL_KEY
from tadam.nn.backbone import Backbone, build_backbone
from tadam.nn.film import Film
from tadam.nn.folded import ForOneTask
from tadam.system.device import choose_device
from tadam.system.untrusted_json import BadJson

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier

#: Predictor, what to expect of it, support embeddings (N, D) and their classes (N,).
_Loaded = tuple[Predictor, Expected, npt.NDArray[np.float32], npt.NDArray[np.int64]]

_WEIGHTS, _METHOD = "predictor.", "method."
#: Where a file has the predictor's preprocessing; all else is behind `_WEIGHTS`.
_STATISTICS = {
    "preprocess.pixel_mean": "pixel_mean",
    "preprocess.pixel_std": "pixel_std",
}


def save(path: Path, classifier: "FewShotClassifier") -> None:
    """Writes a fitted classifier in one piece."""
    predictor = classifier.predictor_
    if isinstance(predictor, AdaptedPredictor):  # what it makes of a task follows from the images
        own = {_METHOD + n: t for n, t in predictor.method.state_dict().items()}
    else:
        own = {_STATISTICS.get(n, _WEIGHTS + n): t for n, t in predictor.state_dict().items()}
    tensors = {
        **own,
        **_film_tensors(predictor),
        "support.embeddings": torch.from_numpy(classifier.support_embeddings_),
        "support.labels": torch.from_numpy(classifier.support_labels_),
        **packed(classifier.support_thumbnails_),
    }
    # safetensors keeps no strides; a channels_last weight is stored in plain order
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_tensors(path, plain, CLASSIFIER_KEY, description_of(classifier))


def load(path: Path, into: "FewShotClassifier", backbone: Backbone | None) -> None:
    """Fills an unfitted classifier with what `save` wrote.

    Args:
        path: The file.
        into: Gets everything.
        backbone: For a classifier that was fitted with an object: another of its architecture.
    """
    tensors, raw = _read(path)
    said = parsed_description(raw, path)
    way, device = len(said.classes), choose_device(into.device)
    if said.adapts:
        loaded = _load_adapted(tensors, said, path, device)
    else:
        loaded = _load_embedding(tensors, said, path, device, backbone)
    into.predictor_, into.expected_, into.support_embeddings_, into.support_labels_ = loaded
    into.support_pictures_ = [list(some) for some in unpacked(tensors, way, path)]
    into.origin_, into.reject_threshold_ = said.model, said.reject_threshold
    into.classes_, into.model_name_ = said.classes, said.model_name
    into.set_params(**said.parameters, model=said.model_name)


def _load_adapted(
    tensors: dict[str, Tensor], said: ClassifierDescription, path: Path, device: torch.device
) -> _Loaded:
    """A method, adapted anew to the support images in the file."""
    if said.model is None:
        raise UserError(f"{path} does not say what its method is: make it again")
    way, spec = len(said.classes), said.model.spec
    own = {n.removeprefix(_METHOD): t for n, t in tensors.items() if n.startswith(_METHOD)}
    pixels, labels = _support(tensors, way, spec.channels * spec.image_size**2, path)
    if pixels.min() < 0 or pixels.max() > 255 or (pixels != pixels.round()).any():
        raise UserError(f"{path} has support images that are none: make it again")
    method = assemble(own, said.model, path)
    predictor = AdaptedPredictor(method, said.model.config.method.name, spec, way)
    predictor.to(device).eval()
    z = torch.from_numpy(pixels).to(device)
    metric, told, _ = predictor.metric_of(z, labels, way, said.parameters["alpha"])
    predictor.metric = metric.to(device)
    return predictor, told, pixels, labels


def _load_embedding(
    tensors: dict[str, Tensor],
    said: ClassifierDescription,
    path: Path,
    device: torch.device,
    backbone: Backbone | None,
) -> _Loaded:
    """A folded network and the metric of its task."""
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
        metric = AdaptiveMetric(way, own.feature_size, power=said.power, normalised=said.normalised)
        return own, Predictor(own, None, metric)

    try:
        with torch.device("meta"):  # shapes only, so a false claim costs no memory
            empty, expected = build()
    except (RuntimeError, TypeError):
        raise UserError(f"{path} claims an impossible network: not a classifier of ours") from None
    weights = {n.removeprefix(_WEIGHTS): t for n, t in tensors.items() if n.startswith(_WEIGHTS)}
    weights |= {n: tensors[stored] for n, stored in _STATISTICS.items() if stored in tensors}
    state, told, power = expected.state_dict(), said.expected, said.power
    if told is None:
        weights = {n: t for n, t in weights.items() if n not in ("prototypes", "alpha")}
        state = {n: t for n, t in state.items() if not n.startswith("metric.")}
    check_fit(weights, state, path)
    embeddings, labels = _support(tensors, way, empty.feature_size, path)
    if told is None:
        metric, told = fit_metric(
            torch.from_numpy(embeddings), torch.from_numpy(labels), way, normalised=said.normalised
        )
        power = metric.power
        weights |= {f"metric.{name}": t for name, t in metric.state_dict().items()}
    _check_metric(weights, path)
    film = _film(tensors, empty.conditioned_widths, device, path)

    _, predictor = build()
    predictor.load_state_dict(weights)
    predictor.metric.power = power
    if isinstance(predictor.network, ForOneTask):
        predictor.network.film = film
    return predictor.to(device).eval(), told, embeddings, labels


def _check_metric(weights: dict[str, Tensor], path: Path) -> None:
    """Refuses a metric unless its tensors are finite and its scales positive."""
    metric = {n: t for n, t in weights.items() if n.startswith("metric.")}
    finite = all(bool(tensor.isfinite().all()) for tensor in metric.values())
    scales = [metric[f"metric.{name}"].item() for name in ("alpha", "radius", "shrinkage")]
    wide = metric["metric.limit"] > metric["metric.typical"]
    if not (finite and min(scales) > 0 and wide):
        raise UserError(f"{path} has an impossible metric: make it again")


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
        raw = described(metadata, CLASSIFIER_KEY, (WITHOUT_METRIC, CLASSIFIER_FORMAT), path)
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


def _film(
    tensors: dict[str, Tensor], widths: Sequence[int], device: torch.device, path: Path
) -> Film | None:
    """What `_film_tensors` gave, on the device."""
    found = {name: tensor for name, tensor in tensors.items() if name.startswith("film.")}
    layers = [i for i in range(len(widths)) if f"film.{i}.gamma" in found]
    expected = {
        f"film.{i}.{name}": torch.zeros(1, widths[i]) for i in layers for name in ("gamma", "beta")
    }
    check_fit(found, expected, path)
    if not layers:
        return None
    return [
        (found[f"film.{i}.gamma"].to(device), found[f"film.{i}.beta"].to(device))
        if i in layers
        else None
        for i in range(len(widths))
    ]
