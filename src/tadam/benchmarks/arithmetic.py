"""Floating-point operations of the direct convolutions, two per multiply-add.

Batch norm, FiLM, pooling, TEN and the metric are left out: together they add little. A program may
actually compute less: Winograd convolution needs up to four times fewer multiplications.
"""

from torch import nn

from tadam.config import Config
from tadam.nn.backbones.resnet12 import ResNet12, ResNet12Config

#: Input and weight gradients each cost as much as one forward pass.
TRAINING_FACTOR = 3


def forward_flops(network: ResNet12, image_size: int) -> int:
    """Operations for one image through all convolutions, including the 1x1 shortcuts."""
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
    """Operations in one ResNet-12 training step with its auxiliary update, forward and backward."""
    assert isinstance(config.backbone, ResNet12Config)
    network = ResNet12.from_config(config.backbone, channels, image_size)
    return TRAINING_FACTOR * step_images(config) * forward_flops(network, image_size)
