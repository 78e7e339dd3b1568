"""Matching Networks: a query takes the labels of support images like it (Vinyals et al., 2016).

The label of a query is a mean of the support labels, weighted by attention (eq. 1), which is a
softmax over similarities (sec. 2.1.1). The logit of a class is the logarithm of its share:

    a(x, x_i) = softmax over i of -alpha * d(f(x), g(x_i))
    logit_k = log of the sum of a(x, x_i) over y_i = k, up to a constant

So a class with more shots gets more of the attention, as eq. 1 has it.

The paper takes the cosine of f and g as it is. Our `cosine` is the squared distance of the unit
vectors, 2 - 2 cos, so the paper's is alpha = 0.5. Without a larger scale it does not reproduce the
published figures (TADAM, sec. 2.1, says why): the cpu recipes learn alpha.

With full context embeddings (sec. 2.1.2, appendix A) they depend on the whole support set S:

    g(x_i, S) = h_i forwards + h_i backwards + g'(x_i), of a bidirectional LSTM over S
    f(x, S) = h_K,  h_k = LSTM(f'(x), [h_(k-1), r_(k-1)]) + f'(x),
    r_k = sum over i of softmax_i(h_k . g(x_i, S)) g(x_i, S)

What the paper leaves open: the order of S, here class by class as tasks have it; the number of
steps K, here 5 (`steps`); the first h, here f'(x). As in its experiments, f' and g' are the same.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.methods.base import InputSpec, Tasks, check_episode
from tadam.methods.with_backbone import WithBackbone, installed_backbone
from tadam.metric import ScaledMetric, one_hot
from tadam.nn.backbone import Backbone
from tadam.registry import METHODS


@dataclass(frozen=True)
class MatchingConfig(MethodConfig):
    """Settings of Matching Networks; distance and alpha are in the table [metric]."""

    tables: ClassVar[tuple[str, ...]] = ("metric",)

    name: str = "matching"
    full_context: bool = False
    """Whether embeddings depend on the whole support set, by LSTMs."""
    steps: int = 5
    """Steps of the LSTM that reads the support set for a query."""

    def __post_init__(self) -> None:
        require(1 <= self.steps <= 100, "method.steps", "between 1 and 100", self.steps)


class FullContext(nn.Module):
    """Embeddings in the light of the support set.

    Args:
        features: Length D of an embedding.
        steps: Steps of the attending LSTM.
    """

    def __init__(self, features: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.over_support = nn.LSTM(features, features, bidirectional=True, batch_first=True)
        # The LSTM's memory [h, r] of the paper: r enters beside the input, which is the same.
        self.over_query = nn.LSTMCell(2 * features, features)

    def forward(self, z: Tensor, zq: Tensor) -> tuple[Tensor, Tensor]:
        """Support (T, N, D) and query embeddings (T, Q, D) -> the same in context."""
        both, _ = self.over_support(z)  # (T, N, 2D)
        forwards, backwards = both.chunk(2, dim=2)
        g = forwards + backwards + z
        h, memory = zq, torch.zeros_like(zq).flatten(0, 1)
        for _ in range(self.steps):
            read = (h @ g.mT).softmax(dim=-1) @ g  # (T, Q, D)
            inputs = torch.cat([zq, read], dim=2).flatten(0, 1)
            out, memory = self.over_query(inputs, (h.flatten(0, 1), memory))
            h = out.view_as(zq) + zq
        return g, h


@METHODS.register("matching", MatchingConfig)
class MatchingNetwork(WithBackbone):
    """Attention over the support images.

    Args:
        backbone: f' and g'.
        metric: Similarities, scaled by alpha.
        context: Full context embeddings; None to compare embeddings as they are.
    """

    def __init__(
        self, backbone: Backbone, metric: ScaledMetric, context: FullContext | None = None
    ) -> None:
        super().__init__(backbone)
        self.metric, self.context = metric, context

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        backbone, method, metric = installed_backbone(config, spec), config.method, config.metric
        assert isinstance(method, MatchingConfig)
        scaled = ScaledMetric(metric.distance, metric.alpha, metric.learn_alpha)
        context = FullContext(backbone.feature_size, method.steps) if method.full_context else None
        return cls(backbone, scaled, context)

    def compare(self, z: Tensor, labels: Tensor, zq: Tensor, way: int) -> Tensor:
        """Support (T, N, D) and query embeddings (T, Q, D) -> logits (T, Q, K)."""
        if self.context is not None:
            z, zq = self.context(z, zq)
        similarities: Tensor = self.metric(zq, z)  # (T, Q, N)
        own = one_hot(labels, way, torch.bool).mT[:, None]  # (T, 1, K, N)
        return similarities[:, :, None].masked_fill(~own, -torch.inf).logsumexp(dim=-1)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K); see `Method.forward`."""
        check_episode(support, labels, query, way)
        z, zq = (self.embed(x.flatten(0, 1)).unflatten(0, x.shape[:2]) for x in (support, query))
        return self.compare(z, labels, zq, way)

    def logged(self) -> dict[str, float]:
        """The metric's scale."""
        return {"alpha": self.metric.alpha.item()}

    # Evaluation: an image's own embedding does not depend on the task

    def embed_once(self, images: Tensor) -> Tensor | None:
        """Embeddings without context, (N, C, H, W) -> (N, D)."""
        return self.embed(images)

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits (T, Q, K)."""
        assert tasks.once is not None
        z, zq = tasks.once
        return self.compare(z, tasks.labels, zq, tasks.way)

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """Each image once."""
        return images

    def as_embedding(self) -> tuple[Backbone, str] | None:
        """The backbone, unless an embedding depends on the support set."""
        return None if self.context is not None else (self.backbone, self.metric.distance_name)
