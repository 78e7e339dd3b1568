"""What methods around a backbone share: building it, its first weights, embedding with it."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Method
from tadam.nn.backbone import Backbone, build_backbone
from tadam.registry import BACKBONES
from tadam.system.device import mixed_precision


def installed_backbone(config: Config, spec: InputSpec) -> Backbone:
    """The backbone of a recipe; a `UserError` says how to install one that is missing."""
    kind: type[Backbone] = BACKBONES.find(config.backbone.name)
    if not kind.is_installed():
        raise UserError(
            f"backbone {config.backbone.name!r} is not installed: {kind.how_to_install}"
        )
    return build_backbone(config.backbone, spec.channels, spec.image_size)


def initialise_backbone(
    backbone: Backbone,
    config: Config,
    mean: Sequence[float],
    std: Sequence[float],
    generator: torch.Generator,
) -> None:
    """Draws the first weights; a pretrained backbone keeps its weights and normalisation.

    Args:
        backbone: Initialised in place.
        config: The recipe.
        mean: Per-channel mean of the training images.
        std: Per-channel standard deviation of the training images.
        generator: Source of randomness.
    """
    if not backbone.load_pretrained():
        backbone.initialise(config.backbone, generator)
        backbone.pixel_mean.copy_(torch.tensor(mean)[:, None, None])
        backbone.pixel_std.copy_(torch.tensor(std)[:, None, None])


class WithBackbone(Method):
    """A method whose first part is a backbone.

    Args:
        backbone: The feature extractor, which also normalises the images.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def initialise(self, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
        """Draws the backbone's weights, then `initialise_rest`."""
        generator = torch.Generator().manual_seed(config.run.seed)
        initialise_backbone(self.backbone, config, mean, std, generator)
        self.initialise_rest(config, generator)

    def initialise_rest(self, config: Config, generator: torch.Generator) -> None:
        """Draws the weights behind the backbone; those that PyTorch drew stay by default."""

    def load_pretrained(self) -> None:
        """Loads the weights of a frozen backbone."""
        self.backbone.load_pretrained()

    def embed(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, D)."""
        x = self.backbone.preprocess(images)
        # Evaluation uses full precision, so that its numbers are the same on every device.
        with mixed_precision(x.device.type) if self.training else nullcontext():
            return self.backbone(x)  # type: ignore[no-any-return]
