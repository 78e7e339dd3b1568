"""Floating-point operations of the direct convolutions, two per multiply-add.

Batch norm, FiLM, pooling, TEN and the metric are left out: together they multiply little. What a
program really computes may be less, as Winograd's convolution multiplies up to four times less.
"""

from torch import nn

from tadam.config import Config
from tadam.nn.backbones.resnet12 import ResNet12, ResNet12Config

#: The gradients of input and weights cost one forward pass each.
TRAINING_FACTOR = 3


def forward_flops(network: ResNet12, image_size: int) -> int:
    """Of one image through all convolutions, the 1x1 shortcuts included."""
    total, side = 0, image_size
    for block in network.blocks:
        for layer in block.modules():
            if isinstance(layer, nn.Conv2d):
                total += 2 * layer.weight.numel() * side * side
        if block.pool:
            side = -(-side // 2)  # the pool rounds up
    return total


def step_images(config: Config, auxiliary: bool = True) -> int:
    """Images that pass through the network in one training step.

    With conditioning, the support set passes twice: for the task representation, and modulated.
    """
    episode = config.episode
    support = episode.way * episode.shot * (2 if config.conditioning.enabled else 1)
    batch = config.auxiliary.batch_size if auxiliary else 0
    return episode.tasks * (support + episode.queries) + batch


def step_flops(config: Config, image_size: int, channels: int = 3) -> int:
    """Of one training step of ResNet-12, forward and backward, the auxiliary update included."""
    assert isinstance(config.backbone, ResNet12Config)
    network = ResNet12.from_config(config.backbone, channels, image_size)
    return TRAINING_FACTOR * step_images(config) * forward_flops(network, image_size)
