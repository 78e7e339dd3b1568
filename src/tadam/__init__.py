"""Few-shot image classification that works: TADAM (Oreshkin, Rodriguez, Lacoste, NeurIPS 2018)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tadam.classify.classifier import FewShotClassifier
    from tadam.classify.export import export
    from tadam.config import Config
    from tadam.data.episodes import EpisodeSampler
    from tadam.data.store import ImageStore
    from tadam.errors import RunFailed, UserError
    from tadam.evaluation.tasks import Evaluation, evaluate
    from tadam.methods.base import Method
    from tadam.methods.tadam import Tadam
    from tadam.models.modelfile import load_model
    from tadam.nn.backbone import Backbone
    from tadam.recipes import load_recipe
    from tadam.training.reporter import Reporter
    from tadam.training.run import TrainingResult, train

__version__ = "0.2.0"

# Where each public name lives; imported on first use, so that `import tadam` stays instant.
_HOMES = {
    "Backbone": "tadam.nn.backbone",
    "Config": "tadam.config",
    "EpisodeSampler": "tadam.data.episodes",
    "Evaluation": "tadam.evaluation.tasks",
    "FewShotClassifier": "tadam.classify.classifier",
    "ImageStore": "tadam.data.store",
    "Method": "tadam.methods.base",
    "Reporter": "tadam.training.reporter",
    "RunFailed": "tadam.errors",
    "Tadam": "tadam.methods.tadam",
    "TrainingResult": "tadam.training.run",
    "UserError": "tadam.errors",
    "evaluate": "tadam.evaluation.tasks",
    "export": "tadam.classify.export",
    "load_model": "tadam.models.modelfile",
    "load_recipe": "tadam.recipes",
    "train": "tadam.training.run",
}

__all__ = [
    "Backbone",
    "Config",
    "EpisodeSampler",
    "Evaluation",
    "FewShotClassifier",
    "ImageStore",
    "Method",
    "Reporter",
    "RunFailed",
    "Tadam",
    "TrainingResult",
    "UserError",
    "__version__",
    "evaluate",
    "export",
    "load_model",
    "load_recipe",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tadam' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
