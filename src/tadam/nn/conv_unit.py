"""The unit of our own backbones: convolution, batch norm, FiLM, activation (TADAM, fig. S1a)."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.nn.film import film

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": F.silu,  # swish-1, x * sigmoid(x): the paper's choice
    "relu": F.relu,
}


class ConvNorm(nn.Module):
    """A convolution without bias and the batch norm that follows it."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1
    ) -> None:
        super().__init__()
        conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride, padding=kernel_size // 2, bias=False
        )
        # The layout of the images; copies into the weight keep it.
        self.conv: nn.Conv2d = conv.to(memory_format=torch.channels_last)  # type: ignore
        # eps and momentum as in the authors' code (TensorFlow's decay 0.95 is momentum 0.05 here).
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.05)


class ConvUnit(ConvNorm):
    """3x3 convolution, batch norm, FiLM, residual sum, activation and max-pool, in this order.

    `tadam.nn.fast.conv_unit` builds its fastest variant.

    Args:
        in_channels: Channels of the input.
        out_channels: Filters.
        activation: A key of `ACTIVATIONS`.
        stride: Of the convolution.
    """

    def __init__(
        self, in_channels: int, out_channels: int, activation: str, stride: int = 1
    ) -> None:
        super().__init__(in_channels, out_channels, 3, stride)
        self.activation = activation

    def forward(
        self,
        x: Tensor,
        modulation: tuple[Tensor, Tensor] | None = None,
        shortcut: tuple[Tensor, nn.BatchNorm2d] | None = None,
        pool: str | None = None,
    ) -> Tensor:
        """(T*N, C_in, H, W) -> (T*N, C_out, H, W), or half the size if pooled or strided.

        Args:
            x: Input.
            modulation: gamma and beta of each task, (T, C_out) each; None leaves FiLM out.
            shortcut: Output of the shortcut's convolution, (T*N, C_out, H, W), and its batch norm.
            pool: A 2x2 max-pool at the end, with odd sizes rounded `up` or `down`; None for none.
        """
        return self.finish(self.conv(x), modulation, shortcut, pool)

    def finish(
        self,
        x: Tensor,
        modulation: tuple[Tensor, Tensor] | None,
        shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
        pool: str | None,
    ) -> Tensor:
        """What follows the convolution, (T*N, C_out, H, W) -> (T*N, C_out, H', W')."""
        x = self.norm(x)
        if modulation is not None:
            x = film(x, *modulation)
        if shortcut is not None:
            residual, norm = shortcut
            x = x + norm(residual)
        x = ACTIVATIONS[self.activation](x)
        return F.max_pool2d(x, 2, ceil_mode=pool == "up") if pool else x


def initialise_convolutions(
    module: nn.Module, scheme: str, generator: torch.Generator | None = None
) -> None:
    """Draws every convolution's weights.

    Args:
        module: Network whose convolutions are initialised in place.
        scheme: `paper`: normal with variance 0.2 / (k*k*C_out), as in the authors' code; `he`:
            variance 2 / (k*k*C_out), which keeps the variance of activations behind a rectifier.
        generator: Source of randomness.
    """
    gain = {"paper": 0.2, "he": 2.0}[scheme]
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels
            nn.init.normal_(layer.weight, std=(gain / fan_out) ** 0.5, generator=generator)
