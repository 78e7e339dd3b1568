"""An image encoder from an ONNX file, run in onnxruntime; the file itself is among the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tadam.config import BackboneConfig
from tadam.errors import UserError
from tadam.nn.film import Film
from tadam.nn.foreign import ForeignEncoder, token_rule
from tadam.nn.one_by_one import one_thread_session
from tadam.registry import BACKBONES

#: Types of input that we can feed, as onnxruntime calls them.
INPUT_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
#: Outputs to prefer, by name.
_PREFERRED = ("image_embeds", "embeddings", "embedding", "features", "pooler_output")


@dataclass(frozen=True)
class OnnxEncoderConfig(BackboneConfig):
    """What has to be known of an ONNX file; `fit --model FILE.onnx` finds it out."""

    name: str = "onnx_encoder"
    conditionable: ClassVar[bool] = False
    file_bytes: int = 0
    """Size of the ONNX file, which is kept with the weights."""
    features: int = 0
    """Length of an embedding."""
    channels_last: bool = False
    """Whether it takes (N, H, W, C)."""
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    """Mean of each channel on the 0-255 scale."""
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    """Standard deviation of each channel."""


@BACKBONES.register("onnx_encoder", OnnxEncoderConfig)
class OnnxEncoder(ForeignEncoder):
    """Runs the graph that is in its buffer `content`."""

    how_to_install = "pip install 'tadam-fewshot[imagenet]'"
    one_by_one = True
    content: Tensor

    def __init__(self, config: OnnxEncoderConfig, image_size: int) -> None:
        super().__init__(len(config.mean), image_size, list(config.mean), list(config.std))
        self.config: OnnxEncoderConfig = config
        self.feature_size = config.features
        self.register_buffer("content", torch.zeros(config.file_bytes, dtype=torch.uint8))
        self._run: Callable[[Tensor], Tensor] | None = None

    @classmethod
    def from_config(cls, config: OnnxEncoderConfig, channels: int, image_size: int) -> Self:
        """The encoder of a recipe, without its file."""
        return cls(config, image_size)

    @classmethod
    def is_installed(cls) -> bool:
        """Whether onnxruntime is there."""
        return find_spec("onnxruntime") is not None

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(N, C, S, S), preprocessed -> (N, D)."""
        return self.open()(x.detach().cpu()).to(x.device)

    def open(self) -> Callable[[Tensor], Tensor]:
        """What runs the graph; takes a moment the first time."""
        if self._run is None:
            if not self.is_installed():
                raise UserError(f"an ONNX encoder needs onnxruntime: {self.how_to_install}")
            session = one_thread_session(self.content.cpu().numpy().tobytes())
            self._run = image_runner(session, self.config.channels_last)
        return self._run

    def __getstate__(self) -> dict[str, Any]:
        """Without the session, which cannot be pickled or copied."""
        return {**self.__dict__, "_run": None}


def image_runner(session: Any, channels_last: bool) -> Callable[[Tensor], Tensor]:
    """What runs a session: (N, C, S, S) -> (N, D), whatever its batch size and its output.

    Raises:
        ValueError: Its output is nothing that could be an embedding.
    """
    (source,) = session.get_inputs()
    kind, fixed = INPUT_TYPES[source.type], source.shape[0]
    output = output_name([(out.name, out.shape) for out in session.get_outputs()])

    def call(some: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = session.run([output], {source.name: some})[0]
        return as_vectors(found)

    def run(x: Tensor) -> Tensor:
        images = x.permute(0, 2, 3, 1) if channels_last else x
        if kind is np.uint8:
            images = images.round().clamp(0, 255)
        array = np.ascontiguousarray(images.numpy().astype(kind))
        if not isinstance(fixed, int) or fixed < 1:
            return torch.from_numpy(call(array))
        parts = []
        for start in range(0, len(array), fixed):
            some = array[start : start + fixed]
            full = np.concatenate([some, np.repeat(some[:1], fixed - len(some), axis=0)])
            parts.append(call(full)[: len(some)])
        return torch.from_numpy(np.concatenate(parts))

    return run


def output_name(outputs: list[tuple[str, list[Any]]]) -> str:
    """Which of several outputs is the embedding: by its name, else the first of two dimensions."""
    by_name = [name for wanted in _PREFERRED for name, _ in outputs if name == wanted]
    flat = [name for name, shape in outputs if len(shape) == 2]
    return (by_name or flat or [outputs[0][0]])[0]


def as_vectors(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(N, D), (N, D, H, W) or (N, T, D) -> (N, D), float32."""
    kind, found = found.dtype, found.astype(np.float32)  # 16 bits would round a mean
    if found.ndim == 4:
        found = found.mean(axis=(2, 3))
    elif found.ndim == 3:
        first = token_rule(found.shape[1]) == "first"
        found = found[:, 0] if first else found.mean(axis=1)
    if found.ndim != 2 or not np.issubdtype(kind, np.floating):
        raise ValueError(f"its output is {kind} of shape {found.shape}")
    return np.ascontiguousarray(found)
