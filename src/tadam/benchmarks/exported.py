"""An exported file against the network it came from: images per second of each, in turn."""

from dataclasses import dataclass
from pathlib import Path

import torch

from tadam.benchmarks.worker import in_turn, shortest
from tadam.classify.export import INPUT, random_images, session
from tadam.classify.predictor import Predictor

_BATCH = 32


@dataclass(frozen=True)
class Speeds:
    """Images per second of each, on the same images with the same number of threads.

    Attributes:
        ratio: Speed of onnxruntime relative to PyTorch.
        side: Side of the images in pixels, twice the network's input size.
    """

    pytorch: float
    onnxruntime: float
    ratio: float
    threads: int
    batch: int
    side: int


@torch.inference_mode()
def compare_speed(
    file: Path, predictor: Predictor, rounds: int = 3, seconds: float = 1.0
) -> Speeds:
    """Measures both from bytes to probabilities, preprocessing included.

    Args:
        file: The exported file.
        predictor: The predictor it was exported from.
        rounds: Turns for each.
        seconds: Length of a turn.
    """
    threads, side = torch.get_num_threads(), 2 * predictor.image_size
    runtime = session(file, threads)
    images = random_images(_BATCH, side, side, predictor.channels)
    tensor = torch.from_numpy(images)
    device = predictor.metric.weight.device
    times = in_turn(
        {
            "pytorch": lambda s: shortest(lambda t: predictor(tensor.to(device)).cpu(), s),
            "onnxruntime": lambda s: shortest(lambda t: runtime.run(None, {INPUT: images}), s),
        },
        rounds,
        seconds,
    )
    pytorch, onnxruntime = (_BATCH / min(times[name]) for name in ("pytorch", "onnxruntime"))
    return Speeds(pytorch, onnxruntime, onnxruntime / pytorch, threads, _BATCH, side)
