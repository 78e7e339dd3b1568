"""What a few-shot method must offer: an episode in, logits out.

Trainer, evaluation, sweeps and reproductions know only this interface and no particular method. So
each method is one file, and the same commands train, resume and measure it on the same tasks. A
method must define `from_config` and `forward`. Everything else has a default that a method may
override: its loss, what it trains in a step, its weight decay, what it logs, and a cheaper way to
answer many tasks. docs/how-to/your-own-method.md writes one from scratch.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tadam.config import Config, OptimiserConfig
from tadam.methods.adapted import AdaptedMethod
from tadam.registry import METHODS

if TYPE_CHECKING:
    from tadam.nn.backbone import Backbone

#: What answers in the place of `forward`.
_FOR_TASKS = ("embed_once", "task_vectors", "answer", "controls", "images_embedded")
_SHORTCUTS = (*_FOR_TASKS, "adapted", "as_embedding")
#: Logits (n, K), targets (n,) and the label smoothing -> the mean loss.
Loss = Callable[[Tensor, Tensor, float], Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    """The default loss."""
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)


@dataclass(frozen=True)
class InputSpec:
    """What the data decides about a model's shape.

    Attributes:
        channels: 1 or 3.
        image_size: Side of the images in pixels.
        auxiliary_classes: Number of training classes if the method has a head over all of them
            (see `MethodConfig.has_class_head`), else 0.
    """

    channels: int
    image_size: int
    auxiliary_classes: int


@dataclass(frozen=True)
class Update:
    """One optimiser step within a training step.

    Attributes:
        name: Name of its optimiser in checkpoints and, unless it is the last update of a step,
            prefix of its numbers in the log.
        logits: The forward pass. For tasks it takes (support, labels, query, way) as `forward`
            does; for images it maps (B, C, H, W) to (B, training classes).
        trains: Whether it trains the parameter with this name.
        images: Size of a batch drawn from all training classes; 0 for tasks.
        is_due: Whether step t makes this update.
        loss: The loss to minimise.
    """

    name: str
    logits: Callable[..., Tensor]
    trains: Callable[[str], bool] = lambda name: True
    images: int = 0
    is_due: Callable[[int], bool] = lambda t: True
    loss: Loss = cross_entropy


@dataclass(frozen=True)
class Tasks:
    """T tasks to answer outside training.

    Attributes:
        labels: Class of each support image, (T, N), in 0..way-1.
        way: Number of classes K.
        once: `embed_once` of the support and query images, (T, N, D) and (T, Q, D); None if the
            method has no such step.
        images: Reads the images of the tasks, (T, N + Q, C, H, W), the support set first.
        vectors: What to condition the method on instead of `task_vectors` of these tasks, (T, V);
            None for their own.
    """

    labels: Tensor
    way: int
    once: tuple[Tensor, Tensor] | None
    images: Callable[[], Tensor]
    vectors: Tensor | None = None


class Method(nn.Module):
    """A few-shot method; images are (…, C, H, W) on the 0-255 scale, uint8 or float."""

    #: Whether answering a task needs gradients, as in MAML.
    needs_gradients: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Overriding `forward` disables inherited shortcuts, which answer for another `forward`."""
        super().__init_subclass__(**kwargs)
        order = cls.__mro__

        def defined(name: str) -> int:
            return next(i for i, base in enumerate(order) if name in vars(base))

        for name in _SHORTCUTS:
            if defined(name) > defined("forward"):
                setattr(cls, name, vars(Method)[name])

    @classmethod
    def build(cls, config: Config, spec: InputSpec) -> Self:
        """Builds a recipe's method, without its weights; see `initialise` and `load_model`."""
        # PyTorch's constructors draw from the global generator; this restores it.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.run.seed)
            return cls.from_config(config, spec)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """Builds the method that a recipe describes."""
        raise NotImplementedError

    def initialise(self, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
        """Draws the initial weights from the recipe's seed; by default PyTorch's stay as they are.

        Args:
            config: The recipe.
            mean: Per-channel mean of the training images.
            std: Per-channel standard deviation of the training images.
        """

    def load_pretrained(self) -> None:
        """Loads weights that the model file does not contain."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Classifies the queries of T tasks from their support sets.

        Args:
            support: (T, N, C, H, W); shots may differ between classes.
            labels: (T, N), in 0..way-1.
            query: (T, Q, C, H, W).
            way: Number of classes K.

        Returns:
            Logits, (T, Q, K).
        """
        raise NotImplementedError

    # Training

    def updates(self, config: Config) -> Sequence[Update]:
        """The updates of a training step, in order; the last one is the method's own."""
        return [Update("few_shot", self)]

    def weight_decay(self, name: str, parameter: nn.Parameter, config: OptimiserConfig) -> float:
        """A parameter's weight decay: matrices and filters have one, vectors have none."""
        return config.weight_decay if parameter.ndim >= 2 else 0.0

    def statistics(self) -> list[Tensor]:
        """Buffers that a training pass updates; by default those of batch norm."""
        norms = [module for module in self.modules() if isinstance(module, _BatchNorm)]
        return [buffer for norm in norms for buffer in norm.buffers()]

    def logged(self) -> Mapping[str, float]:
        """Numbers to add to every log record."""
        return {}

    def logged_at_validation(self) -> Mapping[str, Any]:
        """More numbers, to add to validation records."""
        return {}

    # Evaluation

    def embed_once(self, images: Tensor) -> Tensor | None:
        """What can be computed without knowing the task, (N, C, H, W) -> (N, D); None if nothing.

        Evaluation computes it once per image, however many tasks the image is in.
        """
        return None

    def task_vectors(self, once: Tensor, labels: Tensor, way: int) -> Tensor | None:
        """What a task's support set makes of the method; None if it is the same for every task.

        See `controls` for what evaluation does with it.

        Args:
            once: `embed_once` of the support images, (T, N, D).
            labels: Class of each support image, (T, N), in 0..way-1.
            way: Number of classes K.

        Returns:
            A row of numbers for each task, (T, V).
        """
        return None

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits of tasks, (T, Q, K).

        Args:
            tasks: Their images, and `embed_once` of these.
            control: One of `controls`; empty for the method itself.
        """
        support, query = tasks.images().tensor_split([tasks.labels.shape[1]], dim=1)
        return self(support, tasks.labels, query, tasks.way)  # type: ignore[no-any-return]

    def controls(self) -> tuple[str, ...]:
        """Variants to measure beside the method itself, such as `unconditioned`.

        `other` and `mean` replace a task's vectors by those of another task, and by the mean over
        training tasks; a method that names them has `task_vectors`.
        """
        return ()

    @property
    def sees_queries_together(self) -> bool:
        """Whether the answer to a query depends on the task's other queries, as batch norm's may.

        Accuracy then rests on queries that come together and, mostly, in equal numbers per class;
        tables say so beside it.
        """
        return False

    def notes(self, shot: int) -> tuple[str, ...]:
        """Sentences that a reader of a measurement with this many shots has to know."""
        return ()

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """How many images pass through the network in an evaluation.

        Args:
            images: Distinct images across all tasks.
            in_tasks: Images of all tasks, counting an image once for each task it is in.
        """
        return in_tasks

    # Classifying a user's images

    def adapted(self, support: Tensor, labels: Tensor, way: int) -> nn.Module:
        """The method settled on one task, for images to come: (Q, C, H, W) -> logits (Q, K).

        What it answers for an image must not depend on the others, and is computed without
        gradients. By default the support images are kept and every answer starts from them.

        Args:
            support: (N, C, H, W); shots may differ between classes.
            labels: (N,), in 0..way-1.
            way: Number of classes K.
        """
        return AdaptedMethod(self, support, labels, way)

    def as_embedding(self) -> "tuple[Backbone, str] | None":
        """The network and the distance of a method that does no more than compare embeddings.

        A classifier then estimates a metric of its own from the support embeddings, answers "none
        of these", and can be exported. None if a task makes more of the method: `adapted` answers.
        """
        return None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(itertools.chain(self.parameters(), self.buffers())).device


def check_episode(support: Tensor, labels: Tensor, query: Tensor, way: int) -> None:
    """Raises a `ValueError` for tensors that are no episode; arguments as for `Method.forward`.

    Labels are looked at on the CPU alone: elsewhere that would wait for the device.
    """
    if support.ndim != 5 or query.ndim != 5 or support.shape[2:] != query.shape[2:]:
        raise ValueError(
            "support and query must be (T, N, C, H, W) and (T, Q, C, H, W), got "
            f"{tuple(support.shape)} and {tuple(query.shape)}"
        )
    if 0 in support.shape or len(query) != len(support):
        raise ValueError(f"{tuple(support.shape)} and {tuple(query.shape)} hold no tasks to answer")
    if labels.shape != support.shape[:2]:
        raise ValueError(
            f"labels must be {tuple(support.shape[:2])}, one for each support image, got "
            f"{tuple(labels.shape)}"
        )
    if labels.device.type != "cpu" or torch.compiler.is_compiling():
        return
    found = [set(task) for task in labels.tolist()]
    if not all(task == set(range(way)) for task in found):
        raise ValueError(f"each task needs an image of every class 0 to {way - 1}, and no others")


def build_model(config: Config, spec: InputSpec) -> Method:
    """Builds a recipe's model, without its weights."""
    kind: type[Method] = METHODS.find(config.method.name)
    return kind.build(config, spec)
