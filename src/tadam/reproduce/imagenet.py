"""How the shipped models `imagenet` and `imagenet-large` were chosen: accuracy against time.

    python -m tadam.reproduce.imagenet PHOTOS runs/imagenet

PHOTOS holds folders of labelled photos, each with a sub-folder for every class. Each variant of the
frozen networks (input size, features before or after the head, what part of a photo is seen,
mirrored or not) embeds all photos once. Then the same tasks are answered from its embeddings.
comparison.json gets the numbers, which docs/explain/imagenet.md explains, and beside it are written
the two models that are shipped: a scale and the names of their networks, no weights.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor

from tadam.config import Config
from tadam.data.decode import Pixels, decode_upright
from tadam.data.folder import class_files
from tadam.evaluation.scores import mean_and_interval
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.metric import ScaledMetric
from tadam.models.modelfile import ModelInfo, save_model
from tadam.nn.backbones.efficientnet_lite import (
    EfficientNetLite,
    EfficientNetLite0,
    EfficientNetLite2,
)
from tadam.nn.one_by_one import runner
from tadam.registry import BACKBONES
from tadam.reports.terminal import out, percent, progress_bar
from tadam.reproduce.rivals import Labels
from tadam.system.files import write_text

_SHOTS = (1, 5)
_QUERIES = 10  # of each class
_MOST_CLASSES = 20
#: Of scikit-learn's logistic regression; a good value for features of unit length.
_INVERSE_PENALTY = 10.0

_Vectors = npt.NDArray[np.float32]
#: The models that are shipped. `fit` adapts alpha; this one is for tasks of one or five shots.
SHIPPED = {"imagenet": "efficientnet_lite0", "imagenet-large": "efficientnet_lite2"}
_ALPHA = 11.0
#: Shots -> accuracy and its interval.
Accuracies = dict[int, tuple[float, float | None]]


@dataclass(frozen=True)
class Look:
    """A way to look at a photo.

    Attributes:
        network: The frozen network.
        size: Side of its input in pixels.
        framing: `crop` the middle square, `squeeze` the whole photo into it, or `pad` it with grey.
    """

    network: type[EfficientNetLite]
    size: int
    framing: str = "crop"


#: All input sizes with the middle square, all framings at the size of the training.
LOOKS = (
    *(Look(EfficientNetLite0, size) for size in (128, 160, 192, 224, 256, 288)),
    *(Look(EfficientNetLite0, 224, framing) for framing in ("squeeze", "pad")),
    *(Look(EfficientNetLite2, size) for size in (224, 260, 288)),
    *(Look(EfficientNetLite2, 260, framing) for framing in ("squeeze", "pad")),
)


@dataclass(frozen=True)
class Measured:
    """A variant and its results; accuracies are fractions.

    Attributes:
        network: The network.
        size: Input size in pixels.
        framing: See `Look`.
        features: `before` or `after` the head.
        mirrored: Whether an embedding is the mean of a photo's and its mirror image's.
        milliseconds: Time of one core for one photo, network only, as `fit` runs it.
        prototypes: Photos -> accuracies of the nearest prototype.
        regression: The same for logistic regression.
    """

    network: str
    size: int
    framing: str
    features: str
    mirrored: bool
    milliseconds: float
    prototypes: dict[str, Accuracies]
    regression: dict[str, Accuracies]


def framed(pixels: Pixels, size: int, framing: str) -> Tensor:
    """A photo as the network takes it, (3, size, size) on the 0-255 scale."""
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
    height, width = image.shape[-2:]
    side = min(height, width)
    if framing == "crop":
        top, left = (height - side) // 2, (width - side) // 2
        image = image[..., top : top + side, left : left + side]
    target = [size, size]
    if framing == "pad":
        longest = max(height, width)
        target = [max(1, round(v * size / longest)) for v in (height, width)]
    image = F.interpolate(image, target, mode="bilinear", antialias=True, align_corners=False)
    down, right = size - target[0], size - target[1]
    around = (right // 2, right - right // 2, down // 2, down - down // 2)
    return F.pad(image, around, value=127.0)[0]


@torch.no_grad()
def embedded(
    look: Look, files: list[Path], title: str
) -> tuple[dict[tuple[str, bool], _Vectors], float]:
    """Embeddings of all photos and the time of one pass.

    Returns:
        (features, mirrored) -> (N, D), and CPU milliseconds for the photo that was disturbed least.
    """
    network = look.network(look.size)
    network.load_pretrained()
    run = runner(network.eval()) or network
    below: list[Tensor] = []
    assert network.head is not None
    network.head.register_forward_pre_hook(lambda _, inputs: below.append(inputs[0].mean((2, 3))))
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    fastest = math.inf
    with progress_bar(title) as progress:
        for start in range(0, len(files), 8):
            pixels = [decode_upright(file, look.size) for file in files[start : start + 8]]
            x = torch.stack([framed(p, look.size, look.framing) for p in pixels])
            x = network.preprocess(x)
            before = time.process_time()
            run(x[:1])
            fastest = min(fastest, time.process_time() - before)
            z, other = network(x), network(x.flip(-1))
            low, low_other = below
            below.clear()
            parts.append((low, (low + low_other) / 2, z, (z + other) / 2))
            progress(min(start + 8, len(files)), len(files))
    found = [torch.cat(some).numpy() for some in zip(*parts, strict=True)]
    keys = [("before", False), ("before", True), ("after", False), ("after", True)]
    return dict(zip(keys, found, strict=True)), 1000 * fastest


def tasks(labels: Labels, shot: int, count: int, seed: int) -> Iterator[tuple[Labels, Labels]]:
    """Rows of the support set and of the queries, (K, shot) and (K, queries), of each task."""
    by_class = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
    by_class = [rows for rows in by_class if len(rows) > shot]
    way = min(_MOST_CLASSES, len(by_class))
    most = min(_QUERIES, min(map(len, by_class)) - shot)
    for t in range(count):
        random = np.random.default_rng((seed, shot, t))
        chosen = random.choice(len(by_class), way, replace=False)
        rows = np.stack([random.permutation(by_class[k])[: shot + most] for k in chosen])
        yield rows[:, :shot], rows[:, shot:]


def prepared(support: _Vectors, query: _Vectors) -> tuple[_Vectors, _Vectors]:
    """Features of unit length, centred on the support set's mean, and of unit length again."""
    support, query = _unit(support), _unit(query)
    centre = support.mean(axis=(0, 1))
    return _unit(support - centre), _unit(query - centre)


def _unit(z: _Vectors) -> _Vectors:
    return z / np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), 1e-12)  # type: ignore[no-any-return]


def prototype_accuracy(support: _Vectors, query: _Vectors) -> float:
    """Of the nearest prototype by cosine; (K, shot, D) and (K, Q, D), both of `prepared`."""
    c = _unit(support.mean(axis=1))
    answers = (query @ c.T).argmax(axis=2)  # (K, Q)
    return float((answers == np.arange(len(support))[:, None]).mean())


def regression_accuracy(support: _Vectors, query: _Vectors) -> float:
    """Of scikit-learn's logistic regression on the same arrays."""
    from sklearn.linear_model import LogisticRegression

    way, shot, size = support.shape
    model = LogisticRegression(C=_INVERSE_PENALTY, max_iter=200)
    model.fit(support.reshape(-1, size), np.repeat(np.arange(way), shot))
    answers = model.predict(query.reshape(-1, size)).reshape(way, -1)
    return float((answers == np.arange(way)[:, None]).mean())


def compare(photos: Path, folder: Path, count: int, seed: int) -> list[Measured]:
    """Measures all variants and writes comparison.json.

    Args:
        photos: Folders of labelled photos.
        folder: Receives comparison.json.
        count: Tasks for each number of shots; logistic regression answers a quarter of them.
        seed: Seed of the tasks.
    """
    sets = {sub.name: class_files(sub) for sub in sorted(photos.iterdir()) if sub.is_dir()}
    rows: list[Measured] = []
    for look in LOOKS:
        rows += _measured(look, sets, count, seed)
        content = {"tasks": count, "seed": seed, "rows": [asdict(row) for row in rows]}
        write_text(folder / "comparison.json", json.dumps(content, indent=1) + "\n")
    return rows


def _measured(
    look: Look, sets: dict[str, dict[str, list[Path]]], count: int, seed: int
) -> list[Measured]:
    """One look at all photos: a row for each kind of features."""
    rows: dict[tuple[str, bool], Measured] = {}
    title = look.network.title
    for name, classes in sets.items():
        files = [file for some in classes.values() for file in some]
        labels = np.repeat(np.arange(len(classes)), [len(some) for some in classes.values()])
        found, once = embedded(look, files, f"{title} {look.size} {look.framing}: {name}")
        for (features, mirrored), z in found.items():
            taken = once * (1 + mirrored)
            new = Measured(title, look.size, look.framing, features, mirrored, taken, {}, {})
            row = rows.setdefault((features, mirrored), new)
            row.prototypes[name], row.regression[name] = _accuracies(z, labels, count, seed)
    return list(rows.values())


def _accuracies(
    z: _Vectors, labels: Labels, count: int, seed: int
) -> tuple[Accuracies, Accuracies]:
    nearest, regression = {}, {}
    for shot in _SHOTS:
        drawn = [prepared(z[s], z[q]) for s, q in tasks(labels, shot, count, seed)]
        nearest[shot] = mean_and_interval(np.array([prototype_accuracy(*some) for some in drawn]))
        few = drawn[: max(1, count // 4)]
        regression[shot] = mean_and_interval(np.array([regression_accuracy(*some) for some in few]))
    return nearest, regression


def write_models(folder: Path) -> None:
    """Writes the model files of `SHIPPED`."""
    for name, network in SHIPPED.items():
        backbone = BACKBONES.find(network)()
        config = Config().updated(
            {
                "backbone": {"name": network},
                "metric": {"distance": "cosine", "alpha": _ALPHA},
                "conditioning": {"enabled": False},
                "auxiliary": {"enabled": False},
            }
        )
        spec = InputSpec(channels=3, image_size=backbone.image_size, auxiliary_classes=0)
        model = Tadam(backbone, ScaledMetric("cosine", _ALPHA), None, "mean", 0)
        save_model(folder / f"{name}.safetensors", model, ModelInfo(config, spec))


def _print(rows: list[Measured]) -> None:
    sets = list(rows[0].prototypes)
    columns = [f"{name} {shot}-shot" for name in sets for shot in _SHOTS]
    table = Table("network", "pixels", "framing", "features", "mirrored", "ms", *columns)
    for row in rows:
        table.add_row(
            row.network,
            str(row.size),
            row.framing,
            row.features,
            "yes" if row.mirrored else "no",
            f"{row.milliseconds:.1f}",
            *(percent(*row.prototypes[name][shot]) for name in sets for shot in _SHOTS),
        )
    out.print(table)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tadam.reproduce.imagenet")
    parser.add_argument("photos", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    write_models(options.out)
    _print(compare(options.photos, options.out, options.tasks, options.seed))


if __name__ == "__main__":
    main()
