"""Model files: weights as safetensors, with the recipe and the training data in the metadata.

Nothing is unpickled, and no file is trusted: its checksum and every field of its description are
checked, its claims are compared with the shapes of its tensors before any memory is allocated, and
weights that are not finite are refused.
"""

import hashlib
import json
import os
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
from tadam.system.untrusted_json import (
    BadJson,
    FieldCheck,
    fields,
    list_of,
    number,
    object_of,
    parse_json,
    text,
    whole,
)

MODEL_FORMAT = 1
KEY = "tadam"
CLASSIFIER_KEY = "tadam-classifier"
CHECKSUM_KEY = "sha256"
#: Largest side of an image that a model may ask for.
MOST_PIXELS = 1024
#: What the description of a model must hold, and what older files may lack.
_FIELDS: dict[str, FieldCheck] = {
    "recipe": text,
    "spec": lambda raw: _spec(raw),
    "step": whole(),
    "validation": object_of(number()),
}
_NEWER_FIELDS: dict[str, FieldCheck] = {"classes": list_of(text)}
_SPEC: dict[str, FieldCheck] = {
    "channels": whole(1, 3),
    "image_size": whole(16, MOST_PIXELS),
    "auxiliary_classes": whole(),
}


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


def _spec(raw: Any) -> InputSpec:
    spec = InputSpec(**fields(raw, _SPEC))
    if asdict(spec) != raw or spec.channels == 2:
        raise BadJson(f"{raw} is impossible")
    return spec


def parse_description(raw: Any, path: Path) -> ModelInfo:
    """Reads what `describe` returned; raises `BadJson` or `UserError` for anything else."""
    said = fields(raw, _FIELDS, _NEWER_FIELDS)
    config = Config.from_written(said["recipe"], str(path))
    classes = tuple(said.get("classes", ()))
    return ModelInfo(config, said["spec"], said["step"], said["validation"], classes)


def write_tensors(path: Path, tensors: dict[str, Tensor], info: ModelInfo, **extra: Any) -> None:
    """Writes tensors and their description, whole or not at all; `extra` must be JSON."""
    description = {"format": MODEL_FORMAT, **describe(info), **extra}
    # safetensors stores no strides, so a channels_last weight is saved in plain order
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_tensors(path, plain, KEY, description)


def save_tensors(
    path: Path, tensors: dict[str, Tensor], key: str, description: dict[str, Any]
) -> None:
    """Writes a safetensors file with its description and checksum, whole or not at all."""
    text = json.dumps(description)
    metadata = {key: text, CHECKSUM_KEY: checksum(text, tensors)}

    def save(temporary: Path) -> None:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # such as a full disk
            raise RunFailed(f"{path} cannot be written: {error}") from None

    write_with(path, save)


def checksum(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of a description and the names, kinds and bytes of the tensors."""
    digest = hashlib.sha256(text.encode(errors="surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def open_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file, and its metadata."""
    if os.path.isdir(path):
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
    except (SafetensorError, OSError, ValueError, OverflowError):  # also a NUL in the path
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
    if KEY not in metadata:
        raise UserError(f"{path} was not written by tadam: its metadata is missing")
    try:
        raw = described(metadata, KEY, (MODEL_FORMAT,), path)
        require_intact(metadata, KEY, tensors, path)
        return tensors, parse_description(raw, path), raw
    except BadJson as error:
        raise UserError(
            f"{path} was not written by tadam, or is damaged ({error}): copy or create it again"
        ) from None


def described(
    metadata: dict[str, str], key: str, versions: tuple[int, ...], path: Path
) -> dict[str, Any]:
    """The description that a file has under `key`, of a version that we read, the last or older."""
    raw = parse_json(metadata[key])
    if not isinstance(raw, dict) or "format" not in raw:
        raise BadJson("it has no 'format'")
    if raw["format"] not in versions:
        raise UserError(
            f"{path} has format {str(raw['format'])[:20]}, this tadam reads {versions[-1]}: "
            "upgrade tadam"
        )
    return raw


def require_intact(
    metadata: dict[str, str], key: str, tensors: dict[str, Tensor], path: Path
) -> None:
    """Refuses a file whose checksum does not match; files of 0.1.0 may have none."""
    stored = metadata.get(CHECKSUM_KEY)
    if stored is not None and stored != checksum(metadata[key], tensors):
        raise UserError(
            f"{path} has been changed since it was written: its checksum does not match"
        )


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
    """Refuses tensors unless names, shapes and types are the expected ones and numbers can be."""
    for name in sorted(expected.keys() | tensors.keys()):
        found, wanted = _kind(tensors.get(name)), _kind(expected.get(name))
        if found != wanted:
            raise UserError(
                f"{path} does not fit the architecture it names: tensor {name} is {found}, "
                f"expected {wanted}"
            )
        check_numbers(name, tensors[name], path)


def check_numbers(name: str, tensor: Tensor, path: Path) -> None:
    """Refuses a tensor with NaN or infinity in it, and a spread that is not one."""
    if tensor.is_floating_point() and not tensor.isfinite().all():
        raise UserError(f"{path} is damaged: tensor {name} holds NaN or infinity; make it again")
    too_low = (name.endswith("pixel_std") and bool((tensor <= 0).any())) or (
        name.endswith("running_var") and bool((tensor < 0).any())
    )
    if too_low:
        raise UserError(f"{path} is damaged: tensor {name} is too low; make it again")


def _kind(tensor: Tensor | None) -> str:
    return "absent" if tensor is None else f"{tuple(tensor.shape)} {tensor.dtype}"
