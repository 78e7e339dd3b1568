"""Images in memory as users have them: bytes, open files, arrays and tensors of any usual kind."""

import io
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tadam.data.decode import Pixels
from tadam.data.encoded import Encoded
from tadam.errors import UserError

#: Pixels whose scale is not settled yet, (H, W, C).
FloatPixels = npt.NDArray[np.float32]

_CHANNELS = (1, 3, 4)
#: How far above 1 or below 0 rounding may take a float.
_SLACK = 1e-3
#: Between 1 and this, a largest value is of neither scale: an image from 0 to 255 is not so dark.
_DARKEST = 16.0

_Other = TypeVar("_Other")


def is_encoded(image: Any) -> bool:
    """Whether it is the content of an image file, or an open file."""
    return isinstance(image, (bytes, bytearray, memoryview)) or callable(
        getattr(image, "read", None)
    )


def encoded(image: Any, number: int) -> Encoded:
    """The content of an image file; `number` is its place among the others, for errors."""
    if isinstance(image, io.BytesIO):
        content: Any = image.getvalue()
    else:
        content = image.read() if hasattr(image, "read") else image
    if isinstance(content, str):
        raise UserError(f"image {number} is a file open as text: open it with mode 'rb'")
    data = bytes(content)
    return Encoded(f"image {number}", lambda: data)


def batch(images: Any) -> Any:
    """What to iterate over for the single images of an array or tensor; else `images` itself."""
    if isinstance(images, Tensor):
        single = images.ndim == 2 or (
            images.ndim == 3 and (images.shape[0] in _CHANNELS or images.shape[-1] in _CHANNELS)
        )
        return images[None] if single else images
    if isinstance(images, np.ndarray) and images.ndim > 1:
        single = images.ndim == 2 or (images.ndim == 3 and images.shape[-1] in _CHANNELS)
        return images[None] if single else images
    return images


def upright_pixels(image: Any, number: int) -> Pixels | FloatPixels:
    """An array or tensor of one image as (H, W, C), uint8 or of floats.

    If both its first and its last side could be channels, a tensor's are the first, an array's
    the last.
    """
    first = isinstance(image, Tensor)
    if isinstance(image, Tensor):
        image = image.detach().cpu()
        image = (image.float() if image.is_floating_point() else image).numpy()
    array: npt.NDArray[Any] = np.asarray(image)
    if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
        raise UserError(
            f"image {number} is an array of {array.dtype}: give uint8 pixels from 0 to 255, "
            "floats, a path, bytes or a PIL image"
        )
    if array.ndim == 2:
        array = array[:, :, None]
    shape = array.shape
    if array.ndim == 3 and shape[0] in _CHANNELS and (first or shape[2] not in _CHANNELS):
        array = np.ascontiguousarray(array.transpose(1, 2, 0))
    if array.ndim != 3 or array.shape[2] not in _CHANNELS or not array.size:
        raise UserError(
            f"image {number} is an array of shape {shape}: an image is (H, W), (H, W, C) or "
            "(C, H, W) with 1, 3 or 4 channels"
        )
    return array if array.dtype == np.uint8 else array.astype(np.float32)


def whole_pixels(images: "Sequence[_Other | FloatPixels]") -> list[Any]:
    """The same images with floats turned into uint8, all of them by one scale.

    The scale is that of all float images together: a black image among others from 0 to 255 has
    no value above 1 either.
    """
    floats = {
        number: image
        for number, image in enumerate(images)
        if isinstance(image, np.ndarray) and image.dtype == np.float32
    }
    if not floats:
        return list(images)
    ranges = {number: (float(image.min()), float(image.max())) for number, image in floats.items()}
    highest = max(high for _, high in ranges.values())
    for number, (low, high) in ranges.items():
        if not (low >= -_SLACK and high <= 255 + _SLACK) or 1 + _SLACK < highest < _DARKEST:
            raise UserError(
                f"image {number} has values from {low:.3g} to {high:.3g}: floats must go from 0 to "
                "1 or from 0 to 255; undo any normalisation"
            )
    scale = 255 if highest <= 1 + _SLACK else 1
    whole = {
        number: np.clip(np.rint(image * scale), 0, 255).astype(np.uint8)
        for number, image in floats.items()
    }
    return [whole.get(number, image) for number, image in enumerate(images)]
