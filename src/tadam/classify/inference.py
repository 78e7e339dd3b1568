"""Prepared images through a network, batch by batch: embeddings, distances and probabilities."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam.classify.predictor import Predictor
from tadam.classify.reading import READ_AT_ONCE, Prepared, Reader
from tadam.data.decode import Pixels
from tadam.errors import RunFailed, UserError
from tadam.nn.fast import constant_weights
from tadam.nn.preprocess import Preprocess


@dataclass(frozen=True)
class Answers:
    """What a predictor says of n images.

    Attributes:
        rows: Their places among the images that were asked for; a broken one is missing.
        embeddings: (n, D).
        distances: Cosine distance to the nearest prototype, (n,).
        probabilities: (n, K).
        thumbnails: What the reader kept of each, if anything.
    """

    rows: list[int]
    embeddings: npt.NDArray[np.float32]
    distances: npt.NDArray[np.float32]
    probabilities: npt.NDArray[np.float32]
    thumbnails: list[Any]

    @property
    def best(self) -> npt.NDArray[np.int64]:
        """The most probable class of each image, (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def far(self, threshold: float) -> npt.NDArray[np.bool_]:
        """Which images are further than that from every prototype, (n,)."""
        return self.distances > threshold


def reader_of(preprocess: Preprocess, thumbnail: Callable[[Pixels], Any] | None = None) -> Reader:
    """Reads images as the network behind the preprocessing takes them."""
    size, channels, device = (
        preprocess.image_size,
        preprocess.channels,
        preprocess.pixel_mean.device,
    )
    return Reader(preprocess, size, channels, device, thumbnail)


def until(stop: Callable[[], bool], batches: Iterable[Prepared]) -> Iterator[Prepared]:
    """The batches up to the first one after which `stop` says yes."""
    for batch in batches:
        yield batch
        if stop():
            return


@torch.no_grad()
def embed(network: nn.Module, batches: Iterable[Prepared]) -> tuple[list[int], Tensor, list[Any]]:
    """Rows, embeddings (n, D) and thumbnails of all images."""
    rows: list[int] = []
    parts: list[Tensor] = []
    thumbnails: list[Any] = []
    with constant_weights():
        for batch in batches:
            rows += batch.rows
            parts.append(network(batch.x))
            thumbnails += batch.thumbnails
    if not parts:
        raise UserError("there is no image that can be read: check the files")
    return rows, torch.cat(parts), thumbnails


@torch.no_grad()
def answer(predictor: Predictor, batches: Iterable[Prepared]) -> Answers:
    """Classifies images."""
    rows, z, thumbnails = embed(predictor.network, batches)
    parts = z.split(READ_AT_ONCE)
    distances = torch.cat([predictor.distances(part) for part in parts])
    nearest = torch.cat([predictor.nearest(part) for part in parts])
    probabilities = (-predictor.alpha * distances).softmax(dim=1)
    if not probabilities.isfinite().all():
        raise RunFailed("the classifier's answers are NaN or infinite: its weights are damaged")
    return Answers(
        rows,
        z.cpu().numpy(),
        nearest.cpu().numpy(),
        probabilities.cpu().numpy(),
        thumbnails,
    )
