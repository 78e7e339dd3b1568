"""Embedding images with a folded network: ours against onnxruntime."""

import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tadam.benchmarks.network import NETWORK_BATCH, network, random_images
from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import INFERENCE
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.classify.export import installed, save, session
from tadam.classify.onnx_export import onnx_model
from tadam.errors import RunFailed
from tadam.system.allocator import keep_large_blocks

#: Largest allowed difference, relative to the largest feature; Winograd rounds differently.
_TOLERANCE = 1e-3

Features = npt.NDArray[np.float32]


@cache
def _folded(width: int) -> nn.Module:
    """The benchmark network, folded, with statistics and scales as training might leave them."""
    keep_large_blocks()
    net = network(width).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
            for vector in (norm.running_var, norm.weight):
                vector.uniform_(0.5, 1.5, generator=generator)  # type: ignore[union-attr]
            for vector in (norm.running_mean, norm.bias):
                vector.normal_(0, 0.1, generator=generator)  # type: ignore[union-attr]
    return net.folded()


@torch.inference_mode()
def our_seconds(width: int, image_size: int, seconds: float) -> float:
    """Our time for a batch of images; runs in a worker."""
    net, images = _folded(width), random_images(image_size)
    return shortest(lambda t: net(images), seconds)


@torch.inference_mode()
def our_features(width: int, image_size: int) -> Features:
    """Our features, (N, D); runs in a worker."""
    features: Features = _folded(width)(random_images(image_size)).numpy()
    return features


def export(width: int, image_size: int, file: Path) -> None:
    """Writes the folded network as ONNX, with a variable batch size."""
    example = random_images(image_size, count=2)
    save(onnx_model(_folded(width), example, "images", ["features"], {0: "count"}), file)


_session = cache(session)


def _onnx_run(file: Path, threads: int, image_size: int) -> partial[list[Features]]:
    session = _session(file, threads)
    images = random_images(image_size).contiguous().numpy()
    return partial(session.run, None, {session.get_inputs()[0].name: images})


def onnx_seconds(file: Path, threads: int, image_size: int, seconds: float) -> float:
    """onnxruntime's time for the same batch; runs in a worker."""
    run = _onnx_run(file, threads, image_size)
    return shortest(lambda t: run(), seconds)


def onnx_features(file: Path, threads: int, image_size: int) -> Features:
    """onnxruntime's features, (N, D); runs in a worker."""
    return _onnx_run(file, threads, image_size)()[0]


def against_onnxruntime(
    width: int, image_size: int, threads: int, rounds: int, seconds: float
) -> Measurement:
    """Times both in turn, after checking that they give the same features."""
    where = f"width {width}"
    if not installed():
        note = "not run: pip install 'tadam-fewshot[export]'"
        return Measurement("inference", INFERENCE, where, None, TIMES, note=note)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.onnx"
        with Worker(threads) as exporter:
            exporter(export, width, image_size, file)
        with Worker(threads) as ours, Worker(threads) as theirs:
            features = theirs(onnx_features, file, threads, image_size)
            difference = np.abs(ours(our_features, width, image_size) - features).max()
            if not difference <= _TOLERANCE * np.abs(features).max():
                raise RunFailed(f"onnxruntime's features differ from ours by {difference:.2g}")
            times = in_turn(
                {
                    "ours": partial(ours, our_seconds, width, image_size),
                    "onnxruntime": partial(theirs, onnx_seconds, file, threads, image_size),
                },
                rounds,
                seconds,
            )
    raw = {f"{name}_images_per_second": NETWORK_BATCH / min(t) for name, t in times.items()}
    value = speedup(times["ours"], times["onnxruntime"])
    return Measurement("inference", INFERENCE, where, value, TIMES, raw={**raw, "seconds": times})
