"""What every feature extractor offers; subclass it to plug in your own.

A backbone is a network and what has to be known about it: how images become its input, the length
of its embeddings, which layers a task can condition, where its weights come from, and what is left
of it once a task is settled. Methods, training, classifiers and export use nothing else of it.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from tadam.config import BackboneConfig
from tadam.errors import UserError
from tadam.nn.film import Film
from tadam.nn.folded import ForOneTask
from tadam.nn.preprocess import Preprocess
from tadam.registry import BACKBONES

#: Model files list the preprocessing's buffers among the backbone's own.
_STORED_AS = {
    "preprocess.pixel_mean": "pixel_mean",
    "preprocess.pixel_std": "pixel_std",
}


class Backbone(nn.Module):
    """Embeds images, optionally modulated by FiLM.

    A subclass defines `embed`, and sets `feature_size` and, if FiLM can reach it,
    `conditioned_widths`. One that recipes can name also has `from_config`, and is registered.
    One that is a chain of stages may define `stage` and `vectors` and set `stage_shapes`: methods
    that work on feature maps need them.

    Attributes:
        feature_size: Length D of an embedding.
        conditioned_widths: Channels of each layer that FiLM can reach, in order; may be empty.
        pre_pool_layers: Which of those layers precede a pool.
        stage_shapes: Channels and side of the map that each stage ends in; empty if there are no
            stages to tell apart.
        mirrored: Whether, outside training, an image's embedding is the mean of its own and its
            mirror image's: more accurate, at twice the cost.
        preprocess: Images of any size -> what `embed` takes; a subclass may set another
            `Preprocess`.

    Args:
        channels: 1 or 3.
        image_size: Side of the square images that `embed` takes.
        mean: Mean of each channel on the 0-255 scale, 0 if not given; travels with the weights.
        std: Standard deviation of each channel, 1 if not given.
    """

    feature_size: int
    conditioned_widths: tuple[int, ...] = ()
    pre_pool_layers: tuple[int, ...] = ()
    stage_shapes: tuple[tuple[int, int], ...] = ()
    mirrored: bool = False
    preprocess: Preprocess
    #: What to tell a user who lacks the weights; see `is_installed`.
    how_to_install: str = ""

    def __init__(
        self,
        channels: int = 3,
        image_size: int = 32,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.preprocess = Preprocess(image_size, mean or [0.0] * channels, std or [1.0] * channels)
        self._register_state_dict_hook(_name_as_stored)  # type: ignore[no-untyped-call]
        self._register_load_state_dict_pre_hook(_name_as_here)  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "preprocess" in vars(cls):
            raise TypeError(f"{cls.__name__}.preprocess must be a module that __init__ sets")
        order = cls.__mro__

        def defined(name: str) -> int:
            return next(i for i, base in enumerate(order) if name in vars(base))

        # An inherited `folded` does not know about a later `embed`, `forward` or part of them.
        others = ("embed", "forward", "stage", "vectors")
        if defined("folded") > min(defined(name) for name in others):
            cls.folded = Backbone.folded  # type: ignore[method-assign]

    @property
    def image_size(self) -> int:
        """Side of the square images that `embed` takes."""
        return self.preprocess.image_size

    @property
    def pixel_mean(self) -> Tensor:
        """Mean of each channel on the 0-255 scale, (C, 1, 1)."""
        return self.preprocess.pixel_mean

    @property
    def pixel_std(self) -> Tensor:
        """Standard deviation of each channel, (C, 1, 1)."""
        return self.preprocess.pixel_std

    @classmethod
    def from_config(cls, config: Any, channels: int, image_size: int) -> Self:
        """The backbone of a recipe whose [backbone] table is `config`."""
        raise NotImplementedError

    def initialise(self, config: Any, generator: torch.Generator) -> None:
        """Draws the initial weights; those that PyTorch drew stay unless a subclass does."""

    @classmethod
    def is_installed(cls) -> bool:
        """Whether all that it needs is there; if not, `how_to_install` says what to do."""
        return True

    def load_pretrained(self) -> bool:
        """Fills in weights that are not kept in a model's file; False if there are none."""
        return False

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, C, H, W) -> (T*N, D); `film` has an entry per conditioned layer."""
        raise NotImplementedError

    def stage(self, number: int, x: Tensor, film: Film | None = None) -> Tensor:
        """What stage `number` makes of the map of the one before, (N, C, h, w) -> (N, C', h', w').

        `film` has the entries of all conditioned layers.
        """
        raise NotImplementedError

    def vectors(self, maps: Tensor) -> Tensor:
        """From the last stage's map to embeddings, (N, C, h, w) -> (N, D)."""
        raise NotImplementedError

    def maps(self, x: Tensor, film: Film | None = None) -> Tensor:
        """The feature maps behind the embeddings, (T*N, C, H, W) -> (T*N, C', h, w)."""
        self.require_stages()
        for number in range(len(self.stage_shapes)):
            x = self.stage(number, x, film)
        return x

    def require_stages(self) -> None:
        """Refuses a backbone without feature maps."""
        if not self.stage_shapes:
            raise UserError(
                f"{type(self).__name__} has no feature maps, which this method works on: use a "
                "backbone that has, such as conv4 or resnet12"
            )

    def forward(self, x: Tensor, film: Film | None = None) -> Tensor:
        """`embed`, under the name that PyTorch calls; see `mirrored`."""
        z = self.embed(x, film)
        if z.shape[1:] != (self.feature_size,):
            raise UserError(
                f"{type(self).__name__}.feature_size is {self.feature_size}, but embed returned "
                f"{tuple(z.shape)}: set feature_size to the length of an embedding"
            )
        if self.mirrored and not self.training:
            z = (z + self.embed(x.flip(-1), film)) / 2
        return z

    @torch.no_grad()
    def folded(self, film: Film | None = None) -> nn.Module:
        """What prediction runs: images as `embed` takes them -> embeddings of at most one task.

        In evaluation mode; a subclass that folds shares no tensor with what it returns.

        Args:
            film: One task's modulations, (1, C) each, one for each conditioned layer.
        """
        return ForOneTask(self, film).eval()


def build_backbone(config: BackboneConfig, channels: int, image_size: int) -> Backbone:
    """The backbone that a recipe names."""
    kind: type[Backbone] = BACKBONES.find(config.name)
    backbone = kind.from_config(config, channels, image_size)
    backbone.mirrored = config.mirrored
    return backbone


def _name_as_stored(
    backbone: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any]
) -> None:
    names = {prefix + here: prefix + stored for here, stored in _STORED_AS.items()}
    renamed = {names.get(name, name): value for name, value in state.items()}
    state.clear()  # what is renamed keeps its place
    state.update(renamed)


def _name_as_here(state: dict[str, Any], prefix: str, *others: Any) -> None:
    for here, stored in _STORED_AS.items():
        if prefix + stored in state:
            state[prefix + here] = state.pop(prefix + stored)
