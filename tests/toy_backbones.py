"""Backbones and models for tests of the classifier: small, and without a neutral weight."""

import numpy as np
import torch
from torch import Tensor

from reference import random_weights
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film


class Colours(Backbone):
    """Mean and spread of each channel; counts the images that it has seen."""

    feature_size = 6

    def __init__(self, image_size: int = 16) -> None:
        super().__init__(3, image_size)
        self.gain: Tensor
        self.register_buffer("gain", torch.tensor(1.0))
        self.seen = 0

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, 3, H, W) -> (N, 6)."""
        self.seen += len(x)
        return self.gain * torch.cat([x.mean(dim=(2, 3)), x.std(dim=(2, 3))], dim=1) / 255


def random_model(
    name: str = "resnet12", channels: int = 3, **tables: object
) -> tuple[Tadam, ModelInfo]:
    """A model whose every weight is random, conditioning included, and its description."""
    backbone = {"name": name, "width": 2}
    config = Config().updated({"backbone": backbone, **tables})
    spec = InputSpec(channels, 16, 4)
    model = Tadam.build(config, spec)
    shapes = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
    weights = random_weights(shapes, 0)
    model.load_state_dict({key: torch.from_numpy(array) for key, array in weights.items()})
    return model.eval(), ModelInfo(config, spec)


def blobs(classes: int, each: int, seed: int = 0, side: int = 16) -> tuple[np.ndarray, list[str]]:
    """Noisy images of a colour per class, (N, side, side, 3), and their labels c0, c1, ..."""
    dice = np.random.default_rng(seed)
    colours = np.random.default_rng(99).integers(30, 220, (classes, 3))
    labels = np.repeat(np.arange(classes), each)
    images = colours[labels][:, None, None] + dice.normal(0, 25, (len(labels), side, side, 3))
    return images.clip(0, 255).astype(np.uint8), [f"c{k}" for k in labels]
