"""Opens an ONNX file as an encoder: what it takes and returns is read from it, or asked for."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from tadam.errors import UserError
from tadam.nn.backbones.onnx_encoder import (
    INPUT_TYPES,
    OnnxEncoder,
    OnnxEncoderConfig,
    image_runner,
)
from tadam.nn.one_by_one import one_thread_session

#: Larger files are refused: a classifier's file holds the encoder.
MOST_ONNX_BYTES = 2**30
_USUAL = "0.485,0.456,0.406 and 0.229,0.224,0.225"


def open_onnx(
    path: Path,
    image_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> OnnxEncoder:
    """An encoder from a file.

    Args:
        path: The ONNX file, weights included.
        image_size: Side of its input, if the file does not fix it.
        mean: Mean of each channel, on the scale where white is 1; else from the file's metadata
            `mean`, as JSON.
        std: Standard deviation of each channel, likewise.
    """
    if not all(find_spec(module) for module in ("onnx", "onnxruntime")):
        raise UserError(f"{path} needs onnx and onnxruntime: {OnnxEncoder.how_to_install}")
    content = _content(path)
    try:
        session = one_thread_session(content)
    except Exception as error:  # onnxruntime has an exception for everything
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} is not an ONNX file that onnxruntime can run ({reason[:200]}): export it "
            "again, as one file with its weights"
        ) from None
    about = dict(session.get_modelmeta().custom_metadata_map)
    channels, channels_last, size = _shape(path, session, image_size, about)
    plain = session.get_inputs()[0].type == "tensor(uint8)"  # it normalises for itself
    means = _numbers(path, "mean", mean, about, channels, 0.0 if plain else None)
    stds = _numbers(path, "std", std, about, channels, 1 / 255 if plain else None)
    if min(stds) <= 0:
        raise UserError(f"`std` must be above 0, got {min(stds):g}")
    config = OnnxEncoderConfig(
        file_bytes=len(content),
        features=_features(path, session, channels, channels_last, size),
        channels_last=channels_last,
        mean=tuple(255 * value for value in means),
        std=tuple(255 * value for value in stds),
    )
    encoder = OnnxEncoder(config, size)
    encoder.content.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
    return encoder.eval()


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_ONNX_BYTES:
            raise UserError(f"{path} is larger than 1 GB: use a smaller encoder, or one with hf:")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    if has_weights_elsewhere(content):
        raise UserError(
            f"{path} keeps its weights in another file: save it as one, with "
            "onnx.save(onnx.load(old), new)"
        )
    return content


def has_weights_elsewhere(content: bytes) -> bool:
    """Whether an ONNX file refers to another one."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # protobuf's
        return False  # onnxruntime will say what is wrong
    tensors = list(model.graph.initializer)
    for node in model.graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors]
    return any(uses_external_data(tensor) for tensor in tensors)


def _shape(
    path: Path, session: Any, image_size: int | None, about: dict[str, str]
) -> tuple[int, bool, int]:
    """Channels, whether they come last, and the side of the input."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        names = ", ".join(f"{i.name} {i.shape}" for i in inputs)
        raise UserError(
            f"{path} takes {names}, not just images: export the image encoder by itself, with one "
            "input of shape (N, 3, S, S)"
        )
    if inputs[0].type not in INPUT_TYPES:
        raise UserError(
            f"{path} takes {inputs[0].type}: export it for 32-bit floats, 16-bit floats or uint8"
        )
    shape = inputs[0].shape
    channels_last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    channels = shape[3] if channels_last else shape[1]
    if not isinstance(channels, int):
        channels = 3
    if channels not in (1, 3):
        raise UserError(f"{path} takes images of {channels} channels: it must be 1 or 3")
    sides = {s for s in (shape[1:3] if channels_last else shape[2:]) if isinstance(s, int)}
    if len(sides) > 1:
        raise UserError(f"{path} takes images of {shape}: they must be square")
    stored = about.get("image_size", "")
    given = image_size or (int(stored) if stored.isdecimal() else None)
    size = sides.pop() if sides else given
    if size is None:
        raise UserError(f"{path} takes images of any size: say which with `image_size`")
    if image_size not in (None, size):
        raise UserError(f"{path} takes images of {size} pixels only: leave `image_size` out")
    return channels, channels_last, int(size)


def _numbers(
    path: Path,
    name: str,
    given: Sequence[float] | None,
    about: dict[str, str],
    channels: int,
    default: float | None,
) -> list[float]:
    """A number for each channel: given, from the file's metadata, or the default."""
    found: Any = given
    if found is None and name in about:
        try:
            found = json.loads(about[name])
        except ValueError:
            found = about[name]
    if found is None and default is not None:
        return [default] * channels
    if found is None:
        raise UserError(
            f"{path} does not say how its pixels are normalised: give `mean` and `std`, which for "
            f"most networks are {_USUAL}"
        )
    ok = isinstance(found, (list, tuple)) and len(found) == channels
    if not ok or not all(isinstance(v, (int, float)) and abs(v) < 1e6 for v in found):
        raise UserError(f"`{name}` must be {channels} numbers for {path}, got {found!r}")
    return [float(value) for value in found]


def _features(path: Path, session: Any, channels: int, channels_last: bool, size: int) -> int:
    """Length of an embedding, from a trial with two black images."""
    try:
        z = image_runner(session, channels_last)(torch.zeros(2, channels, size, size))
        if len(z) != 2:
            raise ValueError(f"for 2 images it returns {len(z)} embeddings")
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{path} cannot embed images of {size} x {size} pixels ({reason[:200]}): check "
            "`image_size`, and that it returns (N, D)"
        ) from None
    return int(z.shape[1])
