"""Relation Net: a learnt comparison instead of a distance (Sung et al., CVPR 2018).

The embedding module gives feature maps. A class is the *sum* of its support maps (sec. 3.3; their
mean is not the same for unequal shots, which the paper does not treat). The relation module g sees
a class's map and a query's, concatenated in channels, and says how well they belong together, a
number in (0, 1) (eq. 1). It is trained by the squared error to 1 for the right class and 0 for the
others (eq. 2).

    r_ij = sigmoid(g([sum of f(x_i), f(x_j)])),   loss = mean over i, j of (r_ij - 1[y_i = y_j])^2

`forward` returns what stands before the sigmoid, whose order is the same. Decisions of ours: the
convolutions of both modules are padded, as the authors' are for Omniglot but not for mini-ImageNet;
a unit of the relation module pools only while its map is larger than one pixel. The authors' code
never leaves training mode, so that batch norm uses the statistics of the task's support images, of
its queries and of their pairs, at test too (`batch_statistics`); at test we keep tasks apart.

A convolution of concatenated maps is the sum of two convolutions, so the first layer of g runs once
per class and once per query rather than once per pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.config.checks import require
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Update, check_episode
from tadam.methods.with_backbone import WithBackbone, installed_backbone
from tadam.metric import one_hot
from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.fast import conv_unit
from tadam.nn.norm import use_batch_statistics
from tadam.registry import METHODS


@dataclass(frozen=True)
class RelationConfig(MethodConfig):
    """Settings of Relation Net."""

    name: str = "relation"
    filters: int = 64
    """Filters of the relation module's two convolutions."""
    hidden: int = 8
    """Units between its two fully connected layers."""
    batch_statistics: bool = True
    """Normalise by the batch's own statistics at test too, as the authors do."""

    def __post_init__(self) -> None:
        require(1 <= self.filters <= 1024, "method.filters", "between 1 and 1024", self.filters)
        require(1 <= self.hidden <= 1024, "method.hidden", "between 1 and 1024", self.hidden)

    def check(self, config: Config) -> None:
        """Refuses mirrored embeddings: it compares maps, of which there is no mean."""
        if config.backbone.mirrored:
            raise UserError("backbone.mirrored must be false with method.name 'relation'")


def squared_error(scores: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    """Mean squared error of the sigmoid to 0 and 1 (eq. 2); scores (n, K), targets (n,).

    Smoothing moves both targets towards 1 / K, as it does for cross-entropy.
    """
    ways = scores.shape[-1]
    wanted = one_hot(targets, ways, scores.dtype)
    wanted = (1 - label_smoothing) * wanted + label_smoothing / ways
    return F.mse_loss(scores.sigmoid(), wanted)


class RelationModule(nn.Module):
    """Two conv units and two fully connected layers: how well two maps belong together.

    Args:
        shape: Channels and side of a map.
        filters: Filters of its convolutions.
        hidden: Units between its fully connected layers.
    """

    def __init__(self, shape: tuple[int, int], filters: int, hidden: int) -> None:
        super().__init__()
        channels, side = shape
        self.channels = channels
        self.first = conv_unit(2 * channels, filters, "relu")
        self.second = conv_unit(filters, filters, "relu")
        self._pools = ("down" if side > 1 else None, "down" if side // 2 > 1 else None)
        for pool in self._pools:
            side = side // 2 if pool else side
        self.hidden = nn.Linear(filters * side * side, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, classes: Tensor, queries: Tensor) -> Tensor:
        """Class maps (T, K, C, h, w) and query maps (T, Q, C, h, w) -> scores (T, Q, K)."""
        weight = self.first.conv.weight
        sides = []
        for maps, part in (
            (classes, weight[:, : self.channels]),
            (queries, weight[:, self.channels :]),
        ):
            x = F.conv2d(maps.flatten(0, 1), part, padding=1)
            sides.append(x.permute(0, 2, 3, 1).unflatten(0, maps.shape[:2]))  # (T, n, h, w, F)
        pairs = sides[0][:, None] + sides[1][:, :, None]  # (T, Q, K, h, w, F)
        x = pairs.flatten(0, 2).permute(0, 3, 1, 2)  # channels last in memory
        x = self.first.finish(x, None, None, self._pools[0])
        x = self.second(x, pool=self._pools[1])
        scores = self.score(F.relu(self.hidden(x.flatten(1))))
        return scores.view(pairs.shape[:3])  # type: ignore[no-any-return]


@METHODS.register("relation", RelationConfig)
class RelationNet(WithBackbone):
    """An embedding module and a relation module.

    Args:
        backbone: The embedding module, with feature maps.
        relation: Compares maps.
        batch_statistics: See `RelationConfig`.
    """

    def __init__(
        self, backbone: Backbone, relation: RelationModule, batch_statistics: bool = True
    ) -> None:
        super().__init__(backbone)
        self.relation = relation
        self._batch_statistics = batch_statistics
        if batch_statistics:
            use_batch_statistics(self)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        backbone, method = installed_backbone(config, spec), config.method
        assert isinstance(method, RelationConfig)
        backbone.require_stages()
        relation = RelationModule(backbone.stage_shapes[-1], method.filters, method.hidden)
        return cls(backbone, relation, method.batch_statistics)

    def initialise_rest(self, config: Config, generator: torch.Generator) -> None:
        """As the authors do: convolutions as the backbone's, matrices N(0, 0.01), biases 1."""
        scheme = getattr(config.backbone, "initialisation", "he")
        initialise_convolutions(self.relation, scheme, generator)
        for layer in (self.relation.hidden, self.relation.score):
            nn.init.normal_(layer.weight, std=0.01, generator=generator)
            nn.init.ones_(layer.bias)

    def updates(self, config: Config) -> Sequence[Update]:
        """One update, by squared error."""
        return [Update("few_shot", self, loss=squared_error)]

    @property
    def sees_queries_together(self) -> bool:
        """Yes, by batch norm, if that uses the batch's statistics."""
        return self._batch_statistics

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Scores before the sigmoid, (T, Q, K); see `Method.forward`."""
        check_episode(support, labels, query, way)
        if self.training or not self._batch_statistics:
            return self._compared(support, labels, query, way)
        tasks = zip(support.split(1), labels.split(1), query.split(1), strict=True)
        return torch.cat([self._compared(*task, way) for task in tasks])

    def _compared(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """The same for tasks that are normalised together."""
        maps, queries = (
            self.backbone.maps(self.backbone.preprocess(x.flatten(0, 1))).unflatten(0, x.shape[:2])
            for x in (support, query)
        )
        return self.relation(class_maps(maps, labels, way), queries)  # type: ignore[no-any-return]


def class_maps(maps: Tensor, labels: Tensor, way: int) -> Tensor:
    """The sum of each class's support maps, (T, N, C, h, w) and (T, N) -> (T, K, C, h, w)."""
    rows = maps.permute(0, 1, 3, 4, 2).flatten(2)  # (T, N, h w C), as it is in memory
    sums = one_hot(labels, way, maps.dtype).mT @ rows
    channels, height, width = maps.shape[2:]
    return sums.view(-1, way, height, width, channels).permute(0, 1, 4, 2, 3)
