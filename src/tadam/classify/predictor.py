"""What is left of a model once a task is settled: images in, probabilities out."""

import copy
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.metric_fit import MetricFit, fit_with_answers
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film


class Predictor(nn.Module):
    """A folded network and the metric of a task.

    Nothing of the unfolded network is kept, only its preprocessing.

    Args:
        backbone: A trained network.
        film: The task's modulations, (1, C) each; None for an unconditioned task.
        metric: Embeddings -> probabilities; may be set later.

    Attributes:
        preprocess: Images of any size -> what the network takes.
        network: What the network takes -> embeddings, conditioned on the task.
        backbone_name: The class of the backbone.
        mirrored: Whether an image is embedded as the mean of itself and its mirror image.
    """

    #: Whether embeddings of files may be kept for the next time.
    cacheable: ClassVar[bool] = True

    def __init__(self, backbone: Backbone, film: Film | None, metric: AdaptiveMetric) -> None:
        super().__init__()
        self.preprocess = copy.deepcopy(backbone.preprocess)
        self.network = backbone.folded(film)
        self.backbone_name, self.mirrored = type(backbone).__name__, backbone.mirrored
        self.metric = metric

    @property
    def image_size(self) -> int:
        """Side of the square images that the network takes."""
        return self.preprocess.image_size

    @property
    def channels(self) -> int:
        """1 or 3."""
        return self.preprocess.channels

    def embed(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, C) of any one size -> (N, D)."""
        return self.network(self.preprocess(images.permute(0, 3, 1, 2)))  # type: ignore[no-any-return]

    def forward(self, images: Tensor) -> Tensor:
        """uint8 (N, H, W, C) of any one size -> (N, K) probabilities."""
        return self.metric.probabilities(self.embed(images))

    def metric_of(
        self, z: Tensor, numbers: npt.NDArray[np.int64], way: int, alpha: float | None
    ) -> MetricFit:
        """The metric that a support set asks for, and what it says about "none of these".

        Args:
            z: Support embeddings, (N, D).
            numbers: Their classes, (N,), in 0..way-1.
            way: Number of classes K.
            alpha: Scale of the logits; None to estimate it.
        """
        labels = torch.from_numpy(numbers)
        return fit_with_answers(z, labels, way, self.metric.normalised, alpha)
