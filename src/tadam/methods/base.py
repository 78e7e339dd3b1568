"""What a few-shot method must offer: an episode in, logits out.

Trainer, evaluation, sweeps and reproductions know this interface and no method, so that each method
is one file, trained, resumed and measured by the same commands on the same tasks. A method has to
define `from_config` and `forward`. Everything else has a default that a method replaces where it
differs: its loss, what it trains in a step, its weight decay, what it logs, and a cheaper way to
answer many tasks. docs/methods.md writes one from nothing.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tadam.config import Config, OptimiserConfig
from tadam.registry import METHODS

#: Logits (n, K), targets (n,) and the label smoothing -> the mean loss.
Loss = Callable[[Tensor, Tensor, float], Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
    """The loss of a method that does not bring its own."""
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)


@dataclass(frozen=True)
class InputSpec:
    """What a model's shape takes from its data.

    Attributes:
        channels: 1 or 3.
        image_size: Side of the images.
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
        name: Names its optimiser in checkpoints and, unless it is the last of a step, its numbers
            in the log.
        logits: The forward pass. For tasks it takes (support, labels, query, way) as `forward`
            does; for images (B, C, H, W) it answers (B, training classes).
        trains: Whether it trains the parameter of this name.
        images: Size of a batch drawn from all training classes; 0 for tasks.
        is_due: Whether step t makes this update.
        loss: From logits to the number to minimise.
    """

    name: str
    logits: Callable[..., Tensor]
    trains: Callable[[str], bool] = lambda name: True
    images: int = 0
    is_due: Callable[[int], bool] = lambda t: True
    loss: Loss = cross_entropy


@dataclass(frozen=True)
class Tasks:
    """T tasks to be answered, outside training.

    Attributes:
        labels: Class of each support image, (T, N), in 0..way-1.
        way: Number of classes K.
        once: What `embed_once` gave for support and query images, (T, N, D) and (T, Q, D); None if
            the method has no such step.
        images: Reads the images of the tasks, (T, N + Q, C, H, W), the support set first.
    """

    labels: Tensor
    way: int
    once: tuple[Tensor, Tensor] | None
    images: Callable[[], Tensor]


class Method(nn.Module):
    """A few-shot method; images are (…, C, H, W) on the 0-255 scale, uint8 or float."""

    #: Whether answering a task takes gradients, as in MAML.
    needs_gradients: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Overriding `forward` turns inherited shortcuts off: they answer for another `forward`."""
        super().__init_subclass__(**kwargs)
        if "forward" in vars(cls):
            for name in ("embed_once", "answer", "controls", "images_embedded"):
                if name not in vars(cls):
                    setattr(cls, name, vars(Method)[name])

    @classmethod
    def build(cls, config: Config, spec: InputSpec) -> Self:
        """The method of a recipe, its weights not yet set; see `initialise` and `load_model`."""
        # PyTorch's constructors draw from the global generator; leave that as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.run.seed)
            return cls.from_config(config, spec)

    @classmethod
    def from_config(cls, config: Config, spec: InputSpec) -> Self:
        """The method that a recipe describes."""
        raise NotImplementedError

    def initialise(self, config: Config, mean: Sequence[float], std: Sequence[float]) -> None:
        """Draws the initial weights from the recipe's seed; those PyTorch drew stay by default.

        Args:
            config: The recipe.
            mean: Per-channel mean of the training images.
            std: Per-channel standard deviation of the training images.
        """

    def load_pretrained(self) -> None:
        """Fills in weights that are not kept in a model's file."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """Classifies the queries of T tasks by their support sets.

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
        """What a training step does, in order; the last one is the method's own."""
        return [Update("few_shot", self)]

    def weight_decay(self, name: str, parameter: nn.Parameter, config: OptimiserConfig) -> float:
        """The L2 penalty of a parameter: matrices and filters have one, vectors none."""
        return config.weight_decay if parameter.ndim >= 2 else 0.0

    def statistics(self) -> list[Tensor]:
        """Buffers that a training pass moves: by default those of batch norm."""
        norms = [module for module in self.modules() if isinstance(module, _BatchNorm)]
        return [buffer for norm in norms for buffer in norm.buffers()]

    def logged(self) -> Mapping[str, float]:
        """Numbers for every record of the log."""
        return {}

    def logged_at_validation(self) -> Mapping[str, Any]:
        """More of them, for the records of validations."""
        return {}

    # Evaluation

    def embed_once(self, images: Tensor) -> Tensor | None:
        """What does not depend on an image's task, (N, C, H, W) -> (N, D); None if all does.

        Evaluation computes it once for each image, however many tasks the image is in.
        """
        return None

    def answer(self, tasks: Tasks, control: str = "") -> Tensor:
        """Logits of tasks, (T, Q, K).

        Args:
            tasks: Their images, and what `embed_once` gave for them.
            control: One of `controls`; empty for the method as it is.
        """
        support, query = tasks.images().tensor_split([tasks.labels.shape[1]], dim=1)
        return self(support, tasks.labels, query, tasks.way)  # type: ignore[no-any-return]

    def controls(self) -> tuple[str, ...]:
        """Other ways to answer, measured beside the method's own, such as `unconditioned`."""
        return ()

    def images_embedded(self, images: int, in_tasks: int) -> int:
        """How many images pass through the network in an evaluation.

        Args:
            images: Different images in all tasks together.
            in_tasks: Images of all tasks, those that several tasks share counted each time.
        """
        return in_tasks

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(itertools.chain(self.parameters(), self.buffers())).device


def build_model(config: Config, spec: InputSpec) -> Method:
    """The model of a recipe, its weights not yet set."""
    kind: type[Method] = METHODS.find(config.method.name)
    return kind.build(config, spec)
