"""A model that embeds photos once, and makes classifiers of embeddings in a fraction of a second.

`FewShotClassifier.fit` reads the photos each time. A program that lets people move photos between
classes keeps the embeddings instead; only a network that is conditioned on its task has to look at
the photos again.
"""

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.inference import embed, reader_of
from tadam.classify.labels import class_array
from tadam.classify.predictor import Predictor
from tadam.classify.reading import ImageSource, Reader
from tadam.classify.support import class_numbers
from tadam.models.resolve import model_name, resolve_model
from tadam.system.device import choose_device
from tadam.system.progress import Progress


@dataclass(frozen=True, eq=False)
class Embedded:
    """Photos as a network sees them.

    Attributes:
        rows: Their places among those that were given; a broken one is missing.
        z: Embeddings, (n, D).
        problems: A sentence by the place of each broken one.
    """

    rows: list[int]
    z: npt.NDArray[np.float32]
    problems: dict[int, str]


class Eyes:
    """A network with what reads photos for it; may be used from several threads.

    Args:
        predictor: Whose network it is.
        pool: Threads to read with.
        network: Instead of the predictor's own.
    """

    def __init__(
        self,
        predictor: Predictor,
        pool: ThreadPoolExecutor | None = None,
        network: torch.nn.Module | None = None,
    ) -> None:
        self.network = network or predictor.network
        reader = reader_of(predictor.preprocess, None, self.network if network is None else None)
        self._reader: Reader = replace(reader, pool=pool)

    def embed(
        self,
        images: Sequence[ImageSource],
        progress: Progress | None = None,
    ) -> Embedded:
        """Embeds photos; a broken one costs the others nothing."""
        said: list[str] = []
        batches = list(self._reader.batches(images, progress, said))
        rows: list[int] = []
        z = torch.zeros(0, 0)
        if batches:
            rows, z, _ = embed(self.network, batches)
        missing = sorted(set(range(len(images))) - set(rows))
        return Embedded(rows, z.cpu().numpy(), dict(zip(missing, said, strict=True)))


class Embedder:
    """A model by name, ready to embed photos and to make classifiers of what it saw.

    Args:
        model: As for `FewShotClassifier`; None for the best one that is installed.
        pool: Threads to read photos with.
        device: auto, cpu, cuda or mps.

    Attributes:
        name: The model's name.
        conditioned: Whether the network depends on the task.
        eyes: What embeds photos as long as no task is known.
    """

    def __init__(
        self, model: str | None, pool: ThreadPoolExecutor | None = None, device: str = "auto"
    ) -> None:
        self.name = model_name(model) or ""
        self._pool = pool
        self._model, self._origin = resolve_model(self.name, choose_device(device))
        self.conditioned = self._model.ten is not None
        backbone = self._model.backbone
        plain = Predictor(backbone, None, self._metric(2)).eval()
        self._plain = plain
        self.eyes = Eyes(plain, pool, backbone if self.conditioned else None)

    def _metric(self, way: int) -> AdaptiveMetric:
        normalised = self._model.metric.distance_name == "cosine"
        return AdaptiveMetric(way, self._model.backbone.feature_size, normalised=normalised)

    def classifier(
        self,
        z: npt.NDArray[np.float32],
        labels: Sequence[str],
        images: Callable[[], Sequence[ImageSource]],
        progress: Progress | None = None,
    ) -> FewShotClassifier:
        """The classifier that `fit` would make of these photos, which have two classes or more.

        Args:
            z: What `eyes` made of them, (N, D).
            labels: Their classes.
            images: Called for the photos if the network is conditioned on its task.
            progress: Called with (photos seen again, total photos).
        """
        classes = class_array(labels)
        numbers = class_numbers(labels, classes)
        known = torch.from_numpy(z)
        if self.conditioned:
            device = self._model.backbone.pixel_mean.device
            with torch.no_grad():
                film = self._model.film_from(
                    known.to(device)[None],
                    torch.from_numpy(numbers).to(device)[None],
                    len(classes),
                )
            predictor = Predictor(self._model.backbone, film, self._metric(len(classes))).eval()
            found = Eyes(predictor, self._pool).embed(images(), progress)
            known = torch.from_numpy(found.z)
        else:
            network = self._plain.network
            predictor = copy.deepcopy(self._plain, {id(network): network})
        made = FewShotClassifier(self.name)
        made._settle(predictor, classes, known, numbers, [[] for _ in classes])
        made.model_name_, made.origin_ = self.name, self._origin
        return made
