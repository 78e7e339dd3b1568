"""Photos from JPEG files to CSV: ours against a loop that one would write in onnxruntime.

Both run the same network, EfficientNet-Lite0 at 224 pixels with random weights, on the same files
with the same number of threads. Reading alone shows what decoding costs, and a second process that
keeps a core busy shows what a neighbour does to us.
"""

import csv
import io
import multiprocessing
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from tadam.benchmarks.results import TIMES, Measurement
from tadam.benchmarks.targets import PHOTOS_BUSY, PHOTOS_LOOP, PHOTOS_READING
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.classify.adaptive_metric import POWER
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.inference import reader_of
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0, FrozenConv
from tadam.nn.one_by_one import has_onnxruntime

_CLASSES, _SHOTS = 10, 2
_PHOTOS, _SIDES = 96, (1024, 768)
#: Images per call in the loop; more gained nothing.
_LOOP_BATCH = 16


def write_photos(folder: Path, count: int = _PHOTOS) -> None:
    """JPEGs with large and small shapes, compressed as a camera would."""
    for i in range(count):
        random = np.random.default_rng(i)
        pixels = np.zeros((_SIDES[1], _SIDES[0], 3), np.float32)
        for cells, weight in ((4, 90), (16, 60), (64, 30), (256, 15)):
            rough = random.integers(0, 256, (cells * 3 // 4, cells, 3), dtype=np.uint8)
            smooth = Image.fromarray(rough).resize(_SIDES, Image.Resampling.BICUBIC)
            pixels += np.asarray(smooth, np.float32) * (weight / 195)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i:03}.jpg", quality=90)


@cache
def _network() -> EfficientNetLite0:
    network = EfficientNetLite0()
    generator = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, FrozenConv):
            spread = (2 / layer.weight[0].numel()) ** 0.5
            layer.weight.normal_(0, spread, generator=generator)
            layer.bias.zero_()
    return network.eval()


@cache
def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jpg"))


@cache
def _fitted(folder: Path) -> FewShotClassifier:
    labels = [f"class {i % _CLASSES}" for i in range(_CLASSES * _SHOTS)]
    classifier = FewShotClassifier(_network(), device="cpu")
    return classifier.fit(_files(folder)[: len(labels)], labels)


def _as_csv(names: list[str], probabilities: npt.NDArray[np.float32]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    for name, row in zip(names, probabilities, strict=True):
        writer.writerow([name, int(row.argmax()), *(f"{p:.6g}" for p in row)])
    return text.getvalue()


def ours(folder: Path) -> str:
    """What our classifier says, as CSV; like those below, runs in a worker."""
    found = _fitted(folder).classify(_files(folder))
    return _as_csv([str(p.path) for p in found], np.stack([p.probabilities for p in found]))


def read_only(folder: Path) -> int:
    """Reads and prepares all photos, nothing more."""
    reader = reader_of(_fitted(folder).predictor_.preprocess)
    return sum(len(batch.rows) for batch in reader.batches(_files(folder)))


@cache
def _runtime(folder: Path, threads: int) -> tuple[object, dict[str, npt.NDArray[np.float32]]]:
    import onnxruntime

    from tadam.nn.onnx_graph import efficientnet_graph

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    content = efficientnet_graph(_network()).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    metric = _fitted(folder).predictor_.metric
    return session, {name: tensor.numpy() for name, tensor in metric.state_dict().items()}


def loop(folder: Path, threads: int) -> str:
    """The loop: open, crop, scale, normalise, a batch at a time; then the metric."""
    session, metric = _runtime(folder, threads)
    files, size, parts = _files(folder), _network().image_size, []
    for start in range(0, len(files), _LOOP_BATCH):
        batch = []
        for file in files[start : start + _LOOP_BATCH]:
            opened = Image.open(file)
            opened.draft("RGB", (2 * size, 2 * size))
            image = opened.convert("RGB")
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            middle = image.crop((left, top, left + side, top + side))
            scaled = middle.resize((size, size), Image.Resampling.BILINEAR)
            batch.append((np.asarray(scaled, np.float32) - 127) / 128)
        x = np.ascontiguousarray(np.stack(batch).transpose(0, 3, 1, 2))
        z = session.run(None, {"images": x})[0]  # type: ignore[attr-defined]
        y = np.maximum(z, 0) ** POWER - metric["centre"]
        y = y / np.linalg.norm(y, axis=1, keepdims=True) - metric["shift"]
        logits = metric["alpha"] * (y @ metric["weight"].T + metric["bias"])
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        parts.append(e / e.sum(axis=1, keepdims=True))
    return _as_csv([str(file) for file in files], np.concatenate(parts))


def our_seconds(folder: Path, seconds: float) -> float:
    """Our time for all photos."""
    return shortest(lambda t: ours(folder), seconds)


def reading_seconds(folder: Path, seconds: float) -> float:
    """The time to read them."""
    return shortest(lambda t: read_only(folder), seconds)


def loop_seconds(folder: Path, threads: int, seconds: float) -> float:
    """The loop's time."""
    return shortest(lambda t: loop(folder, threads), seconds)


def _spin() -> None:
    while True:
        pass


@contextmanager
def _busy_neighbour() -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def measure(threads: int, rounds: int, seconds: float, photos: int = _PHOTOS) -> list[Measurement]:
    """Times all of them in turn, and ours once more beside a busy process.

    Args:
        threads: Threads of each process.
        rounds: Number of turns.
        seconds: Length of a turn.
        photos: How many JPEG files.
    """
    if not has_onnxruntime():
        note = "not run: pip install 'tadam-fewshot[imagenet]'"
        return [Measurement("photos", PHOTOS_LOOP, "", None, TIMES, note=note)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_photos(folder, photos)
        workers = [stack.enter_context(Worker(threads)) for _ in range(3)]
        times = in_turn(
            {
                "ours": partial(workers[0], our_seconds, folder),
                "loop": partial(workers[1], loop_seconds, folder, threads),
                "reading": partial(workers[2], reading_seconds, folder),
            },
            rounds,
            seconds,
        )
        with _busy_neighbour():
            beside = in_turn({"ours": partial(workers[0], our_seconds, folder)}, rounds, seconds)
    rates = {f"{name}_photos_per_second": photos / min(t) for name, t in times.items()}
    note = f"{photos} JPEG files of {_SIDES[0]} x {_SIDES[1]} to CSV, {threads} threads"
    raw = {**rates, "seconds": times, "seconds_beside": beside["ours"]}
    first = times["ours"]
    values = {
        PHOTOS_LOOP: speedup(first, times["loop"]),
        PHOTOS_READING: speedup(times["reading"], first),
        PHOTOS_BUSY: speedup(beside["ours"], first),
    }
    return [
        Measurement("photos", name, "", value, TIMES, note=note, raw=raw)
        for name, value in values.items()
    ]
