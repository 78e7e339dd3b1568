"""The network that MAML and the Meta-LSTM adapt to a task: a backbone and a linear head.

Its weights are arguments of the forward pass, so that each task can have its own, and
`torch.func.vmap` runs all the tasks of a step at once: their convolutions become one grouped
convolution. Batch norm's statistics are arguments as well, and come back as the pass left them.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import check_episode
from tadam.methods.with_backbone import WithBackbone
from tadam.nn.backbone import Backbone
from tadam.nn.composed_norm import compose_norms, normalised_by_first

#: A network's parameters, or batch norm's statistics, by name.
Named = dict[str, Tensor]
#: The names of the head's weights.
HEAD = ("head.weight", "head.bias")
#: Images that an adapted network answers at once, each in the company of the support set.
_AT_ONCE = 16


class InnerNetwork(WithBackbone):
    """A method that changes all the weights of its network for each task; `learnt` says how.

    Args:
        backbone: The feature extractor; it must have weights.
        way: Classes that the head tells apart.
        shared_head: Whether the head starts as the same row for every class, which makes it fit any
            number of classes; else each has an initial row of its own.
        support_norm: Whether the support set's statistics normalise the queries, in training and at
            test; else batch norm does as the method leaves it.
    """

    needs_gradients: ClassVar[bool] = True

    def __init__(
        self, backbone: Backbone, way: int, shared_head: bool = False, support_norm: bool = False
    ) -> None:
        super().__init__(backbone)
        self.support_norm = support_norm
        if support_norm:
            compose_norms(backbone)
        if not any(parameter.requires_grad for parameter in backbone.parameters()):
            raise UserError(
                f"{type(self).__name__} adapts the network's weights, and this network has none "
                "to train: set backbone.name to conv4 or resnet12"
            )
        self.way, self.shared_head = way, shared_head
        self.head = nn.Linear(backbone.feature_size, 1 if shared_head else way)

    def initialise_rest(self, config: Config, generator: torch.Generator) -> None:
        """Draws the head: Xavier's weights, no bias."""
        nn.init.xavier_uniform_(self.head.weight, generator=generator)
        nn.init.zeros_(self.head.bias)

    def check_way(self, way: int) -> None:
        """Refuses tasks whose classes the head cannot tell apart."""
        if way != self.way and not self.shared_head:
            raise UserError(
                f"this model was trained for tasks of {self.way} classes and has an output for "
                f"each of them, so it cannot answer tasks of {way}"
            )

    def weights(self, way: int) -> Named:
        """The initial weights of every task, with a row of the head for each of `way` classes."""
        # Grouped convolutions are fastest with channels first, unlike all others here.
        named = {name: p.contiguous() for name, p in self.backbone.named_parameters()}
        head: tuple[Tensor, Tensor] = (self.head.weight, self.head.bias)
        if self.shared_head:
            head = (head[0].expand(way, -1), head[1].expand(way))
        return named | dict(zip(HEAD, head, strict=True))

    def norm_statistics(self) -> Named:
        """Batch norm's buffers; none if it only uses the batch's own statistics."""
        norms = {
            name: module
            for name, module in self.backbone.named_modules()
            if isinstance(module, _BatchNorm)
        }
        return {
            f"{name}.{kind}": buffer
            for name, norm in norms.items()
            for kind, buffer in norm.named_buffers()
        }

    def run(self, weights: Named, statistics: Named, x: Tensor) -> tuple[Tensor, Named]:
        """The network with these weights.

        Args:
            weights: As `weights` names them.
            statistics: As `norm_statistics` names them; not changed.
            x: Preprocessed images, (N, C, H, W).

        Returns:
            Logits, (N, K), and the statistics after the pass.
        """
        own = {name: buffer.clone() for name, buffer in statistics.items()}
        of_backbone = {name: value for name, value in weights.items() if name not in HEAD}
        z = functional_call(self.backbone, of_backbone | own, (x,))
        return F.linear(z, *(weights[name] for name in HEAD)), own

    def query_logits(
        self, weights: Named, statistics: Named, support: Tensor, query: Tensor
    ) -> tuple[Tensor, Named]:
        """Logits of the queries of one task, (Q, K), and the statistics; see `run`."""
        if not self.support_norm:
            return self.run(weights, statistics, query)
        with normalised_by_first(self.backbone, len(support)):
            logits, statistics = self.run(weights, statistics, torch.cat([support, query]))
        return logits[len(support) :], statistics

    def loss(
        self, weights: Named, statistics: Named, x: Tensor, labels: Tensor
    ) -> tuple[Tensor, Named]:
        """Mean cross-entropy of a support set, and the statistics after the pass."""
        logits, statistics = self.run(weights, statistics, x)
        return F.cross_entropy(logits, labels), statistics

    def learnt(self, x: Tensor, labels: Tensor, way: int) -> tuple[Named, Named]:
        """What each of T tasks makes of the network.

        Args:
            x: Preprocessed support images, (T, N, C, H, W).
            labels: Their classes, (T, N).
            way: Number of classes K.

        Returns:
            Weights and batch norm's statistics, (T, …) each, by name.
        """
        raise NotImplementedError

    def keep(self, statistics: Named) -> None:
        """Receives the statistics after a training pass, (T, …) each; forgets them by default."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K), outside training without gradients; see `Method.forward`."""
        check_episode(support, labels, query, way)
        self.check_way(way)
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            x = self.preprocessed(support)
            weights, statistics = self.learnt(x, labels, way)
            logits: Tensor
            logits, statistics = vmap(self.query_logits)(
                weights, statistics, x, self.preprocessed(query)
            )
        if self.training:
            self.keep(statistics)
        return logits

    def adapted(self, support: Tensor, labels: Tensor, way: int) -> nn.Module:
        """The adapted network; see `Method.adapted`."""
        check_episode(support[None], labels[None], support[None], way)
        self.check_way(way)
        with torch.no_grad():
            x = self.preprocessed(support[None])
            weights, statistics = self.learnt(x, labels[None], way)
        company = x[0] if self.sees_queries_together or self.support_norm else None
        first = [{name: value[0] for name, value in part.items()} for part in (weights, statistics)]
        return AdaptedNetwork(self, first[0], first[1], company)

    def preprocessed(self, images: Tensor) -> Tensor:
        """(T, N, C, H, W) as the backbone takes them, channels first in memory."""
        x: Tensor = self.backbone.preprocess(images.flatten(0, 1)).contiguous()
        return x.view(*images.shape[:2], *x.shape[1:])


class AdaptedNetwork(nn.Module):
    """A network that has learnt one task.

    Args:
        method: Runs it.
        weights: The task's own.
        statistics: Batch norm's, for the task.
        company: Preprocessed support images, (N, C, H, W), if batch norm uses their statistics or
            those of the batch: each image is normalised with them, never with other images.
    """

    def __init__(
        self, method: InnerNetwork, weights: Named, statistics: Named, company: Tensor | None
    ) -> None:
        super().__init__()
        self.method, self.weights, self.statistics = method, weights, statistics
        self.company = company

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """(Q, C, H, W) -> logits, (Q, K)."""
        x = self.method.preprocessed(images[None])[0]
        company = self.company
        if company is None:
            return self.method.run(self.weights, self.statistics, x)[0]
        if self.method.support_norm:
            return self.method.query_logits(self.weights, self.statistics, company, x)[0]

        def beside_support(one: Tensor) -> Tensor:
            together = torch.cat([one[None], company])
            return self.method.run(self.weights, self.statistics, together)[0][0]

        return vmap(beside_support, chunk_size=_AT_ONCE)(x)
