"""Which file a model's name stands for, and which model is the default."""

from pathlib import Path

from tadam.errors import UserError
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0

BEST = "best.safetensors"
#: The models that come with the package.
WEIGHTS = Path(__file__).parents[1] / "weights"


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(file.stem for file in WEIGHTS.glob("*.safetensors"))


def default_model() -> str:
    """The installed model that classifies photos best."""
    usable = "imagenet" in shipped_models() and EfficientNetLite0.is_installed()
    return "imagenet" if usable else "fc100"


def what_is_missing() -> str | None:
    """One sentence if the default model is not the one that classifies photos best."""
    if default_model() == "imagenet":
        return None
    return (
        "the model imagenet is not installed, which cost 27 and 55 points of accuracy on the "
        f"photos we tried: {EfficientNetLite0.how_to_install}"
    )


def find_model(name: str | Path) -> Path:
    """The weights file that a model argument stands for.

    The argument is a file, a run folder (its best weights) or a shipped model's name.
    """
    path = Path(name)
    shipped = shipped_models()
    if path.is_dir() and str(name) not in shipped:
        if not (path / BEST).is_file():
            raise UserError(f"{path} has no {BEST}: train there first, or name a weights file")
        return path / BEST
    if path.is_file():
        return path
    if str(name) in shipped:
        return WEIGHTS / f"{name}.safetensors"
    raise UserError(
        f"there is no model {str(name)!r}: give a run folder, a .safetensors file or a shipped "
        f"model's name ({', '.join(shipped) or 'none is shipped'})"
    )
