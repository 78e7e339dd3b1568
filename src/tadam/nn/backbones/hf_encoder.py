"""An image encoder of Hugging Face's `transformers`: DINOv2, CLIP, SigLIP, ConvNeXt, ViT and more.

Only safetensors and JSON are ever read, and no code comes with a model. The weights stay where they
are: a classifier's file has the model's name and a digest of them.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tadam.config import BackboneConfig
from tadam.errors import UserError
from tadam.nn.film import Film
from tadam.nn.foreign import ForeignEncoder, token_rule
from tadam.nn.hf_files import digest_of, local_folder, model_from
from tadam.registry import BACKBONES


@dataclass(frozen=True)
class HfEncoderConfig(BackboneConfig):
    """What has to be known of a model; `fit --model hf:NAME` finds it out."""

    name: str = "hf_encoder"
    conditionable: ClassVar[bool] = False
    model: str = ""
    """A name on the hub, or a folder."""
    sha256: str = ""
    """Digest of its weights."""
    features: int = 0
    """Length of an embedding."""
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Mean of each channel on the 0-255 scale."""
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Standard deviation of each channel."""


@BACKBONES.register("hf_encoder", HfEncoderConfig)
class HfEncoder(ForeignEncoder):
    """Runs a model that is read when it is first needed; none of it is in our files."""

    how_to_install = "pip install 'tadam-fewshot[hf]'"

    def __init__(self, config: HfEncoderConfig, image_size: int) -> None:
        super().__init__(3, image_size, list(config.mean), list(config.std))
        self.config: HfEncoderConfig = config
        self.feature_size = config.features
        self._loaded: list[tuple[nn.Module, bool]] = []  # in a list, so that it is no part of ours

    @classmethod
    def from_config(cls, config: HfEncoderConfig, channels: int, image_size: int) -> Self:
        """The encoder of a recipe, not yet read."""
        return cls(config, image_size)

    @classmethod
    def is_installed(cls) -> bool:
        """Whether `transformers` is there."""
        return find_spec("transformers") is not None

    def open(self) -> tuple[nn.Module, bool]:
        """The model, and whether its own pooled output is to be trusted."""
        if not self._loaded:
            folder = local_folder(self.config.model)
            if digest_of(folder) != self.config.sha256:
                raise UserError(
                    f"hf:{self.config.model} has other weights than when the classifier was "
                    "fitted: fit it again, or restore them"
                )
            self._loaded.append(model_from(folder))
        return self._loaded[0]

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, 3, S, S), preprocessed -> (N, D)."""
        model, pooled = self.open()
        return embedding_of(model.to(x.device)(pixel_values=x), pooled)


def embedding_of(output: Any, pooled: bool) -> Tensor:
    """The vector that stands for an image in what a model of `transformers` returns, (N, D)."""
    z: Tensor | None = getattr(output, "image_embeds", None)
    if z is None and pooled:
        z = getattr(output, "pooler_output", None)
    if z is None:
        z = output.last_hidden_state
        if z.ndim == 3:
            z = z[:, 0] if token_rule(z.shape[1]) == "first" else z.mean(dim=1)
        else:
            z = z.mean(dim=(2, 3))
    return torch.flatten(z, 1)
