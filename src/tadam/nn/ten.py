"""TEN, the task embedding network: task representation -> FiLM for every conditioned layer.

TADAM sec. 2.2 and supplement S1: `gamma = 1 + gamma0 * h(c)`, `beta = beta0 * g(c)`. The scalars
gamma0 and beta0 start at zero and carry an L2 penalty, so a layer is conditioned only as far as
that pays.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.film import Film


class ResidualMLP(nn.Module):
    """Three fully connected layers, the last two with skip connections, the last linear."""

    def __init__(self, in_features: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(in_features, width)
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(T, in_features) -> (T, width)."""
        x = F.silu(self.project(x))
        x = F.silu(self.hidden(x) + x)
        out: Tensor = self.out(x) + x
        return out


class LayerConditioner(nn.Module):
    """Scale and shift of one convolution, damped by its own scalars gamma0 and beta0.

    Args:
        in_features: Size of the task representation.
        width: Channels of the convolution.
        base: Whether to learn a scale and shift that all tasks share; TEN then adds to these.
        multipliers: Whether there are gamma0 and beta0; the paper could not train without them.
        net: Kind of the two networks, made from both sizes.
    """

    def __init__(
        self,
        in_features: int,
        width: int,
        base: bool = False,
        multipliers: bool = True,
        net: Callable[[int, int], nn.Module] = ResidualMLP,
    ) -> None:
        super().__init__()
        self.width = width
        self.gamma_net, self.beta_net = net(in_features, width), net(in_features, width)
        if multipliers:
            self.gamma0 = nn.Parameter(torch.zeros(()))
            self.beta0 = nn.Parameter(torch.zeros(()))
        if base:
            self.base_gamma = nn.Parameter(torch.ones(width))
            self.base_beta = nn.Parameter(torch.zeros(width))
        self._based, self._damped = base, multipliers

    def forward(self, task: Tensor) -> tuple[Tensor, Tensor]:
        """(T, in_features) -> gamma and beta, each (T, width)."""
        gamma, beta = self.gamma_net(task), self.beta_net(task)
        if self._damped:
            gamma, beta = self.gamma0 * gamma, self.beta0 * beta
        if self._based:
            return self.base_gamma + gamma, self.base_beta + beta
        return 1 + gamma, beta


class TaskEmbeddingNetwork(nn.Module):
    """Conditions the chosen layers of a backbone on a task representation.

    Args:
        in_features: Size of the task representation.
        widths: Channels of each convolution of the backbone, in order.
        layers: Indices of the convolutions to condition.
        base: See `LayerConditioner`.
        multipliers: See `LayerConditioner`.
        shared: Width of a network that all layers share; on top of it, each has a linear layer for
            its scale and one for its shift. 0 for two networks of its own in every layer.
    """

    def __init__(
        self,
        in_features: int,
        widths: Sequence[int],
        layers: Sequence[int],
        base: bool = False,
        multipliers: bool = True,
        shared: int = 0,
    ) -> None:
        super().__init__()
        self.depth = len(widths)
        self.trunk: nn.Module = nn.Identity()
        net: Callable[[int, int], nn.Module] = ResidualMLP
        if shared:
            self.trunk = nn.Sequential(ResidualMLP(in_features, shared), nn.SiLU())
            in_features, net = shared, nn.Linear
        self.conditioners = nn.ModuleDict(
            {
                str(i): LayerConditioner(in_features, widths[i], base, multipliers, net)
                for i in layers
            }
        )

    def forward(self, task: Tensor) -> list[tuple[Tensor, Tensor] | None]:
        """(T, in_features) -> one (gamma, beta) pair of (T, C) per conditioned layer, else None."""
        film: list[tuple[Tensor, Tensor] | None] = [None] * self.depth
        task = self.trunk(task)
        for i, conditioner in self.conditioners.items():
            film[int(i)] = conditioner(task)
        return film

    def multipliers(self) -> dict[int, tuple[float, float]]:
        """gamma0 and beta0 by layer number, counted from 1 as in the paper's figure 3."""
        return {
            int(i) + 1: (layer.gamma0.item(), layer.beta0.item())
            for i, layer in self.conditioners.items()
            if isinstance(layer, LayerConditioner) and hasattr(layer, "gamma0")
        }

    def as_rows(self, film: Film) -> Tensor:
        """All vectors of a task in one row, (T, V); `from_rows` is the way back."""
        return torch.cat([v for pair in film if pair is not None for v in pair], dim=1)

    def from_rows(self, rows: Tensor) -> list[tuple[Tensor, Tensor] | None]:
        """What `forward` returned, from `as_rows` of it."""
        film: list[tuple[Tensor, Tensor] | None] = [None] * self.depth
        start = 0
        for i, layer in self.conditioners.items():
            assert isinstance(layer, LayerConditioner)
            gamma, beta = rows[:, start : start + 2 * layer.width].chunk(2, dim=1)
            film[int(i)], start = (gamma, beta), start + 2 * layer.width
        return film


def initialise_ten(ten: TaskEmbeddingNetwork, generator: torch.Generator | None = None) -> None:
    """Glorot-uniform weights and zero biases; gamma0 and beta0 stay at zero."""
    for layer in ten.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
