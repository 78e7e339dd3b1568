"""A trained backbone for one task, or for none, as plain convolutions: what prediction runs.

Batch norm and FiLM are each a scale and a shift of a convolution's filters once the statistics and
the task are settled, so they are folded into its weights and bias.
"""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.native import Finish
from tadam.native.convolution import convolve_and_finish, pack, pays
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.efficientnet_lite0 import EfficientNetLite0, FrozenConv, InvertedBottleneck
from tadam.nn.backbones.resnet12 import ResidualBlock, ResNet12
from tadam.nn.conv_unit import ACTIVATIONS, ConvNorm, ConvUnit
from tadam.nn.film import Film
from tadam.nn.norm import running_affine

#: Backbones of which `fold` copies all that it needs; any other goes on in use.
FOLDED = (ResNet12, Conv4, EfficientNetLite0)


class FoldedConv(nn.Module):
    """A convolution with batch norm and one task's FiLM, (1, C) each, in its weights."""

    weight: Tensor
    bias: Tensor | None

    def __init__(self, layer: ConvNorm, modulation: tuple[Tensor, Tensor] | None) -> None:
        super().__init__()
        scale, shift = running_affine(layer.norm)
        if modulation is not None:
            gamma, beta = _of_one_task(modulation)
            scale, shift = gamma * scale, gamma * shift + beta
        weight = layer.conv.weight * scale[:, None, None, None]
        self.register_buffer("weight", weight.contiguous(memory_format=torch.channels_last))
        self.register_buffer("bias", shift.clone())
        self.padding = layer.conv.padding

    def forward(self, x: Tensor) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, H, W)."""
        return F.conv2d(x, self.weight, self.bias, padding=self.padding)


def _of_one_task(modulation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """gamma and beta, (C,) each."""
    gamma, beta = modulation
    if len(gamma) != 1:
        raise ValueError(f"a network is folded for one task, not for {len(gamma)}")
    return gamma[0], beta[0]


class FoldedUnit(nn.Module):
    """`pool(act(conv(x) + side))`."""

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
        self.finish = Finish(unit.activation, pool)
        self._packed: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor, side: Tensor | None = None) -> Tensor:
        """(N, C_in, H, W) and (N, C_out, H, W) -> (N, C_out, H', W')."""
        conv, pool = self.conv, self.finish.pool
        assert conv.bias is not None
        if pays(x, conv.weight) and not torch.is_grad_enabled():
            sides = (side, None) if side is not None else None
            return convolve_and_finish(
                x, self._packed_weight(), None, conv.bias[None], sides, self.finish
            )
        x = conv(x)
        x = ACTIVATIONS[self.finish.activation](x if side is None else x + side)
        return F.max_pool2d(x, 2, ceil_mode=pool == "up") if pool else x

    def _packed_weight(self) -> Tensor:
        weight = self.conv.weight
        if self._packed is None or self._packed[0] is not weight:
            self._packed = (weight, pack(weight))
        return self._packed[1]


class FoldedBlock(nn.Module):
    """Three units and the shortcut, whose bias is in the last unit."""

    def __init__(self, block: ResidualBlock, film: Film) -> None:
        super().__init__()
        shortcut = FoldedConv(block.shortcut, None)
        bias, shortcut.bias = shortcut.bias, None
        pool = "up" if block.pool else None
        self.shortcut = shortcut
        self.units = nn.ModuleList(
            FoldedUnit(unit, film[i], pool if i == 2 else None, bias if i == 2 else None)  # type: ignore[arg-type]
            for i, unit in enumerate(block.units)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, H', W')."""
        side = self.shortcut(x)
        x = self.units[1](self.units[0](x))
        return self.units[2](x, side)  # type: ignore[no-any-return]


class FoldedNetwork(nn.Module):
    """Stages one after the other, then the average over space or all of the last feature map."""

    def __init__(self, stages: list[nn.Module], flat: bool, mirrored: bool) -> None:
        super().__init__()
        self.stages = nn.Sequential(*stages)
        self.flat, self.mirrored = flat, mirrored

    def forward(self, x: Tensor) -> Tensor:
        """Embeds normalised images, (N, C, H, W) -> (N, D)."""
        if self.mirrored:
            return (self._embed(x) + self._embed(x.flip(-1))) / 2
        return self._embed(x)

    def _embed(self, x: Tensor) -> Tensor:
        x = self.stages(x)
        return x.flatten(1) if self.flat else x.mean(dim=(2, 3))


def _folded_efficientnet(backbone: EfficientNetLite0, film: Film | None) -> EfficientNetLite0:
    """A copy with FiLM in its weights, which from now on are part of its state."""
    network = copy.deepcopy(backbone)
    for layer in network.modules():
        if isinstance(layer, FrozenConv):
            layer.register_buffer("weight", layer.weight)
            layer.register_buffer("bias", layer.bias)
    for block, modulation in zip(network.blocks[network.plain_blocks :], film or (), strict=False):
        if modulation is not None and isinstance(block, InvertedBottleneck):
            gamma, beta = _of_one_task(modulation)
            block.project.weight *= gamma[:, None, None, None]
            block.project.bias.mul_(gamma).add_(beta)
    return network


class ForOneTask(nn.Module):
    """Any other backbone, as it is, with a task's FiLM kept beside it."""

    def __init__(self, backbone: Backbone, film: Film | None) -> None:
        super().__init__()
        self.backbone, self.film = backbone, film

    def forward(self, x: Tensor) -> Tensor:
        """Embeds preprocessed images, (N, C, H, W) -> (N, D)."""
        return self.backbone(x, self.film)  # type: ignore[no-any-return]


@torch.no_grad()
def fold(backbone: Backbone, film: Film | None = None) -> nn.Module:
    """The backbone in evaluation mode, conditioned on at most one task, as plain convolutions.

    A backbone that is not of ours stays as it is, in evaluation mode.

    Args:
        backbone: A trained network; it is left as it is.
        film: One task's modulations, (1, C) each, one for each conditioned layer.
    """
    modulations = film or [None] * len(backbone.conditioned_widths)
    stages: list[nn.Module]
    if isinstance(backbone, ResNet12):
        stages = [
            FoldedBlock(block, modulations[3 * i : 3 * i + 3])  # type: ignore[arg-type]
            for i, block in enumerate(backbone.blocks)
        ]
        return FoldedNetwork(stages, False, backbone.mirrored).eval()
    if isinstance(backbone, Conv4):
        stages = [
            FoldedUnit(unit, modulations[i], "down")  # type: ignore[arg-type]
            for i, unit in enumerate(backbone.units)
        ]
        return FoldedNetwork(stages, backbone.flat, backbone.mirrored).eval()
    if isinstance(backbone, EfficientNetLite0):
        return _folded_efficientnet(backbone, film).eval()
    return ForOneTask(backbone, film).eval()
