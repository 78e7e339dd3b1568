"""Model files: weights as safetensors, with the recipe and the training data in the metadata.

Nothing is unpickled, and no file is trusted: its claims are compared with the shapes of its tensors
before any memory is allocated.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tadam.config import Config
from tadam.errors import RunFailed, UserError
from tadam.methods.base import InputSpec, Method, build_model
from tadam.models.find import BEST, find_model
from tadam.system.files import write_with

MODEL_FORMAT = 1
KEY = "tadam"
CLASSIFIER_KEY = "tadam-classifier"
#: Largest side of an image that a model may ask for.
MOST_PIXELS = 1024


@dataclass(frozen=True)
class ModelInfo:
    """What a model file says about its weights.

    Attributes:
        config: The recipe.
        spec: Channels, image size and training classes.
        step: Training steps that made the weights.
        validation: Accuracy on the validation tasks, as `{"accuracy": ..., "ci95": ...}`.
        classes: Names of the training classes, if known.
    """

    config: Config
    spec: InputSpec
    step: int = 0
    validation: dict[str, float] = field(default_factory=dict)
    classes: tuple[str, ...] = ()


def describe(info: ModelInfo) -> dict[str, Any]:
    """The description as JSON."""
    return {
        "recipe": info.config.to_toml(),
        "spec": asdict(info.spec),
        "step": info.step,
        "validation": info.validation,
        "classes": list(info.classes),
    }


def parse_description(raw: dict[str, Any], path: Path) -> ModelInfo:
    """Reads what `describe` returned; raises `KeyError` and the like for anything else."""
    spec = InputSpec(**{k: int(v) for k, v in raw["spec"].items()})
    config = Config.from_written(raw["recipe"], str(path))
    if spec.channels not in (1, 3) or not 16 <= spec.image_size <= MOST_PIXELS:
        raise UserError(f"{path} was not written by tadam: it claims {spec}")
    classes = tuple(map(str, raw.get("classes", ())))  # absent from older files
    return ModelInfo(config, spec, int(raw["step"]), raw["validation"], classes)


def write_tensors(path: Path, tensors: dict[str, Tensor], info: ModelInfo, **extra: Any) -> None:
    """Writes tensors and their description, whole or not at all; `extra` must be JSON."""
    text = json.dumps({"format": MODEL_FORMAT, **describe(info), **extra})
    # safetensors stores no strides, so a channels_last weight is saved in plain order
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_tensors(path, plain, {KEY: text})


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes a safetensors file, whole or not at all."""

    def save(temporary: Path) -> None:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # such as a full disk
            raise RunFailed(f"{path} cannot be written: {error}") from None

    write_with(path, save)


def open_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file, and its metadata."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it")
    try:
        with safe_open(path, framework="pt") as file:
            return (
                {name: file.get_tensor(name) for name in file.keys()},  # noqa: SIM118
                file.metadata() or {},
            )
    except FileNotFoundError:
        raise UserError(f"{path} does not exist: check the path") from None
    except PermissionError:
        raise UserError(f"{path} cannot be read: you do not have permission") from None
    except (SafetensorError, OSError):
        raise UserError(
            f"{path} is not a complete safetensors file: copy or create it again"
        ) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], ModelInfo, dict[str, Any]]:
    """Reads what `write_tensors` wrote: tensors, description, and the raw JSON."""
    tensors, metadata = open_tensors(path)
    if CLASSIFIER_KEY in metadata:
        raise UserError(
            f"{path} is a classifier, not a model: sort images with 'tadam predict {path} FOLDER', "
            f"measure it with 'tadam evaluate {path} FOLDER'"
        )
    try:
        raw = json.loads(metadata[KEY])
        if raw["format"] != MODEL_FORMAT:
            raise UserError(
                f"{path} has format {raw['format']}, this tadam reads {MODEL_FORMAT}: upgrade tadam"
            )
        info = parse_description(raw, path)
    except UserError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise UserError(f"{path} was not written by tadam: its metadata is missing") from None
    return tensors, info, raw


def save_model(path: Path, model: Method, info: ModelInfo) -> None:
    """Writes a model that can be evaluated or deployed."""
    write_tensors(path, model.state_dict(), info)


def load_model(model: str | Path, image_size: int | None = None) -> tuple[Method, ModelInfo]:
    """Reads a model to evaluate.

    Args:
        model: A shipped model's name, a run folder (its best weights), a file, an encoder.onnx, or
            `hf:` and the name of one of `transformers`.
        image_size: Side of the images that the network is to take; None for its own.
    """
    from tadam.models.encoders import load_encoder, names_encoder

    if names_encoder(model):
        return load_encoder(model, image_size)
    path = find_model(model)
    tensors, info, raw = read_tensors(path)
    if "counters" in raw:
        raise UserError(f"{path} is the state of a training run: use {BEST} beside it")
    if image_size is None or image_size == info.spec.image_size:
        return assemble(tensors, info, path), info
    check_image_size(image_size)
    resized = replace(info, spec=replace(info.spec, image_size=image_size))
    try:
        return assemble(tensors, resized, path), resized
    except UserError:
        assemble(tensors, info, path)  # if the size is not to blame, this says what is
        raise UserError(
            f"{model} takes images of {info.spec.image_size} pixels only: leave `image_size` out"
        ) from None


def check_image_size(image_size: int) -> None:
    """Refuses a size that no model has."""
    if type(image_size) is not int or not 16 <= image_size <= MOST_PIXELS:
        raise UserError(
            f"`image_size` must be a whole number from 16 to {MOST_PIXELS}, got {image_size!r}"
        )


def assemble(tensors: dict[str, Tensor], info: ModelInfo, path: Path) -> Method:
    """Builds the model that `info` describes from `tensors`, which must fit exactly."""
    try:
        with torch.device("meta"):  # shapes only, so a false claim costs no memory
            expected = build_model(info.config, info.spec).state_dict()
    except (RuntimeError, TypeError):  # a size that is negative or exceeds 64 bits
        raise UserError(
            f"{path} does not describe a model that can be built ({info.config.backbone.name} for "
            f"{info.spec}): it is damaged, or its backbone cannot be built without data"
        ) from None
    check_fit(tensors, expected, path)
    model = build_model(info.config, info.spec)
    model.load_state_dict(tensors)
    model.load_pretrained()
    return model.eval()


def check_fit(tensors: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Refuses tensors unless their names, shapes and types are the expected ones."""
    for name in sorted(expected.keys() | tensors.keys()):
        found, wanted = _kind(tensors.get(name)), _kind(expected.get(name))
        if found != wanted:
            raise UserError(
                f"{path} does not fit the architecture it names: tensor {name} is {found}, "
                f"expected {wanted}"
            )


def _kind(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"
