"""TADAM: metric scaling, task conditioning and auxiliary co-training (Oreshkin et al., 2018).

Prototypical Networks (Snell et al., 2017) are the same method without these three.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from tadam.config import Config, MethodConfig, OptimiserConfig
from tadam.errors import UserError
from tadam.methods.base import InputSpec, Method, Tasks, Update, check_episode
from tadam.methods.cotraining import makes_auxiliary_update, makes_few_shot_update
from tadam.methods.task_description import TaskDescription
from tadam.methods.with_backbone import initialise_backbone, installed_backbone
from tadam.metric import ScaledMetric, prototypes
from tadam.nn.backbone import Backbone
from tadam.nn.film import Film
from tadam.nn.ten import TaskEmbeddingNetwork, initialise_ten
from tadam.registry import METHODS
from tadam.system.device import mixed_precision


@dataclass(frozen=True)
class TadamConfig(MethodConfig):
    """TADAM's settings are in the tables [metric], [conditioning] and [auxiliary]."""

    tables: ClassVar[tuple[str, ...]] = ("metric", "conditioning", "auxiliary")

    def has_class_head(self, config: Config) -> bool:
        """Co-training classifies all training classes."""
        return config.auxiliary.enabled

    def check(self, config: Config) -> None:
        """Refuses to condition a backbone that has no layer for FiLM."""
        if config.conditioning.enabled and not config.backbone.conditionable:
            raise UserError(
                f"conditioning.enabled must be false with backbone.name {config.backbone.name!r}: "
                "it has no layer to condition"
            )


@METHODS.register("tadam", TadamConfig)
class Tadam(Method):
    """A few-shot classifier with a task-conditioned feature extractor and a scaled metric.

    Args:
        backbone: The feature extractor, which also normalises the images.
        metric: Turns embeddings and prototypes into logits.
        ten: Predicts FiLM from the task representation; None for an unconditioned model.
        representation: What TEN sees of a task; a name stands for the statistics alone.
        auxiliary_classes: Size of the co-training head; 0 for none.
    """

    def __init__(
        self,
        backbone: Backbone,
        metric: ScaledMetric,
        ten: TaskEmbeddingNetwork | None,
        representation: TaskDescription | str,
        auxiliary_classes: int,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.metric = metric
        self.ten = ten
        self.description = (
            TaskDescription(representation, backbone.feature_size)
            if isinstance(representation, str)
            else representation
        )
        self.auxiliary_head = (
            nn.Linear(backbone.feature_size, auxiliary_classes) if auxiliary_classes else None
        )

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's model."""
        backbone = installed_backbone(config, spec)
        conditioning, ten = config.conditioning, None
        description = TaskDescription(
            conditioning.representation, backbone.feature_size, conditioning, config.run.seed
        )
        if conditioning.enabled:
            widths = backbone.conditioned_widths
            if not widths:
                raise UserError(
                    f"conditioning.enabled must be false with backbone.name "
                    f"{config.backbone.name!r}: it has no layer to condition"
                )
            layers: dict[str, Sequence[int]] = {
                "all": range(len(widths)),
                "pre_pool": backbone.pre_pool_layers,
                "last": (len(widths) - 1,),
            }
            chosen = layers[conditioning.layers]
            ten = TaskEmbeddingNetwork(
                description.size,
                widths,
                chosen,
                conditioning.base,
                conditioning.multipliers,
                conditioning.shared,
            )
        metric = config.metric
        return cls(
            backbone,
            ScaledMetric(metric.distance, metric.alpha, metric.learn_alpha),
            ten,
            description if ten else conditioning.representation,
            spec.auxiliary_classes,
        )

    def initialise(self, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
        """Draws the initial weights; a pretrained backbone keeps its weights and normalisation."""
        generator = torch.Generator().manual_seed(config.run.seed)
        initialise_backbone(self.backbone, config, mean, std, generator)
        if self.ten is not None:
            initialise_ten(self.ten, generator)
        if self.auxiliary_head is not None:
            nn.init.xavier_uniform_(self.auxiliary_head.weight, generator=generator)
            nn.init.zeros_(self.auxiliary_head.bias)

    def load_pretrained(self) -> None:
        """Loads the weights of a frozen backbone."""
        self.backbone.load_pretrained()

    def embed(self, images: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C, H, W) -> (T*N, D)."""
        x = self.backbone.preprocess(images)
        # Evaluation uses full precision, so that its numbers are the same on every device.
        with mixed_precision(x.device.type) if self.training else nullcontext():
            return self.backbone(x, film)  # type: ignore[no-any-return]

    def film_from(self, z: Tensor, labels: Tensor, way: int) -> Film | None:
        """FiLM from the first pass's support embeddings, (T, N, D); None without a TEN."""
        if self.ten is None:
            return None
        task = self.description(z, labels, prototypes(z, labels, way))
        return self.ten(task)  # type: ignore[no-any-return]

    def compare(self, z: Tensor, labels: Tensor, zq: Tensor, way: int) -> Tensor:
        """Support (T, N, D) and query embeddings (T, Q, D) -> logits (T, Q, K), eq. 1 and 2."""
        return self.metric(zq, prototypes(z, labels, way))  # type: ignore[no-any-return]

    def forward(
        self, support: Tensor, labels: Tensor, query: Tensor, way: int, condition: bool = True
    ) -> Tensor:
        """Logits (T, Q, K); see `Method.forward`. `condition=False` skips the TEN."""
        check_episode(support, labels, query, way)
        tasks = len(support)
        support, query = support.flatten(0, 1), query.flatten(0, 1)
        film = None
        if condition and self.ten is not None:
            first = self.embed(support).unflatten(0, (tasks, -1))  # (T, N, D)
            film = self.film_from(first, labels, way)
        # Two passes: in training, support and queries are each normalised by their own statistics.
        z, zq = (self.embed(x, film).unflatten(0, (tasks, -1)) for x in (support, query))
        return self.compare(z, labels, zq, way)

    def auxiliary_logits(self, images: Tensor) -> Tensor:
        """Unconditioned logits over all training classes, (B, C, H, W) -> (B, classes)."""
        if self.auxiliary_head is None:
            raise ValueError("this model has no auxiliary head")
        return self.auxiliary_head(self.embed(images))  # type: ignore[no-any-return]

    # Training

    def updates(self, config: Config) -> Sequence[Update]:
        """The few-shot update, in some steps after an auxiliary update (sec. 2.4)."""
        few_shot = Update("few_shot", self, lambda name: not name.startswith("auxiliary_head."))
        if not config.auxiliary.enabled:
            return [few_shot]
        few_shot = replace(few_shot, is_due=partial(makes_few_shot_update, config=config))
        auxiliary = Update(
            "auxiliary",
            self.auxiliary_logits,
            lambda name: name.startswith(("backbone.", "auxiliary_head.")),
            config.auxiliary.batch_size,
            partial(makes_auxiliary_update, config=config),
        )
        return [auxiliary, few_shot]

    def weight_decay(self, name: str, parameter: nn.Parameter, config: OptimiserConfig) -> float:
        """Convolutions and TEN have one rate, gamma0 and beta0 another, everything else none."""
        if name.endswith((".gamma0", ".beta0")):
            return config.multiplier_decay
        if name.startswith(("backbone.", "ten.")) and parameter.ndim >= 2:
            return config.weight_decay
        return 0.0

    def statistics(self) -> list[Tensor]:
        """Those of batch norm, and of the tasks that TEN has seen."""
        return [*super().statistics(), *self.description.buffers()]

    def logged(self) -> Mapping[str, float]:
        """The metric's scale, whether it is learnt or not."""
        return {"alpha": self.metric.alpha.item()}

    def logged_at_validation(self) -> Mapping[str, Any]:
        """How strongly each layer is conditioned (the paper's figure 3)."""
        multipliers = self.ten.multipliers() if self.ten is not None else {}
        if not multipliers:
            return {}
        return {
            "gamma0": {str(layer): gamma0 for layer, (gamma0, _) in multipliers.items()},
            "beta0": {str(layer): beta0 for layer, (_, beta0) in multipliers.items()},
        }

    # Evaluation: the first pass does not depend on the task

    def embed_once(self, images: Tensor) -> Tensor | None:
        """The unconditioned embeddings, (N, C, H, W) -> (N, D)."""
        return self.embed(images)

    def task_vectors(self, once: Tensor, labels: Tensor, way: int) -> Tensor | None:
        """The FiLM vectors of each task in one row, (T, V); None without a TEN."""
        film = self.film_from(once, labels, way)
        return None if film is None or self.ten is None else self.ten.as_rows(film)

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits (T, Q, K); with conditioning, images pass through the network twice."""
        assert tasks.once is not None
        film: Film | None = None
        if control != "unconditioned" and self.ten is not None:
            film = (
                self.film_from(tasks.once[0], tasks.labels, tasks.way)
                if tasks.vectors is None
                else self.ten.from_rows(tasks.vectors)
            )
        if film is None:
            z, zq = tasks.once
        else:
            images = tasks.images()  # (T, N + Q, C, H, W)
            both = self.embed(images.flatten(0, 1), film).unflatten(0, images.shape[:2])
            z, zq = both.tensor_split([tasks.labels.shape[1]], dim=1)
        return self.compare(z, tasks.labels, zq, tasks.way)

    def controls(self) -> tuple[str, ...]:
        """If it is conditioned: another task's FiLM, the mean FiLM, and no conditioning."""
        return () if self.ten is None else ("other", "mean", "unconditioned")

    def notes(self, shot: int) -> tuple[str, ...]:
        """A single image has no spread: part of TEN's input is missing then."""
        if self.ten is None or self.description.kind != "moments" or shot > 1:
            return ()
        return ("With one shot there is no spread within a class: TEN sees zeros in its place.",)

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """Each image once, plus each task's images again if the model is conditioned."""
        return images + (in_tasks if self.ten is not None else 0)
