"""A fitted classifier as one ONNX file: images of any size in, probabilities out, without tadam.

Everything after decoding is in the graph. The class names are in the file's metadata.
"""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tadam import __version__
from tadam.classify.onnx_export import onnx_model
from tadam.classify.onnx_joined import joined_model
from tadam.classify.predictor import Predictor
from tadam.data.decode import Pixels
from tadam.errors import RunFailed, UserError
from tadam.nn.backbones.onnx_encoder import OnnxEncoder
from tadam.nn.folded import ForOneTask
from tadam.system.files import replacing

#: Version of the graph's inputs, outputs and metadata.
ONNX_FORMAT = "2"
INPUT, OUTPUTS = "images", ("probabilities", "strangeness")
#: Largest difference from PyTorch, of a probability or a strangeness.
TOLERANCE = 1e-4

NEEDED = ("onnx", "onnxscript", "onnxruntime")
#: Batches that are compared: how many images, and their sides as multiples of the model's.
_TRIALS = ((1, 1.0, 1.0), (2, 0.4, 0.7), (7, 1.3, 1.0), (1, 3.1, 2.2), (2, 1.0, 2.0))


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        file: The ONNX file.
        classes: How many it tells apart.
        bytes: Its size.
        difference: Largest between onnxruntime and PyTorch in the trials.
    """

    file: Path
    classes: int
    bytes: int
    difference: float


def installed() -> bool:
    """Whether the packages of the extra `export` are there."""
    return all(importlib.util.find_spec(module) for module in NEEDED)


def check_installed() -> None:
    """Says what to install if anything is missing."""
    if not installed():
        raise UserError("exporting needs ONNX and its runtime: pip install 'tadam-fewshot[export]'")


class _Graph(nn.Module):
    """What the file computes."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 (N, H, W, C) -> probabilities, (N, K), and strangeness, (N,)."""
        z = self.predictor.embed(images)
        return self.predictor.metric.probabilities(z), self.predictor.metric.strangeness(z)


def export(
    path: str | Path, predictor: Predictor, classes: Sequence[Any], reject_threshold: float
) -> Exported:
    """Writes the file, unless onnxruntime's answers differ from PyTorch's on random images.

    Args:
        path: The file; replaced if it exists.
        predictor: A task's network and metric.
        classes: The labels, text or numbers.
        reject_threshold: Strangeness beyond which an image belongs to no class.
    """
    check_installed()
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it")
    graph, size = _Graph(predictor).eval(), predictor.image_size
    model = _model_of(graph)
    model.metadata_props.update(
        {
            "format": ONNX_FORMAT,
            "tadam_version": __version__,
            "classes": json.dumps(list(classes)),
            "label_type": type(classes[0]).__name__,
            "reject_threshold": repr(float(reject_threshold)),
            "image_size": str(size),
        }
    )
    with replacing(path) as temporary:
        save(model, temporary)
        difference = _largest_difference(temporary, graph)
        if not difference <= TOLERANCE:
            raise RunFailed(
                f"{path} was not written: onnxruntime's answers differ from PyTorch's "
                f"by {difference:.2g}, more than {TOLERANCE:g}"
            )
    return Exported(path, len(classes), path.stat().st_size, difference)


def _model_of(graph: _Graph) -> Any:
    """The graph as ONNX; an encoder that is ONNX already stays as it is."""
    predictor, size = graph.predictor, graph.predictor.image_size
    images = torch.from_numpy(random_images(2, size + 3, size + 5, predictor.channels))
    images = images.to(predictor.metric.weight.device)
    dynamic = {0: "images", 1: "height", 2: "width"}
    network = predictor.network
    encoder = network.backbone if isinstance(network, ForOneTask) else None
    if isinstance(encoder, OnnxEncoder):
        return joined_model(predictor, encoder, images, INPUT, OUTPUTS, dynamic)
    return onnx_model(graph, images, INPUT, OUTPUTS, dynamic)


def session(file: Path, threads: int | None = None) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def save(model: Any, file: Path) -> None:
    """Writes a model of `onnx_model` into a single file."""
    import onnx_ir

    file.write_bytes(onnx_ir.to_proto(model).SerializeToString())


def _largest_difference(file: Path, graph: _Graph) -> float:
    try:
        runtime, largest = session(file), 0.0
    except Exception as error:  # onnxruntime has an exception for everything
        reason = " ".join(str(error).split())[:200]
        raise RunFailed(f"the file was not written: onnxruntime refuses it ({reason})") from None
    size, channels = graph.predictor.image_size, graph.predictor.channels
    for count, tall, wide in _TRIALS:
        sides = (max(1, int(tall * size)), max(1, int(wide * size)))
        images = random_images(count, *sides, channels)
        theirs = runtime.run(list(OUTPUTS), {INPUT: images})
        for one, other in zip(_answers(graph, images), theirs, strict=True):
            # A NaN on either side must not pass for agreement: max() would lose it.
            # A strangeness may be large, and is then compared by its own size.
            differences = np.abs(one - other) / np.maximum(1, np.abs(one))
            largest = float(np.maximum(largest, differences.max()))
    return largest


def _answers(graph: _Graph, images: Pixels) -> list[npt.NDArray[np.float32]]:
    """PyTorch's, by the operations that were exported: gradients keep the native core out."""
    device = graph.predictor.metric.weight.device
    with torch.enable_grad():
        return [y.detach().cpu().numpy() for y in graph(torch.from_numpy(images).to(device))]


def random_images(count: int, height: int, width: int, channels: int) -> Pixels:
    """Patches of colour under noise, so that images differ: (N, H, W, C)."""
    random = np.random.default_rng((count, height, width))
    patches = random.integers(0, 200, (count, 4, 4, channels))
    rows, columns = np.arange(height) * 4 // height, np.arange(width) * 4 // width
    noise = random.integers(0, 56, (count, height, width, channels))
    return (patches[:, rows][:, :, columns] + noise).astype(np.uint8)
