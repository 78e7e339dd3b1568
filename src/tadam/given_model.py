"""The model that a user gives, by name, as a file or as an object, made ready for one task."""

import copy
from pathlib import Path

import torch

from tadam.errors import UserError
from tadam.metric import ScaledMetric
from tadam.model import Tadam
from tadam.modelfile import ModelInfo, default_model, find_model, load_model
from tadam.nn.backbone import Backbone

#: The metric of a backbone that comes without one; a cosine does not depend on its features' scale.
_OWN_DISTANCE, _OWN_ALPHA = "cosine", 10.0


def model_name(model: str | Path | Tadam | Backbone | None) -> str | None:
    """By which name or path `resolve_model` finds the same model again; None for an object."""
    if model is None:
        return default_model()
    return str(model) if isinstance(model, (str, Path)) else None


def resolve_model(
    model: str | Path | Tadam | Backbone | None, device: torch.device
) -> tuple[Tadam, ModelInfo | None]:
    """A model whose backbone is the caller's own, for evaluation, and the recipe behind it if any.

    Args:
        model: As for `FewShotClassifier`; an object is left as it is.
        device: Where the model is needed.
    """
    origin = None
    if isinstance(model, Backbone):
        metric = ScaledMetric(_OWN_DISTANCE, _OWN_ALPHA)
        found = Tadam(copy.deepcopy(model), metric, None, "mean", 0)
    elif isinstance(model, Tadam):
        # A TEN is most of a model's modules; where it need not move, a copy may share it.
        shared = model.ten if model.metric.alpha.device == device else None
        found = copy.deepcopy(model, {id(shared): shared})
    elif model is None or isinstance(model, (str, Path)):
        found, origin = load_model(find_model(default_model() if model is None else model))
    else:
        raise UserError(
            f"model must be a name, a path, a Tadam or a Backbone, got {type(model).__name__}"
        )
    found.to(device).backbone.eval()
    return found, origin
