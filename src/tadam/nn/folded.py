"""The parts of a network that was trained and conditioned on one task: what prediction runs.

Batch norm and FiLM are each a scale and a shift of a convolution's filters once the statistics and
the task are settled, so they are folded into its weights and bias. `Backbone.folded` puts these
parts together.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.conv_unit import ACTIVATIONS, ConvNorm, ConvUnit
from tadam.nn.film import Film
from tadam.nn.norm import running_affine


class FoldedConv(nn.Module):
    """A convolution with batch norm and one task's FiLM, (1, C) each, in its weights."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, layer: ConvNorm, modulation: tuple[Tensor, Tensor] | None) -> None:
        super().__init__()
        scale, shift = running_affine(layer.norm)
        if modulation is not None:
            gamma, beta = of_one_task(modulation)
            scale, shift = gamma * scale, gamma * shift + beta
        weight = layer.conv.weight * scale[:, None, None, None]
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", shift.clone())
        self.stride, self.padding = layer.conv.stride, layer.conv.padding

    def forward(self, x: Tensor) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, H, W)."""
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding)


def of_one_task(modulation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """gamma and beta, (C,) each."""
    gamma, beta = modulation
    if len(gamma) != 1:
        raise ValueError(f"a network is folded for one task, not for {len(gamma)}")
    return gamma[0], beta[0]


class FoldedUnit(nn.Module):
    """`pool(act(conv(x) + side))`; `tadam.nn.fast.folded_unit` builds its fastest variant.

    Args:
        unit: A trained unit.
        modulation: The task's gamma and beta, (1, C) each.
        pool: See `ConvUnit`.
        extra_bias: Added to the convolution's, (C,).
    """

    def __init__(
        self,
        unit: ConvUnit,
        modulation: tuple[Tensor, Tensor] | None,
        pool: str | None,
        extra_bias: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.conv = FoldedConv(unit, modulation)
        if extra_bias is not None:
            assert self.conv.bias is not None
            self.conv.bias += extra_bias
        self.activation, self.pool = unit.activation, pool

    def forward(self, x: Tensor, side: Tensor | None = None) -> Tensor:
        """(N, C_in, H, W) and (N, C_out, H, W) -> (N, C_out, H', W')."""
        x = self.conv(x)
        x = ACTIVATIONS[self.activation](x if side is None else x + side)
        return F.max_pool2d(x, 2, ceil_mode=self.pool == "up") if self.pool else x


class FoldedNetwork(nn.Module):
    """Stages, then the average over space or all of the last feature map, then a projection."""

    def __init__(
        self,
        stages: list[nn.Module],
        flat: bool,
        mirrored: bool,
        projection: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.stages = nn.Sequential(*stages)
        self.projection = projection
        self.flat, self.mirrored = flat, mirrored

    def forward(self, x: Tensor) -> Tensor:
        """Embeds normalised images, (N, C, H, W) -> (N, D)."""
        z = self._vectors(self.stages(x))
        return (z + self._vectors(self.stages(x.flip(-1)))) / 2 if self.mirrored else z

    def _vectors(self, x: Tensor) -> Tensor:
        z = x.flatten(1) if self.flat else x.mean(dim=(2, 3))
        return z if self.projection is None else self.projection(z)


class ForOneTask(nn.Module):
    """A backbone that does not fold, as it is, with a task's FiLM kept beside it."""

    def __init__(self, backbone: nn.Module, film: Film | None) -> None:
        super().__init__()
        self.backbone, self.film = backbone, film

    def forward(self, x: Tensor) -> Tensor:
        """Embeds preprocessed images, (N, C, H, W) -> (N, D)."""
        return self.backbone(x, self.film)  # type: ignore[no-any-return]
