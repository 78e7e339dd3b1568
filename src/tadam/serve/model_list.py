"""The models that a project can choose from."""

from typing import Any

from tadam.errors import UserError
from tadam.models.find import WEIGHTS, default_model, shipped_models
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0, EfficientNetLite2

_NEEDS = {"imagenet": EfficientNetLite0, "imagenet-large": EfficientNetLite2}


def model_items() -> list[dict[str, Any]]:
    """Name, description, and whether it can be used, of each shipped model."""
    best = default_model()
    return [
        {
            "name": name,
            "description": _description(name),
            "installed": name not in _NEEDS or _NEEDS[name].is_installed(),
            "is_default": name == best,
        }
        for name in shipped_models()
    ]


def _description(name: str) -> str:
    """The first sentence of a model's card."""
    try:
        lines = (WEIGHTS / f"{name}.md").read_text("utf-8").splitlines()
    except (OSError, UserError):
        return ""
    text = [line for line in lines if line.strip() and not line.startswith(("#", "|", "-", "`"))]
    return text[0].replace("`", "").replace("*", "") if text else ""
