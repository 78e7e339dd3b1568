"""Encoders by the user's choice: `encoder.onnx`, or `hf:NAME` for one of `transformers`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.metric import ScaledMetric
from tadam.models.modelfile import ModelInfo, check_image_size
from tadam.models.onnx_files import open_onnx
from tadam.nn.backbones.hf_encoder import HfEncoder, HfEncoderConfig, embedding_of
from tadam.nn.foreign import ForeignEncoder
from tadam.nn.hf_files import digest_of, local_folder, model_from

HF_PREFIX = "hf:"
_DISTANCE, _ALPHA = "cosine", 10.0


def names_encoder(model: object) -> bool:
    """Whether a model argument names somebody else's encoder."""
    name = str(model)
    return name.startswith(HF_PREFIX) or name.lower().endswith(".onnx")


def open_encoder(
    name: str | Path,
    image_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> ForeignEncoder:
    """An encoder that somebody else made.

    Args:
        name: An ONNX file, or `hf:` and a model's name on the hub or its folder.
        image_size: Side of its input; None for what the model says.
        mean: Mean of each channel, on the scale where white is 1; None for what the model says.
        std: Standard deviation of each channel, likewise.
    """
    if image_size is not None:
        check_image_size(image_size)
    if str(name).startswith(HF_PREFIX):
        encoder: ForeignEncoder = _open_hf(str(name)[len(HF_PREFIX) :], image_size, mean, std)
    else:
        encoder = open_onnx(Path(name), image_size, mean, std)
    check_image_size(encoder.image_size)
    return encoder


def origin_of(encoder: ForeignEncoder) -> ModelInfo:
    """The recipe that builds an encoder again."""
    config = Config().updated(
        {
            "backbone": {"name": encoder.config.name},
            "metric": {"distance": _DISTANCE, "alpha": _ALPHA},
            "conditioning": {"enabled": False},
            "auxiliary": {"enabled": False},
        }
    )
    own = {**vars(config), "backbone": encoder.config}
    spec = InputSpec(encoder.preprocess.channels, encoder.image_size, 0)
    return ModelInfo(Config(**own), spec)


def load_encoder(name: str | Path, image_size: int | None = None) -> tuple[Tadam, ModelInfo]:
    """An encoder as a model: prototypes and the cosine on its embeddings."""
    encoder = open_encoder(name, image_size)
    metric = ScaledMetric(_DISTANCE, _ALPHA)
    return Tadam(encoder, metric, None, "mean", 0).eval(), origin_of(encoder)


def _open_hf(
    name: str,
    image_size: int | None,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> HfEncoder:
    folder = local_folder(name)
    size, stored = _preprocessing(folder, name)
    size = image_size or size
    means, stds = (
        _three(given, stored[place], place) for place, given in (("mean", mean), ("std", std))
    )
    model, pooled = model_from(folder)
    try:
        with torch.no_grad():
            features = embedding_of(model(pixel_values=torch.zeros(1, 3, size, size)), pooled)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"hf:{name} cannot embed an image of {size} x {size} pixels ({reason[:200]}): choose "
            "an image encoder, and leave `image_size` out if it takes one size only"
        ) from None
    config = HfEncoderConfig(
        model=str(folder.absolute()) if Path(name).expanduser().is_dir() else name,
        sha256=digest_of(folder),
        features=features.shape[1],
        mean=tuple(255 * value for value in means),
        std=tuple(255 * value for value in stds),
    )
    encoder = HfEncoder(config, size)
    encoder._loaded.append((model, pooled))
    return encoder.eval()


def _preprocessing(folder: Path, name: str) -> tuple[int, dict[str, Any]]:
    """Image size, and mean and deviation on the scale where white is 1."""
    try:
        network = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        file = folder / "preprocessor_config.json"
        about = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        vision = network.get("vision_config") or network
        crop = about.get("crop_size") if about.get("do_center_crop", True) else None
        sides = [_side(found) for found in (crop, about.get("size"), vision.get("image_size"))]
        size = next(side for side in sides if side)
    except StopIteration:
        raise UserError(f"hf:{name} does not say its image size: give `image_size`") from None
    except (OSError, ValueError, AttributeError, TypeError):
        raise UserError(f"hf:{name} has a damaged JSON file: download it again") from None
    return size, {"mean": about.get("image_mean"), "std": about.get("image_std")}


def _side(found: Any) -> int | None:
    """A size as preprocessors write it: a number, or a table."""
    if isinstance(found, dict):
        found = found.get("height") or found.get("shortest_edge")
    if isinstance(found, list):
        found = found[0] if found else None
    return found if type(found) is int and found > 0 else None


def _three(given: Sequence[float] | None, stored: Any, name: str) -> list[float]:
    found = stored if given is None else list(given)
    if found is None:
        raise UserError(
            "the model does not say how its pixels are normalised (it has no "
            f"preprocessor_config.json): give `{name}`"
        )
    ok = isinstance(found, list) and len(found) == 3
    if not ok or not all(isinstance(v, (int, float)) and abs(v) < 1e6 for v in found):
        raise UserError(f"`{name}` must be 3 numbers, got {found!r}")
    if name == "std" and min(found) <= 0:
        raise UserError(f"`std` must be above 0, got {min(found):g}")
    return [float(value) for value in found]
