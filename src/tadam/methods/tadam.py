"""Tadam: support and query images in, logits out (TADAM, fig. 1)."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from tadam.config import Config, MethodConfig
from tadam.errors import UserError
from tadam.metric import ScaledMetric, prototypes
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film
from tadam.nn.ten import TaskEmbeddingNetwork, initialise_ten
from tadam.registry import BACKBONES, METHODS
from tadam.system.device import mixed_precision


def task_representation(c: Tensor, kind: str) -> Tensor:
    """Describes a task by its prototypes, (T, K, D) -> (T, D) or (T, 2D).

    `mean` is the paper's. `mean_std` adds the spread of the prototypes in each feature, the
    higher-order statistics that the paper's conclusion proposes.
    """
    mean = c.mean(dim=1)
    if kind == "mean":
        return mean
    # The small constant keeps the square root's gradient finite where all prototypes agree.
    std = ((c - mean[:, None]).square().mean(dim=1) + 1e-12).sqrt()
    return torch.cat([mean, std], dim=1)


@dataclass(frozen=True)
class TadamConfig(MethodConfig):
    """TADAM's settings are in the tables [metric], [conditioning] and [auxiliary]."""

    tables: ClassVar[tuple[str, ...]] = ("metric", "conditioning", "auxiliary")

    def check(self, config: Config) -> None:
        """Refuses to condition a backbone that FiLM cannot reach."""
        if config.conditioning.enabled and not config.backbone.conditionable:
            raise UserError(
                f"conditioning.enabled must be false with backbone.name {config.backbone.name!r}: "
                "it has no layer to condition"
            )


@METHODS.register("tadam", TadamConfig)
class Tadam(nn.Module):
    """A few-shot classifier with a task-conditioned feature extractor and a scaled metric.

    Images are (…, C, H, W) on the 0-255 scale, uint8 or float: the backbone normalises them.

    Args:
        backbone: The feature extractor.
        metric: Turns embeddings and prototypes into logits.
        ten: Predicts FiLM from the task representation; None for an unconditioned model.
        representation: `mean` or `mean_std`.
        auxiliary_classes: Size of the co-training head; 0 for none.
    """

    def __init__(
        self,
        backbone: Backbone,
        metric: ScaledMetric,
        ten: TaskEmbeddingNetwork | None,
        representation: str,
        auxiliary_classes: int,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.metric = metric
        self.ten = ten
        self.representation = representation
        self.auxiliary_head = (
            nn.Linear(backbone.feature_size, auxiliary_classes) if auxiliary_classes else None
        )

    def embed(self, images: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C, H, W) -> (T*N, D)."""
        return self.embed_each([images], film)[0]

    def embed_each(self, batches: Sequence[Tensor], film: Film | None = None) -> list[Tensor]:
        """Batches of the same tasks, (T*N, C, H, W) -> (T*N, D) each."""
        prepared = [self.backbone.preprocess(images) for images in batches]
        # Evaluation keeps all digits, so that its numbers are the same on every device.
        with mixed_precision(prepared[0].device.type) if self.training else nullcontext():
            return self.backbone.embed_each(prepared, film)

    def film_from(self, z: Tensor, labels: Tensor, way: int) -> Film | None:
        """FiLM from the first pass's support embeddings, (T, N, D); None without a TEN."""
        if self.ten is None:
            return None
        task = task_representation(prototypes(z, labels, way), self.representation)
        return self.ten(task)  # type: ignore[no-any-return]

    def forward(
        self, support: Tensor, labels: Tensor, query: Tensor, way: int, condition: bool = True
    ) -> Tensor:
        """Classifies the queries of T tasks by their support sets.

        Args:
            support: (T, N, C, H, W); shots may differ between classes.
            labels: (T, N), in 0..way-1.
            query: (T, Q, C, H, W).
            way: Number of classes K.
            condition: Whether to condition on the task; without a TEN there is no difference.

        Returns:
            Logits, (T, Q, K).
        """
        tasks, queries = query.shape[:2]
        support, query = support.flatten(0, 1), query.flatten(0, 1)
        film = None
        if condition and self.ten is not None:
            first = self.embed(support).unflatten(0, (tasks, -1))  # (T, N, D)
            film = self.film_from(first, labels, way)
        z, zq = self.embed_each([support, query], film)
        z, zq = z.unflatten(0, (tasks, -1)), zq.unflatten(0, (tasks, queries))
        return self.metric(zq, prototypes(z, labels, way))  # type: ignore[no-any-return]

    def auxiliary_logits(self, images: Tensor) -> Tensor:
        """Unconditioned logits over all training classes, (B, C, H, W) -> (B, classes)."""
        if self.auxiliary_head is None:
            raise ValueError("this model has no auxiliary head")
        return self.auxiliary_head(self.embed(images))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class InputSpec:
    """What a model's shape takes from its data.

    Attributes:
        channels: 1 or 3.
        image_size: Side of the images.
        auxiliary_classes: Number of training classes if there is co-training, else 0.
    """

    channels: int
    image_size: int
    auxiliary_classes: int


def build_model(config: Config, spec: InputSpec) -> Tadam:
    """The model of a recipe, its weights not yet set; see `initialise` and `load_model`."""
    # PyTorch's constructors draw from the global RNG; leave that as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.run.seed)
        kind = BACKBONES.find(config.backbone.name)
        backbone = kind.from_config(config.backbone, spec.channels, spec.image_size)
        backbone.mirrored = config.backbone.mirrored
        ten = None
        if config.conditioning.enabled:
            widths = backbone.conditioned_widths
            layers: dict[str, Sequence[int]] = {
                "all": range(len(widths)),
                "pre_pool": backbone.pre_pool_layers,
                "last": (len(widths) - 1,),
            }
            factor = 2 if config.conditioning.representation == "mean_std" else 1
            ten = TaskEmbeddingNetwork(
                factor * backbone.feature_size, widths, layers[config.conditioning.layers]
            )
        return Tadam(
            backbone,
            ScaledMetric(config.metric.distance, config.metric.alpha, config.metric.learn_alpha),
            ten,
            config.conditioning.representation,
            spec.auxiliary_classes,
        )


def initialise(model: Tadam, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
    """Draws the initial weights from the recipe's seed and sets the input normalisation.

    A pretrained backbone has both already.

    Args:
        model: Initialised in place.
        config: The recipe.
        mean: Per-channel mean of the training images.
        std: Per-channel standard deviation of the training images.
    """
    generator = torch.Generator().manual_seed(config.run.seed)
    if not model.backbone.load_pretrained():
        model.backbone.initialise(config.backbone, generator)
        model.backbone.pixel_mean.copy_(torch.tensor(mean)[:, None, None])
        model.backbone.pixel_std.copy_(torch.tensor(std)[:, None, None])
    if model.ten is not None:
        initialise_ten(model.ten, generator)
    if model.auxiliary_head is not None:
        nn.init.xavier_uniform_(model.auxiliary_head.weight, generator=generator)
        nn.init.zeros_(model.auxiliary_head.bias)
