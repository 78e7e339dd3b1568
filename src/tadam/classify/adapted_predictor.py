"""A method that adapts to the support images themselves, where others compare embeddings.

To the rest of the classifier an image's pixels are its embedding, and the adapted method is the
metric: so examples are added, removed, saved and found again as for any other model.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.metric_fit import MetricFit
from tadam.classify.predictor import Predictor
from tadam.classify.strangeness_limits import Expected
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Method
from tadam.nn.preprocess import Preprocess

#: Images that a method answers at once.
_AT_ONCE = 64
#: Nothing is known of "none of these".
_NOTHING = Expected(kept=None, caught=0.0, auroc=None)


class _Pixels(nn.Module):
    """Images on the 0-255 scale, (N, C, H, W) -> whole numbers, (N, C * H * W)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.round().clamp(0, 255).flatten(1)


class AdaptedMetric(AdaptiveMetric):
    """The logits of a method that is adapted to a task, in the place of a metric's scores.

    Args:
        task: `Method.adapted`: images (N, C, H, W) -> logits (N, K).
        shape: Shape (C, H, W) of an image.
        way: Number of classes K.
        alpha: What the logits are multiplied by.
    """

    def __init__(
        self, task: nn.Module, shape: tuple[int, int, int], way: int, alpha: float
    ) -> None:
        super().__init__(way, int(np.prod(shape)), normalised=False)
        self.task, self.shape = task, shape
        self.alpha.fill_(alpha)

    knows_strangers: ClassVar[bool] = False

    def scores(self, z: Tensor) -> Tensor:
        """The method's logits, (N, K)."""
        parts = [self.task(some.unflatten(1, self.shape)) for some in z.split(_AT_ONCE)]
        return torch.cat(parts)

    def strangeness(self, z: Tensor) -> Tensor:
        """NaN: a method says nothing of images that belong to no class, (N,)."""
        return self.strangeness_of(z)

    def strangeness_of(self, scores: Tensor) -> Tensor:
        """NaN too, (N,)."""
        return torch.full((len(scores),), torch.nan, device=scores.device)


class AdaptedPredictor(Predictor):
    """Pixels as embeddings, and a method that adapts to them.

    Args:
        method: Any method, ready to answer.
        name: Its name in recipes.
        spec: The images that it takes.
        way: Number of classes, for the time until `metric_of` is called.
    """

    cacheable = False

    def __init__(self, method: Method, name: str, spec: InputSpec, way: int = 2) -> None:
        nn.Module.__init__(self)
        side = spec.image_size
        self.preprocess = Preprocess(side, [0.0] * spec.channels, [1.0] * spec.channels)
        self.network, self.method = _Pixels(), method
        self.backbone_name, self.mirrored = name, False
        self.shape = (spec.channels, side, side)
        self.metric = AdaptiveMetric(way, int(np.prod(self.shape)), normalised=False)

    def metric_of(
        self, z: Tensor, numbers: npt.NDArray[np.int64], way: int, alpha: float | None
    ) -> MetricFit:
        """The method adapted to support images, (N, C * H * W), and their classes, (N,)."""
        order = torch.from_numpy(np.argsort(numbers, kind="stable"))  # as in training
        labels = torch.from_numpy(numbers)[order].to(z.device)
        images = z[order.to(z.device)].unflatten(1, self.shape).to(torch.uint8)
        try:
            with torch.set_grad_enabled(self.method.needs_gradients):
                task = self.method.adapted(images, labels, way).eval()
            metric = AdaptedMetric(task, self.shape, way, alpha or 1.0).to(z.device)
            with torch.no_grad():
                finite = bool(metric.scores(z[:1]).isfinite().all())
        except UserError as error:
            raise UserError(f"method {self.backbone_name!r} cannot learn this: {error}") from None
        if not finite:
            raise UserError(
                f"method {self.backbone_name!r} does not find finite weights for these images: "
                "use another model"
            )
        return MetricFit(metric, _NOTHING, None)
