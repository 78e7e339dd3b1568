"""adaResNet and adaCNN: conditionally shifted neurons (Munkhdalai et al., ICML 2018).

A network with one output per class of a task describes the support set, then adapts to each query.

Description. The network classifies each support image i as it is. What neuron j learns from this is
the paper's direct feedback, I_ij = act'(a_ij) e_i, where e_i = softmax(logits) - onehot(y_i) is the
loss's gradient at the logits. A small network per layer, the same for all its neurons, turns it
into a value V_ij = g(I_ij). The memory keeps the values under a key of the image.

Prediction. A query's attention to the keys, softmax of their cosines, reads a shift of each neuron,
b_j = sum of attention_i V_ij. Neurons become act(a_j) + act(b_j); outputs a_k + b_k (eq. 1).

An activation's derivative is 0 or 1 for relu, so that g is needed at two places per image and layer
only, e_i and 0; its values reach all neurons by a product with the derivatives. For swish we take
the same derivative, that of the rectifier it approximates. Where a stage ends in a max-pool, its
neurons are those behind the pool: relu and max-pool commute, so that eq. 1 holds for the pooled a.

Decisions of ours; we had only parts of the text, and a public re-implementation's account of it.
Shifted are the last `shifted` of the four stages, and the outputs. Keys come from a network of
their own with the same architecture, as that account has it, or are the last hidden layer (`keys`).
At the outputs, also by that account, the feedback is I_ik = e_ik e_i. The attention has a factor,
learnt from 10: a plain cosine cannot choose among many images. A value network starts with a small
positive output, so that no shift starts dead. Gradients flow through e. Left out: dropout; the
variant with back-propagated errors.
Our networks have batch norm; the support set's pass keeps running statistics of its own, since
shifts change those of the layers behind them.

Outputs have a fixed order and number: permuted labels are another task to it, though training makes
all orders alike, and a model takes at most as many classes as it was trained with.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.config.checks import require, require_choice
from tadam.errors import UserError
from tadam.methods.base import InputSpec, check_episode
from tadam.methods.with_backbone import WithBackbone, initialise_backbone, installed_backbone
from tadam.metric import one_hot
from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import ACTIVATIONS
from tadam.nn.norm import SecondStatistics
from tadam.registry import METHODS

#: First bias and spread of the weights of a value network's last layer.
_FIRST_SHIFT, _SPREAD = 0.1, 0.02


@dataclass(frozen=True)
class AdaResNetConfig(MethodConfig):
    """Settings of conditionally shifted neurons."""

    name: str = "adaresnet"
    shifted: int = 3
    """Stages of the network that are shifted, counted from the last; its outputs always are."""
    keys: str = "own"
    """Where keys come from: own (a second network) or shared (the network's last hidden layer)."""
    value_units: int = 20
    """Units in each hidden layer of a value network."""
    attention: float = 10.0
    """First value of the attention's factor on the cosine."""

    def __post_init__(self) -> None:
        require(0 <= self.shifted <= 4, "method.shifted", "between 0 and 4", self.shifted)
        require_choice("method.keys", self.keys, ("own", "shared"))
        ok = 1 <= self.value_units <= 1024
        require(ok, "method.value_units", "between 1 and 1024", self.value_units)
        require(0 < self.attention < 1e6, "method.attention", "above 0, below 1e6", self.attention)

    def check(self, config: Config) -> None:
        """Refuses what has no meaning with outputs of a fixed number and shifted maps."""
        if config.backbone.mirrored:
            raise UserError("backbone.mirrored must be false with method.name 'adaresnet'")
        if config.validation.way > config.episode.way:
            raise UserError(
                f"validation.way is {config.validation.way}, but the network has as many outputs "
                f"as training tasks have classes, {config.episode.way}: set it to at most that"
            )


class Memory(NamedTuple):
    """What T support sets of N images leave behind.

    Attributes:
        keys: (T, N, D), of length 1.
        on: Value of each shifted stage's active neurons, less that of the others, (T, N) each.
        off: Value of its other neurons, () each.
        active: Which neurons were active, 0 or 1, (T, N, h * w * C) each, as in memory.
        outputs: Values of the outputs, (T, N, K).
    """

    keys: Tensor
    on: list[Tensor]
    off: list[Tensor]
    active: list[Tensor]
    outputs: Tensor


def value_network(inputs: int, units: int) -> nn.Sequential:
    """Three layers from the feedback a neuron gets to its value, (..., K) -> (..., 1)."""
    return nn.Sequential(
        nn.Linear(inputs, units), nn.ReLU(), nn.Linear(units, units), nn.ReLU(), nn.Linear(units, 1)
    )


@METHODS.register("adaresnet", AdaResNetConfig)
class AdaResNet(WithBackbone):
    """A classifier of `way` outputs whose neurons a task's memory shifts.

    Args:
        backbone: The network, with stages.
        key_network: Embeds images as keys; None to take the last hidden layer.
        way: Number of outputs.
        method: The settings.
        activation: A key of `ACTIVATIONS`, for the shifts.
    """

    def __init__(
        self,
        backbone: Backbone,
        key_network: Backbone | None,
        way: int,
        method: AdaResNetConfig,
        activation: str,
    ) -> None:
        super().__init__(backbone)
        self.key_network, self.way = key_network, way
        self.description = SecondStatistics(backbone)
        self.head = nn.Linear(backbone.feature_size, way)
        stages = len(backbone.stage_shapes)
        self.shifted = range(stages - method.shifted, stages)
        self.values = nn.ModuleList(
            value_network(way, method.value_units) for _ in range(method.shifted + 1)
        )
        self.attention = nn.Parameter(torch.tensor(method.attention))
        self._activation = ACTIVATIONS[activation]

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        backbone, method = installed_backbone(config, spec), config.method
        assert isinstance(method, AdaResNetConfig)
        backbone.require_stages()
        keys = installed_backbone(config, spec) if method.keys == "own" else None
        activation = getattr(config.backbone, "activation", "relu")
        return cls(backbone, keys, config.episode.way, method, activation)

    def initialise(self, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
        """Draws the weights of both networks, the outputs and the value networks."""
        generator = torch.Generator().manual_seed(config.run.seed)
        for network in (self.backbone, self.key_network):
            if network is not None:
                initialise_backbone(network, config, mean, std, generator)
        for layer in [self.head, *(m for m in self.values.modules() if isinstance(m, nn.Linear))]:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.head.weight)
        for value in self.values[:-1]:
            last = cast(nn.Sequential, value)[-1]
            nn.init.normal_(cast(nn.Linear, last).weight, std=_SPREAD, generator=generator)
            nn.init.constant_(cast(nn.Linear, last).bias, _FIRST_SHIFT)

    def statistics(self) -> list[Tensor]:
        """Those of batch norm, and of its other set."""
        return [*super().statistics(), *self.description.buffers()]

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Logits (T, Q, K); see `Method.forward`."""
        check_episode(support, labels, query, way)
        if way > self.way:
            raise UserError(
                f"this model tells at most {self.way} classes apart, as many as its training "
                f"tasks had, but the task has {way}: train with episode.way = {way}"
            )
        images, queries = (self.backbone.preprocess(x.flatten(0, 1)) for x in (support, query))
        memory = self.describe(images, labels)
        return self.predict(queries, memory)[..., :way]

    def describe(self, images: Tensor, labels: Tensor) -> Memory:
        """The memory of support images (T*N, C, H, W), as `preprocess` gives them, and (T, N)."""
        tasks, x, active = len(labels), images, []
        with self.description.used():
            for number in range(len(self.backbone.stage_shapes)):
                x = self.backbone.stage(number, x)
                if number in self.shifted:
                    rows = (x.detach() > 0).permute(0, 2, 3, 1).flatten(1)
                    active.append(rows.to(x.dtype).unflatten(0, (tasks, -1)))
        z = self.backbone.vectors(x)
        onehot = one_hot(labels, self.way, z.dtype)
        # Classes that no task has take no part: a task may have fewer than there are outputs.
        absent = onehot.sum(dim=1, keepdim=True) == 0
        logits = self.head(z).unflatten(0, (tasks, -1)).masked_fill(absent, -torch.inf)
        feedback = logits.softmax(dim=-1) - onehot  # (T, N, K)
        off = [value(torch.zeros_like(feedback[0, 0])).squeeze() for value in self.values[:-1]]
        on = [
            value(feedback).squeeze(-1) - rest
            for value, rest in zip(self.values[:-1], off, strict=True)
        ]
        products = feedback[..., :, None] * feedback[..., None, :]  # (T, N, K, K)
        outputs = self.values[-1](products).squeeze(-1)
        keys = self._keys(images, z).unflatten(0, (tasks, -1))
        return Memory(keys, on, off, active, outputs)

    def predict(self, images: Tensor, memory: Memory) -> Tensor:
        """Logits of queries, (T*Q, C, H, W) as `preprocess` gives them -> (T, Q, outputs).

        With an empty memory, N = 0, these are the network's own.
        """
        z = self._plain(images) if self.key_network is None else images
        keys = self._keys(images, z).unflatten(0, (len(memory.keys), -1))
        attention = (self.attention * keys @ memory.keys.mT).softmax(dim=-1)  # (T, Q, N)
        x = images
        for number in range(len(self.backbone.stage_shapes)):
            x = self.backbone.stage(number, x)
            if number in self.shifted:
                x = x + self._shift(number - self.shifted.start, attention, memory, x.shape)
        logits = self.head(self.backbone.vectors(x)).unflatten(0, attention.shape[:2])
        return logits + attention @ memory.outputs  # type: ignore[no-any-return]

    def _shift(self, layer: int, attention: Tensor, memory: Memory, shape: Sequence[int]) -> Tensor:
        """The activation of what each query reads for a layer, (T*Q, C, h, w)."""
        read = (attention * memory.on[layer][:, None]) @ memory.active[layer]  # (T, Q, h w C)
        total = int(attention.shape[-1] > 0)  # of the attention: there may be nothing to read
        shift = self._activation(read + total * memory.off[layer])
        images, channels, height, width = shape
        return shift.view(images, height, width, channels).permute(0, 3, 1, 2)

    def _plain(self, images: Tensor) -> Tensor:
        """The last hidden layer without shifts."""
        with self.description.used():
            return self.backbone.vectors(self.backbone.maps(images))

    def _keys(self, images: Tensor, z: Tensor) -> Tensor:
        """Keys of length 1: of the images by their own network, or the last hidden layer z."""
        keys = z if self.key_network is None else self.key_network(images)
        return F.normalize(keys, dim=-1)
