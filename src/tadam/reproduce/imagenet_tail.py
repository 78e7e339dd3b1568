"""The last layers of EfficientNet-Lite0 by themselves, on activations that are computed once.

The layers before them are frozen and do not depend on the task, so comparing and training take
minutes.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tadam.config import OptimiserConfig, ScheduleConfig
from tadam.data.episodes import Episode, EpisodeSampler
from tadam.data.store import ImageStore
from tadam.evaluation.answers import images_at
from tadam.methods.tadam import Tadam
from tadam.metric import ScaledMetric
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.efficientnet_lite0 import EfficientNetLite0
from tadam.nn.film import Film
from tadam.nn.preprocess import Preprocess
from tadam.nn.ten import TaskEmbeddingNetwork, initialise_ten
from tadam.system.files import write_with
from tadam.system.progress import Progress
from tadam.training.optimiser import clip_gradients, make_optimiser
from tadam.training.schedule import learning_rate_factor

#: Shots of the training tasks, alternating because one model serves both.
SHOTS = (1, 5)
_BATCH = 32  # images; more do not fit a core's cache
_OPTIMISER = OptimiserConfig(name="adamw", learning_rate=3e-4, clip="global")


class AsFloat(Preprocess):
    """Activations in half precision as float32."""

    def forward(self, images: Tensor) -> Tensor:
        """(N, 192, H, W)."""
        return images.float()


class Tail(Backbone):
    """The part that FiLM reaches; its inputs are the activations of the part before."""

    def __init__(self, whole: EfficientNetLite0) -> None:
        super().__init__()
        self.preprocess = AsFloat(whole.image_size, [0.0] * 3, [1.0] * 3)
        self.whole = whole
        self.feature_size, self.conditioned_widths = whole.feature_size, whole.conditioned_widths

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        """(T*N, 192, H, W) -> (T*N, D)."""
        return self.whole.embed_late(x, film)


@torch.no_grad()
def activations(
    backbone: EfficientNetLite0, store: ImageStore, file: Path, progress: Progress
) -> Tensor:
    """The tail's inputs for all images, (N, 192, H, W) in half precision, cached in a file."""
    count = len(store.images)
    if not file.exists():
        parts = []
        for start in range(0, count, _BATCH):
            rows = np.arange(start, min(start + _BATCH, count))
            x = backbone.embed_early(backbone.preprocess(images_at(store, rows)))
            parts.append(x.half().permute(0, 2, 3, 1).numpy())
            progress(int(rows[-1]) + 1, count)
        together = np.concatenate(parts)

        def save(path: Path) -> None:
            with open(path, "wb") as out:
                np.save(out, together)

        write_with(file, save)
    return torch.from_numpy(np.load(file)).permute(0, 3, 1, 2)


def at(x: Tensor, episode: Episode) -> tuple[Tensor, Tensor, Tensor]:
    """Support (T, N, ...), its labels (T, N) and queries (T, Q, ...) of an episode."""
    support, query = (torch.from_numpy(rows) for rows in (episode.support, episode.query))
    return x[support], torch.from_numpy(episode.support_labels), x[query]


def train_conditioning(
    tail: Tail,
    store: ImageStore,
    x: Tensor,
    steps: int,
    seed: int,
    progress: Progress,
) -> Tadam:
    """Trains a TEN and alpha on tasks of the training classes, with the network frozen.

    Args:
        tail: The layers to condition.
        store: The training images, of which only the classes are used.
        x: Their activations, (N, 192, H, W).
        steps: Training steps, of 2 tasks each.
        seed: Seed of the weights and the tasks.
        progress: Called with (steps done, total steps).
    """
    widths = tail.conditioned_widths
    ten = TaskEmbeddingNetwork(tail.feature_size, widths, range(len(widths)))
    initialise_ten(ten, torch.Generator().manual_seed(seed))
    model = Tadam(tail, ScaledMetric("cosine", 10.0, learn_alpha=True), ten, "mean", 0)
    optimiser = make_optimiser(model, lambda name: True, _OPTIMISER)
    samplers = [EpisodeSampler(store, 5, shot, 40, seed) for shot in SHOTS]
    schedule = ScheduleConfig(episodes=steps, kind="cosine")
    for t in range(steps):
        episode = samplers[t % len(SHOTS)].batch(2 * t, 2)
        logits = model(*at(x, episode), 5)
        targets = torch.from_numpy(episode.query_labels)
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        clip_gradients(model.parameters(), _OPTIMISER)
        for group in optimiser.param_groups:
            group["lr"] = _OPTIMISER.learning_rate * learning_rate_factor(t, schedule)
        optimiser.step()
        progress(t + 1, steps)
    return model.eval()
