"""Prepared images through a network, batch by batch: embeddings, probabilities, strangeness."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam.classify.predictor import Predictor
from tadam.classify.reading import Prepared, Reader
from tadam.data.decode import Pixels
from tadam.errors import RunFailed, UserError
from tadam.nn.fast import constant_weights
from tadam.nn.one_by_one import runner
from tadam.nn.preprocess import Preprocess


@dataclass(frozen=True)
class Answers:
    """What a predictor says of n images.

    Attributes:
        rows: Their places among the images that were asked for; a broken one is missing.
        embeddings: (n, D).
        strangeness: How little each looks like any class: 0 is typical, 1 is the limit, (n,);
            NaN if the method does not say.
        probabilities: (n, K).
        thumbnails: What the reader kept of each, if anything.
    """

    rows: list[int]
    embeddings: npt.NDArray[np.float32]
    strangeness: npt.NDArray[np.float32]
    probabilities: npt.NDArray[np.float32]
    thumbnails: list[Any]

    @property
    def best(self) -> npt.NDArray[np.int64]:
        """The most probable class of each image, (n,)."""
        return np.asarray(self.probabilities.argmax(axis=1))

    def strange(self, threshold: float) -> npt.NDArray[np.bool_]:
        """Which images are stranger than that, (n,)."""
        return self.strangeness > threshold


def reader_of(
    preprocess: Preprocess,
    thumbnail: Callable[[Pixels], Any] | None = None,
    network: nn.Module | None = None,
) -> Reader:
    """Reads images as the network behind the preprocessing takes them.

    Given the network, the reader also runs it, if it is one to run image by image.
    """
    run = runner(network) if network else None
    return Reader(preprocess, preprocess.image_size, preprocess.channels, thumbnail, run)


def until(stop: Callable[[], bool], batches: Iterable[Prepared]) -> Iterator[Prepared]:
    """The batches up to the first one after which `stop` says yes."""
    for batch in batches:
        yield batch
        if stop():
            return


@torch.no_grad()
def embed(network: nn.Module, batches: Iterable[Prepared]) -> tuple[list[int], Tensor, list[Any]]:
    """Rows, in order, embeddings (n, D) and thumbnails of all images."""
    rows: list[int] = []
    parts: list[Tensor] = []
    thumbnails: list[Any] = []
    with constant_weights():
        for batch in batches:
            z = batch.x if batch.embedded else network(batch.x)
            if batch.keep:
                batch.keep(z)
            rows += batch.rows
            parts.append(z)
            thumbnails += batch.thumbnails
    if not parts:
        raise UserError("there is no image that can be read: check the files")
    z = torch.cat(parts)
    if rows != sorted(rows):  # what the cache knew came first
        order = sorted(range(len(rows)), key=rows.__getitem__)
        rows, z = [rows[i] for i in order], z[order]
        thumbnails = [thumbnails[i] for i in order] if thumbnails else []
    return rows, z, thumbnails


@torch.no_grad()
def answer(predictor: Predictor, batches: Iterable[Prepared]) -> Answers:
    """Classifies images."""
    rows, z, thumbnails = embed(predictor.network, batches)
    probabilities = predictor.metric.probabilities(z)
    strangeness = predictor.metric.strangeness(z)
    sound = strangeness.isfinite().all() or not predictor.metric.knows_strangers
    if not (probabilities.isfinite().all() and sound):
        raise RunFailed("the classifier's answers are NaN or infinite: its weights are damaged")
    return Answers(
        rows,
        z.cpu().numpy(),
        strangeness.cpu().numpy(),
        probabilities.cpu().numpy(),
        thumbnails,
    )
