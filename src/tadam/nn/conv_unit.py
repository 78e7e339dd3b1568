"""The unit of every backbone: convolution, batch norm, FiLM, activation (TADAM, fig. S1a)."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam import native
from tadam.nn.film import Film, check_modulation, film
from tadam.nn.fused import norm_film_swish
from tadam.nn.fused_native import infer_unit, train_units
from tadam.nn.winograd import conv3x3

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swish": F.silu,  # swish-1, x * sigmoid(x): the paper's choice
    "relu": F.relu,
}


class ConvNorm(nn.Module):
    """A convolution without bias and the batch norm that follows it."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int) -> None:
        super().__init__()
        conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, padding=kernel_size // 2, bias=False
        )
        # The layout of the images and of the native core; copies into the weight keep it.
        self.conv: nn.Conv2d = conv.to(memory_format=torch.channels_last)  # type: ignore
        # eps and momentum as in the authors' code (TensorFlow's decay 0.95 is momentum 0.05 here).
        self.norm = nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.05)


class ConvUnit(ConvNorm):
    """3x3 convolution, batch norm, FiLM, residual sum, activation and max-pool, in this order.

    Args:
        in_channels: Channels of the input.
        out_channels: Filters.
        activation: A key of `ACTIVATIONS`.
    """

    def __init__(self, in_channels: int, out_channels: int, activation: str) -> None:
        super().__init__(in_channels, out_channels, kernel_size=3)
        self.activation = activation

    def forward(
        self,
        x: Tensor,
        modulation: tuple[Tensor, Tensor] | None = None,
        shortcut: tuple[Tensor, nn.BatchNorm2d] | None = None,
        pool: str | None = None,
        parts: Sequence[int] | None = None,
    ) -> Tensor:
        """(T*N, C_in, H, W) -> (T*N, C_out, H, W), or half the size if pooled.

        Args:
            x: Input.
            modulation: gamma and beta of each task, (T, C_out) each; None leaves FiLM out.
            shortcut: Output of the shortcut's convolution, (T*N, C_out, H, W), and its batch norm.
            pool: A 2x2 max-pool at the end, with odd sizes rounded `up` or `down`; None for none.
            parts: Number of images of each part, see `takes_parts`; None if all are one.
        """
        natively = parts is None and _fits_native(x, [(self, modulation)], shortcut)
        if self.training and natively:
            return run_units([self], x, [modulation], shortcut, pool)
        if natively and not torch.is_grad_enabled():
            finish = native.Finish(self.activation, pool)
            return infer_unit(x, self.conv, self.norm, modulation, shortcut, finish)
        x = conv3x3(x, self.conv.weight)
        if self.training and self.activation == "swish":
            return norm_film_swish(x, self.norm, modulation, shortcut, pool, parts)
        assert parts is None
        x = self.norm(x)
        if modulation is not None:
            x = film(x, *modulation)
        if shortcut is not None:
            residual, norm = shortcut
            x = x + norm(residual)
        x = ACTIVATIONS[self.activation](x)
        return F.max_pool2d(x, 2, ceil_mode=pool == "up") if pool else x


def _fits_native(
    x: Tensor,
    units: Sequence[tuple[ConvUnit, tuple[Tensor, Tensor] | None]],
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
) -> bool:
    """Whether the native core can run units; modulations that do not fit are an error."""
    if not native.accepts(x) or (shortcut is not None and not native.accepts(shortcut[0])):
        return False
    for unit, modulation in units:
        if modulation is not None:
            check_modulation(len(x), unit.conv.out_channels, *modulation)
            if any((m.dtype, m.device) != (x.dtype, x.device) for m in modulation):
                return False
    return True


def takes_parts(x: Tensor, activation: str) -> bool:
    """Whether a batch may have parts in training, each normalised by itself.

    All but the statistics is then called once; the native core, whose calls are fewer, cannot.
    """
    return activation == "swish" and not native.accepts(x)


def run_units(
    units: Sequence[ConvUnit],
    x: Tensor,
    modulations: Film,
    shortcut: tuple[Tensor, nn.BatchNorm2d] | None,
    pool: str | None,
    parts: Sequence[int] | None = None,
) -> Tensor:
    """Units of one activation, one after the other; shortcut and pool are the last one's."""
    pairs = list(zip(units, modulations, strict=True))
    if parts is None and units[0].training and _fits_native(x, pairs, shortcut):
        layers = [(unit.conv, unit.norm) for unit in units]
        finish = native.Finish(units[0].activation, pool)
        return train_units(x, layers, modulations, shortcut, finish)
    *others, last = pairs
    for unit, modulation in others:
        x = unit(x, modulation, parts=parts)
    return last[0](x, last[1], shortcut, pool, parts)  # type: ignore[no-any-return]


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
