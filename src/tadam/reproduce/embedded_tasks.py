"""Tasks of a split through a trained TADAM once, without conditioning, for looking at claims."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.data.episodes import Indices
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.evaluation.answers import IMAGES_AT_ONCE, images_at
from tadam.evaluation.measured_data import MeasuredData
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import load_model
from tadam.system.progress import Progress


@dataclass(frozen=True)
class EmbeddedSplit:
    """All images of a split as a model sees them.

    Attributes:
        model: The trained model.
        name: What it was called, and its data set.
        store: The images.
        z: Their embeddings without conditioning, (N, D).
    """

    model: Tadam
    name: str
    store: ImageStore
    z: Tensor

    def rows(self, k: int) -> npt.NDArray[np.int64]:
        """The images of a class."""
        return np.arange(self.store.offsets[k], self.store.offsets[k + 1])


@torch.inference_mode()
def embedded_split(
    model: str | Path, dataset: str | None, split: str = "test", progress: Progress | None = None
) -> EmbeddedSplit:
    """Embeds all images of a split with a trained model.

    Args:
        model: A shipped model's name, a run folder or a weights file.
        dataset: A name from the catalogue; None for that of the model's recipe.
        split: train, val or test.
        progress: Called with (images done, total images).
    """
    network, info = load_model(model)
    if not isinstance(network, Tadam):
        raise UserError(f"{model} is not a TADAM: choose another `model`")
    data = MeasuredData(model, info, dataset)
    store = data.load(split)
    parts, every = [], np.arange(len(store.images))
    for chunk in np.array_split(every, -(-len(every) // IMAGES_AT_ONCE)):
        parts.append(_embedded(network, store, chunk))
        if progress:
            progress(int(chunk[-1]) + 1, len(every))
    return EmbeddedSplit(network, f"{model} on {data.name} ({split})", store, torch.cat(parts))


def _embedded(network: Tadam, store: ImageStore, rows: Indices) -> Tensor:
    return network.embed(images_at(store, rows, network.device))
