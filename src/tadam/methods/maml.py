"""MAML: initial weights from which a few gradient steps learn a task (Finn et al., 2017).

Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, ICML 2017. Each task starts from
the same weights theta and takes gradient steps on the cross-entropy of its support set,
`theta_i = theta - a * grad L_support(theta)` (eq. 1, and again from theta_i for further steps).
Training minimises the loss of the queries under theta_i (eq. 2), differentiating through the inner
steps, which takes second derivatives; `first_order` treats the inner gradients as constants
(sec. 5.2). Batch norm uses the statistics of the batch at hand, at test too, as in the authors'
code: the queries of a task are normalised together.

What the paper leaves open, or we do differently:

- All weights adapt, the scale and shift of batch norm among them. In the authors' code these two
  stay as they are, while biases of convolutions adapt, which batch norm makes void.
- Every support image counts the same in the inner loss, so classes with more shots count more.
- The head is drawn as Xavier proposed. Theirs is so on mini-ImageNet, standard normal on Omniglot.
- They clip each number of a meta-gradient to +-10 on mini-ImageNet; recipes limit its norm to 10.
- `shared_head` starts every class from the same row, so that the order of classes cannot matter and
  any number of classes can be told apart (Ye and Chao, 2022, How to train your MAML). Equal rows
  send no gradient into the network, so the first inner step changes nothing but the head, and
  only the head's gradient is computed. If there is no second step, the network is the same for
  all tasks, and its fused steps serve. With equal shots such a model compares a query with the
  classes' mean embeddings by dot product: the initial head adds the same to all logits.
- Without `batch_statistics`, training also keeps running statistics, of support and query passes
  and the mean over tasks, and at test these normalise everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import grad, vmap

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.methods.base import InputSpec, check_episode
from tadam.methods.inner_network import HEAD, InnerNetwork, Named
from tadam.methods.with_backbone import installed_backbone
from tadam.metric import one_hot
from tadam.nn.backbone import Backbone
from tadam.nn.composed_norm import compose_norms
from tadam.nn.fast.switch import plain_wanted
from tadam.nn.norm import use_batch_statistics
from tadam.registry import METHODS


@dataclass(frozen=True)
class MamlConfig(MethodConfig):
    """Settings of MAML."""

    name: str = "maml"
    inner_rate: float = 0.01
    """Learning rate a of the inner steps."""
    inner_steps: int = 5
    """Gradient steps on a support set in training ..."""
    test_steps: int = 10
    """... and at test."""
    first_order: bool = False
    """Treat inner gradients as constants: no second derivatives."""
    batch_statistics: bool = True
    """Normalise by the batch at hand, at test too; else by running statistics at test."""
    shared_head: bool = False
    """Start all classes from the same row of the head, which then fits any number of classes."""

    def __post_init__(self) -> None:
        require(self.inner_rate > 0, "method.inner_rate", "above 0", self.inner_rate)
        for name in ("inner_steps", "test_steps"):
            value = getattr(self, name)
            require(value >= 1, f"method.{name}", "at least 1", value)


@METHODS.register("maml", MamlConfig)
class Maml(InnerNetwork):
    """A network whose initial weights are learnt, and adapted to each task by gradient steps.

    Args:
        backbone: The feature extractor.
        way: Classes of a task.
        settings: The inner loop's.
    """

    def __init__(self, backbone: Backbone, way: int, settings: MamlConfig) -> None:
        super().__init__(backbone, way, settings.shared_head)
        self.settings = settings
        if settings.batch_statistics:
            use_batch_statistics(backbone)
        compose_norms(backbone)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        assert isinstance(config.method, MamlConfig)
        return cls(installed_backbone(config, spec), config.episode.way, config.method)

    @property
    def sees_queries_together(self) -> bool:
        """Batch statistics are those of all queries of a task."""
        return self.settings.batch_statistics

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K); see `InnerNetwork.forward`."""
        settings = self.settings
        steps = settings.inner_steps if self.training else settings.test_steps
        general = steps > 1 or not settings.shared_head or not settings.batch_statistics
        if general or plain_wanted():
            return super().forward(support, labels, query, way)
        check_episode(support, labels, query, way)
        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):
            tasks = zip(support, labels, query, strict=True)
            return torch.stack([self._one_step(*task, way) for task in tasks])

    def _one_step(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits of one task, (Q, K), after one step from a shared head: see the head of this file.

        All classes are as probable before it, so the gradient of row k is the mean over the support
        set of (1 / K - 1[y_i = k]) z_i.
        """
        z, z_query = (self.backbone(self.backbone.preprocess(x)) for x in (support, query))
        if self.settings.first_order:
            z = z.detach()
        share = self.settings.inner_rate / len(z)
        towards = one_hot(labels, way, z.dtype) - 1 / way  # (N, K)
        weight = self.head.weight + share * towards.T @ z
        return F.linear(z_query, weight, self.head.bias + share * towards.sum(dim=0))

    def learnt(self, x: Tensor, labels: Tensor, way: int) -> tuple[Named, Named]:
        """Weights after the inner steps; see `InnerNetwork.learnt`."""
        statistics = {
            name: buffer.expand(len(x), *buffer.shape)
            for name, buffer in self.norm_statistics().items()
        }
        found: tuple[Named, Named] = vmap(partial(self.adapt, self.weights(way)))(
            statistics, x, labels
        )
        return found

    def adapt(
        self, weights: Named, statistics: Named, x: Tensor, labels: Tensor
    ) -> tuple[Named, Named]:
        """Weights after the inner steps on one support set (eq. 1), and the statistics.

        Args:
            weights: Where to start.
            statistics: Batch norm's, before.
            x: Preprocessed support images, (N, C, H, W).
            labels: (N,).
        """
        settings = self.settings
        for step in range(settings.inner_steps if self.training else settings.test_steps):
            at = weights
            if settings.first_order:  # gradients at constants are constants
                at = {name: weight.detach() for name, weight in weights.items()}
            moving = HEAD if settings.shared_head and step == 0 else at
            gradients, statistics = self._gradients(at, moving, statistics, x, labels)
            weights = weights | {
                name: weights[name] - settings.inner_rate * gradient
                for name, gradient in gradients.items()
            }
        return weights, statistics

    def _gradients(
        self, at: Named, moving: Iterable[str], statistics: Named, x: Tensor, labels: Tensor
    ) -> tuple[Named, Named]:
        """Those of the support loss for some weights, and the statistics; see `adapt`."""

        def loss(some: Named) -> tuple[Tensor, Named]:
            return self.loss(at | some, statistics, x, labels)

        found: tuple[Named, Named] = grad(loss, has_aux=True)({name: at[name] for name in moving})
        return found

    def keep(self, statistics: Named) -> None:
        """Running statistics become the mean over tasks."""
        with torch.no_grad():
            for name, buffer in self.norm_statistics().items():
                of_tasks = statistics[name]
                counts = not buffer.is_floating_point()
                buffer.copy_(of_tasks[0] if counts else of_tasks.mean(dim=0))
