"""The support set through the network: once, or twice if the network is conditioned on it."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.classify.adapted_predictor import AdaptedPredictor
from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.cached_reading import with_cache
from tadam.classify.inference import embed, reader_of
from tadam.classify.predictor import Predictor
from tadam.classify.reading import ImageSource, Prepared
from tadam.classify.support import class_numbers
from tadam.classify.thumbnails import Picture, by_class, shrunk
from tadam.methods.base import Method
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo
from tadam.system.progress import Progress

#: Prepared support images are kept between the two passes up to this many bytes, else read again.
_KEPT_BYTES = 2**30


@dataclass(frozen=True)
class EmbeddedSupport:
    """A support set as the task's network sees it.

    Attributes:
        predictor: The network, folded for the task; its metric is yet to be set.
        z: Embeddings, (N, D).
        numbers: Their classes, (N,).
        pictures: The first images of each class, small.
    """

    predictor: Predictor
    z: Tensor
    numbers: npt.NDArray[np.int64]
    pictures: list[list[Picture]]


def embed_support(
    model: Tadam,
    images: Sequence[ImageSource],
    labels: Sequence[Hashable],
    classes: npt.NDArray[Any],
    progress: Progress | None = None,
    problems: list[str] | None = None,
    origin: ModelInfo | None = None,
) -> EmbeddedSupport:
    """Reads the images, conditions the network on them if it can be, and embeds them.

    Args:
        model: Its backbone gets folded.
        images: The support set.
        labels: The class of each.
        classes: The different labels, (K,).
        progress: Called with (images read, total images).
        problems: Gets a sentence for each image that cannot be read; without it, that is an error.
        origin: The model's recipe, to look for embeddings in the user's cache; None not to.
    """
    backbone, ten, way = model.backbone, model.ten, len(classes)
    device = backbone.pixel_mean.device
    normalised = model.metric.distance_name == "cosine"
    metric = AdaptiveMetric(way, backbone.feature_size, normalised=normalised)
    predictor = Predictor(backbone, None, metric) if ten is None else None
    reader = reader_of(backbone.preprocess, shrunk, predictor and predictor.network)
    source = with_cache(reader, predictor, origin) if predictor else reader
    batches: Iterable[Prepared] = source.batches(images, progress, problems)
    size = 4 * len(images) * reader.channels * reader.size**2
    if ten is not None and size <= _KEPT_BYTES:
        batches = list(batches)
    # A network that is used for one pass only is not worth folding.
    rows, z, small = embed(predictor.network if predictor else backbone, batches)
    numbers = class_numbers([labels[row] for row in rows], classes)
    if predictor is None:
        with torch.no_grad():
            film = model.film_from(z[None], torch.from_numpy(numbers).to(device)[None], way)
        predictor = Predictor(backbone, film, metric)
        if not isinstance(batches, list):
            batches = replace(reader, thumbnail=None).batches([images[row] for row in rows])
        _, z, _ = embed(predictor.network, batches)  # second pass
    return EmbeddedSupport(predictor.eval(), z, numbers, by_class(small, numbers, way))


def read_support(
    model: Method,
    images: Sequence[ImageSource],
    labels: Sequence[Hashable],
    classes: npt.NDArray[Any],
    progress: Progress | None,
    problems: list[str] | None,
    origin: ModelInfo,
) -> EmbeddedSupport:
    """The same for a method that adapts to the images themselves; arguments as above."""
    predictor = AdaptedPredictor(model, origin.config.method.name, origin.spec, len(classes))
    predictor.to(model.device)
    batches = reader_of(predictor.preprocess, shrunk).batches(images, progress, problems)
    rows, z, small = embed(predictor.network, batches)
    numbers = class_numbers([labels[row] for row in rows], classes)
    return EmbeddedSupport(predictor.eval(), z, numbers, by_class(small, numbers, len(classes)))
