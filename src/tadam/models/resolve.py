"""Finds a user's model, given by name, as a file or as an object, and readies it for a task."""

import copy
import warnings
from pathlib import Path

import torch
from torch import nn

from tadam.errors import UserError
from tadam.methods.base import Method
from tadam.methods.tadam import Tadam
from tadam.metric import ScaledMetric
from tadam.models.encoders import origin_of
from tadam.models.find import default_model, what_is_missing
from tadam.models.modelfile import ModelInfo, load_model
from tadam.nn.backbone import Backbone
from tadam.nn.foreign import ForeignEncoder

#: The metric of a bare backbone; the cosine does not depend on the scale of its features.
_OWN_DISTANCE, _OWN_ALPHA = "cosine", 10.0


def model_name(model: str | Path | Tadam | Backbone | None) -> str | None:
    """The name or path by which `resolve_model` finds this model again; None for an object."""
    if model is None:
        return default_model()
    return str(model) if isinstance(model, (str, Path)) else None


def resolve_model(
    model: str | Path | Tadam | Backbone | None,
    device: torch.device,
    image_size: int | None = None,
) -> tuple[Tadam, ModelInfo | None]:
    """`resolve_method`, for those who need embeddings."""
    found, origin = resolve_method(model, device, image_size)
    if not isinstance(found, Tadam):
        assert origin is not None
        raise UserError(
            f"{model} was trained by method {origin.config.method.name!r}, which has no embeddings "
            "to compare: give a model that has, such as one trained by method 'tadam'"
        )
    return found, origin


def resolve_method(
    model: str | Path | Tadam | Backbone | None,
    device: torch.device,
    image_size: int | None = None,
) -> tuple[Method, ModelInfo | None]:
    """A model to evaluate, whose backbone the caller may change, and its recipe if it has one.

    A method that only compares embeddings becomes a `Tadam` on its network.

    Args:
        model: As for `FewShotClassifier`; an object is copied, never changed.
        device: Where the model is needed.
        image_size: Side of the images that the network is to take; None for its own.
    """
    origin = None
    if isinstance(model, (Backbone, Tadam)) and image_size is not None:
        raise UserError(
            "`image_size` is for models given by name: build the backbone with the size you want"
        )
    if isinstance(model, ForeignEncoder):
        origin = origin_of(model)
    if isinstance(model, Backbone):
        model = _on(model, _OWN_DISTANCE)
    if isinstance(model, Tadam):
        found: Method = _copied(model, device)
    elif model is None or isinstance(model, (str, Path)):
        if model is None and (advice := what_is_missing()):
            warnings.warn(advice, stacklevel=3)  # points at the call of fit
        found, origin = load_model(default_model() if model is None else model, image_size)
        embedding = None if isinstance(found, Tadam) else found.as_embedding()
        found = _on(*embedding) if embedding else found
    else:
        raise UserError(
            f"model must be a name, a path, a Tadam or a Backbone, got {type(model).__name__}"
        )
    if not isinstance(found, Tadam):
        return found.to(device).eval(), origin
    _require_tadams_own(found)
    found.to(device).backbone.eval()
    found.description.eval()
    return found, origin


def _on(backbone: Backbone, distance: str) -> Tadam:
    return Tadam(backbone, ScaledMetric(distance, _OWN_ALPHA), None, "mean", 0)


def _require_tadams_own(model: Tadam) -> None:
    """Refuses a subclass with another forward pass: a classifier would answer without it."""
    for name in ("forward", "embed", "film_from", "compare"):
        if getattr(type(model), name) is not getattr(Tadam, name):
            raise UserError(
                f"{type(model).__name__} has its own {name}, which a classifier does not call: "
                "use a Tadam, or put what it changes into the backbone"
            )


def _copied(model: Tadam, device: torch.device) -> Tadam:
    """A copy that shares the parts it will not change, which is most of the model.

    Nothing that has to move is shared; of the backbone, only layers that folding copies anyway.
    """
    backbone = model.backbone
    shared: list[nn.Module | None] = []
    if backbone.pixel_mean.device == device:
        shared = [model.ten, model.auxiliary_head]
        folds = type(backbone).folded is not Backbone.folded
        if folds and not any(m.training for m in backbone.modules()):
            shared += backbone.children()
    return copy.deepcopy(model, {id(part): part for part in shared})
