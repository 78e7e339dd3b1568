"""How the shipped model `imagenet` was chosen: prototypes on frozen features, scaled, conditioned.

    python -m tadam.reproduce.imagenet runs/imagenet

runs EfficientNet-Lite0 over FC100 once, trains task conditioning on its training classes, and
measures every variant on the validation and the test classes. imagenet.safetensors gets the centred
features, conditioned if that helps on validation; comparison.json holds the numbers, and
docs/imagenet.md explains them.
"""

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.table import Table
from torch import Tensor

from tadam.config import Config, DataConfig
from tadam.data.catalogue import load_splits
from tadam.data.episodes import Episode, EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.scores import calibration_error, mean_and_interval
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.metric import DISTANCES, ScaledMetric, prototypes
from tadam.models.modelfile import ModelInfo, save_model
from tadam.nn.backbones.efficientnet_lite0 import EfficientNetLite0
from tadam.nn.ten import TaskEmbeddingNetwork
from tadam.reports.terminal import out, percent, progress_bar
from tadam.reproduce.imagenet_tail import SHOTS, Tail, activations, at, train_conditioning
from tadam.system.files import write_text

#: Seeds of the tasks: those of validation differ from those of test and training.
SEEDS = {"val": 1_000_003, "test": 0}
_WAY, _QUERIES, _AT_ONCE = 5, 100, 4
_ALPHAS = np.geomspace(1e-4, 1e3, 141)  # 20 per factor of ten
#: Conditioning costs `fit` a second pass and the file megabytes; it must gain this much accuracy.
_WORTHWHILE = 0.005


@dataclass(frozen=True)
class Score:
    """A variant's results on the tasks of one split and shot; accuracies are fractions."""

    accuracy: float
    ci95: float | None
    log_loss: float
    calibration_error: float
    log_loss_unscaled: float
    calibration_error_unscaled: float


@dataclass(frozen=True)
class Variant:
    """A way to turn activations into distances, and its results.

    Attributes:
        name: What sets it apart.
        features: Length of an embedding.
        distance: A key of `DISTANCES`.
        alpha: The best scale on the validation tasks.
        val: Score by shot.
        test: Score by shot.
    """

    name: str
    features: int
    distance: str
    alpha: float
    val: dict[int, Score]
    test: dict[int, Score]

    @property
    def merit(self) -> float:
        """What decides the choice: validation accuracy, averaged over one and five shots."""
        return float(np.mean([self.val[shot].accuracy for shot in SHOTS]))


@torch.no_grad()
def features(tail: Tail, x: Tensor) -> Tensor:
    """Unconditioned embeddings of activations, (N, D)."""
    return torch.cat([tail.embed(tail.preprocess(some)) for some in x.split(256)])


@torch.no_grad()
def distances(
    episode: Episode, x: Tensor, distance: str, model: Tadam | None = None
) -> npt.NDArray[np.float32]:
    """Distances from queries to prototypes, (T, Q, K).

    Args:
        episode: The tasks.
        x: Embeddings (N, D), or activations (N, 192, H, W) if there is a model.
        distance: A key of `DISTANCES`.
        model: A conditioned tail with the same distance.
    """
    parts = []
    for start in range(0, len(episode.support), _AT_ONCE):
        some = Episode(*(rows[start : start + _AT_ONCE] for rows in vars(episode).values()))
        support, labels, query = at(x, some)
        if model is None:
            parts.append(DISTANCES[distance](query, prototypes(support, labels, _WAY)))
        else:
            parts.append(-model(support, labels, query, _WAY) / model.metric.alpha)
    return torch.cat(parts).numpy()


def log_loss(d: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], alpha: float) -> float:
    """Mean of `-log softmax(-alpha d)` at the true class."""
    logits = torch.from_numpy(-alpha * d.astype(np.float64))
    of_truth = logits.log_softmax(dim=2).gather(2, torch.from_numpy(labels)[:, :, None])
    return -float(of_truth.mean())


def score(d: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], alpha: float) -> Score:
    """Scores distances (T, Q, K), both scaled by alpha and as they are."""

    def probabilities(scale: float) -> npt.NDArray[np.float32]:
        return torch.from_numpy(-scale * d).softmax(dim=2).numpy()

    accuracy, ci95 = mean_and_interval((d.argmin(axis=2) == labels).mean(axis=1))
    return Score(
        accuracy,
        ci95,
        log_loss(d, labels, alpha),
        calibration_error(probabilities(alpha), labels),
        log_loss(d, labels, 1.0),
        calibration_error(probabilities(1.0), labels),
    )


class Comparison:
    """Measures variants on the same tasks.

    Args:
        stores: FC100's splits.
        x: Activations of the validation and the test split.
        tasks: Tasks per split and shot.
    """

    def __init__(self, stores: dict[str, ImageStore], x: dict[str, Tensor], tasks: int) -> None:
        self._x = x
        self._episodes = {
            (split, shot): EpisodeSampler(stores[split], _WAY, shot, _QUERIES, seed).batch(0, tasks)
            for split, seed in SEEDS.items()
            for shot in (*SHOTS, 10)
        }

    def measure_plain(self, name: str, tail: Tail, names: Iterable[str]) -> list[Variant]:
        """Measures prototypes of unconditioned embeddings with each of these distances."""
        z = {split: features(tail, x) for split, x in self._x.items()}
        return [self._measure(name, z, distance) for distance in names]

    def measure_conditioned(self, name: str, model: Tadam) -> Variant:
        """Measures a model with a TEN on the tail and the cosine distance."""
        return self._measure(name, self._x, "cosine", model)

    def _measure(
        self, name: str, inputs: dict[str, Tensor], distance: str, model: Tadam | None = None
    ) -> Variant:
        """A variant's scores; alpha is the one with the lowest log loss on the validation tasks."""
        d = {
            (split, shot): distances(episode, inputs[split], distance, model)
            for (split, shot), episode in self._episodes.items()
            if model is None or shot in SHOTS  # conditioning embeds all images again for each task
        }
        labels = {key: episode.query_labels for key, episode in self._episodes.items()}

        def loss(alpha: float) -> float:
            return sum(log_loss(d["val", shot], labels["val", shot], alpha) for shot in SHOTS)

        alpha = float(min(_ALPHAS, key=loss))
        scores = {key: score(d[key], labels[key], alpha) for key in d}
        split = {part: {shot: s for (p, shot), s in scores.items() if p == part} for part in SEEDS}
        size = model.backbone.feature_size if model else inputs["val"].shape[1]
        return Variant(name, size, distance, alpha, split["val"], split["test"])


def compare(folder: Path, image_size: int, tasks: int, steps: int, seed: int) -> list[Variant]:
    """Measures all variants; saves the numbers and the model chosen on validation.

    Args:
        folder: Receives comparison.json, imagenet.safetensors and the activations.
        image_size: Side in pixels that FC100's images are enlarged to.
        tasks: Tasks per split and shot.
        steps: Training steps of the conditioning; 0 skips it.
        seed: Seed of that training.
    """
    started = time.monotonic()
    stores = load_splits(DataConfig("fc100"))
    whole, headed = EfficientNetLite0(image_size), EfficientNetLite0(image_size, head=True)
    whole.load_pretrained()
    headed.load_pretrained()
    x = {}
    for split, store in stores.items():
        with progress_bar(f"embedding {split}") as progress:
            x[split] = activations(whole, store, folder / f"{split}-{image_size}.npy", progress)
    comparison = Comparison(stores, {split: x[split] for split in SEEDS}, tasks)
    tail = Tail(whole)
    variants = [
        *comparison.measure_plain("after the head", Tail(headed), DISTANCES),
        *comparison.measure_plain("before the head", tail, DISTANCES),
    ]
    whole.feature_mean.copy_(features(tail, x["train"]).mean(dim=0))
    variants += comparison.measure_plain("centred", tail, ["cosine"])
    best, ten = variants[-1], None
    if steps:
        with progress_bar("training the conditioning") as progress:
            model = train_conditioning(tail, stores["train"], x["train"], steps, seed, progress)
        variants.append(comparison.measure_conditioned("centred, conditioned", model))
        if variants[-1].merit > best.merit + _WORTHWHILE:
            best, ten = variants[-1], model.ten
    _save(folder / "imagenet.safetensors", whole, ten, best, steps)
    content = {
        "image_size": image_size,
        "tasks": tasks,
        "steps": steps,
        "seed": seed,
        "minutes": (time.monotonic() - started) / 60,
        "best": best.name,
        "variants": [asdict(variant) for variant in variants],
    }
    write_text(folder / "comparison.json", json.dumps(content, indent=1) + "\n")
    return variants


def _save(
    file: Path,
    whole: EfficientNetLite0,
    ten: TaskEmbeddingNetwork | None,
    best: Variant,
    steps: int,
) -> None:
    config = Config().updated(
        {
            "backbone": {"name": "efficientnet_lite0"},
            "metric": {"distance": best.distance, "alpha": best.alpha},
            "conditioning": {"enabled": ten is not None},
            "auxiliary": {"enabled": False},
        }
    )
    spec = InputSpec(channels=3, image_size=whole.image_size, auxiliary_classes=0)
    metric = ScaledMetric(best.distance, best.alpha)
    model = Tadam(whole, metric, ten, config.conditioning.representation, 0)
    score = best.val[5]
    validation = {"accuracy": score.accuracy, "ci95": score.ci95 or 0.0}
    save_model(file, model, ModelInfo(config, spec, steps if ten else 0, validation))


def _print(variants: list[Variant]) -> None:
    table = Table(
        "variant", "D", "distance", "alpha", *(f"{p} {k}-shot" for p in SEEDS for k in SHOTS)
    )
    for v in variants:
        scores = [
            percent(scores[k].accuracy, scores[k].ci95) for scores in (v.val, v.test) for k in SHOTS
        ]
        table.add_row(v.name, str(v.features), v.distance, f"{v.alpha:.3g}", *scores)
    out.print(table)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tadam.reproduce.imagenet")
    parser.add_argument("out", type=Path)
    parser.add_argument("--image-size", type=int, default=128)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    _print(compare(options.out, options.image_size, options.tasks, options.steps, options.seed))


if __name__ == "__main__":
    main()
