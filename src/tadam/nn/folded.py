"""A backbone for inference: batch norm and FiLM become part of the convolutions' weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.backbone import Backbone
from tadam.nn.conv_unit import ACTIVATIONS, ConvNorm
from tadam.nn.film import Film
from tadam.nn.resnet12 import ResidualBlock, ResNet12


def _fold(unit: ConvNorm, modulation: tuple[Tensor, Tensor] | None = None) -> nn.Conv2d:
    """One convolution with a bias that does what convolution, batch norm and FiLM did."""
    conv, norm = unit.conv, unit.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
    shift = norm.bias - norm.running_mean * scale
    if modulation is not None:
        gamma, beta = (vectors[0] for vectors in modulation)
        scale, shift = gamma * scale, gamma * shift + beta
    folded = nn.Conv2d(
        conv.in_channels, conv.out_channels, conv.kernel_size[0], padding=conv.kernel_size[0] // 2
    ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        folded.weight.copy_(conv.weight * scale[:, None, None, None])
        folded.bias.copy_(shift)
    return folded  # type: ignore[no-any-return]


class _FoldedBlock(nn.Module):
    def __init__(self, block: ResidualBlock, film: Film) -> None:
        super().__init__()
        self.units = nn.ModuleList(
            _fold(unit, modulation)  # type: ignore[arg-type]
            for unit, modulation in zip(block.units, film, strict=True)
        )
        self.shortcut = _fold(block.shortcut)
        self.activation = ACTIVATIONS[block.units[0].activation]  # type: ignore[index]
        self.pool = block.pool

    def forward(self, x: Tensor) -> Tensor:
        residual = self.shortcut(x)
        x = self.activation(self.units[0](x))
        x = self.activation(self.units[1](x))
        x = self.activation(self.units[2](x) + residual)
        return F.max_pool2d(x, 2, ceil_mode=True) if self.pool else x


def fold(backbone: Backbone, film: Film | None = None) -> nn.Module:
    """The network that a backbone is in evaluation mode, for one task's FiLM.

    Args:
        backbone: A ResNet-12.
        film: (gamma, beta) of one task for each convolution, (1, C) each; None for no FiLM.

    Returns:
        (N, C, H, W) -> (N, D).
    """
    if not isinstance(backbone, ResNet12):
        raise ValueError(f"cannot fold a {type(backbone).__name__}")
    film = film or [None] * 12
    blocks = [
        _FoldedBlock(block, film[3 * i : 3 * i + 3])  # type: ignore[arg-type]
        for i, block in enumerate(backbone.blocks)
    ]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
