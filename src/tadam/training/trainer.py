"""One training step: the updates that the method asks for, each with its own optimiser."""

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tadam.config import Config
from tadam.data.augment import augment
from tadam.data.episodes import (
    AUGMENT_AUXILIARY,
    AUGMENT_TASKS,
    EpisodeSampler,
    Indices,
    auxiliary_batch,
    bits,
)
from tadam.data.store import ImageStore
from tadam.distributed.ranks import ALONE, Logits, Ranks, without_averaging
from tadam.methods.base import Method, Update
from tadam.nn.fast import constant_weights
from tadam.system.device import images_fit, to_device
from tadam.system.memory import require_memory
from tadam.training.optimiser import clip_gradients, make_optimiser, take_step
from tadam.training.pieces import Piece, Pieces
from tadam.training.schedule import learning_rate_factor

#: What is kept of each task while a step plans its work.
_PIECE_BYTES = 200
#: Inputs of a forward pass, and the true class of each image that it classifies.
Batch = tuple[tuple[Any, ...], Indices]


@dataclass(frozen=True)
class StepResult:
    """The outcome of a step.

    Attributes:
        numbers: `loss` and `accuracy` of the method's own update, and of others prefixed with
            their names. They are tensors because reading one waits for the device; the log does
            that.
        images: How many images passed through the network, counting the support set once.
    """

    numbers: dict[str, Tensor]
    images: int


def _require_room(config: Config, model: Method, store: ImageStore, ranks: Ranks) -> None:
    """Refuses batches whose images alone, as bytes and floats, do not fit into memory."""
    episode = config.episode
    by_task = config.backbone.statistics == "task"
    together = 1 if by_task else -(-episode.tasks // ranks.size)  # tasks in a forward pass
    images = together * (episode.way * episode.shot + episode.queries)
    pixels = 5 * store.channels * store.image_size**2
    require_memory(
        images * pixels + _PIECE_BYTES * episode.tasks,
        f"{episode.tasks:,} tasks of {episode.way} x {episode.shot} + {episode.queries} images",
        "lower episode.tasks, episode.queries or data.image_size",
    )
    for update in model.updates(config):
        require_memory(
            update.images * pixels // ranks.size,
            f"{update.name} batches of {update.images:,} images",
            f"lower {update.name}.batch_size",
        )


class Trainer:
    """Holds a model and its optimisers; step t depends only on their state and t.

    Args:
        config: The recipe.
        model: Trained in place.
        store: Training images.
        device: Where to train.
        ranks: The processes that share each step; call `connect` before the first.
    """

    def __init__(
        self,
        config: Config,
        model: Method,
        store: ImageStore,
        device: torch.device,
        ranks: Ranks = ALONE,
    ) -> None:
        episode = config.episode
        _require_room(config, model, store, ranks)
        self.config, self.store, self.device, self.ranks = config, store, device, ranks
        self.model = model.to(device).train()
        self.updates = self.model.updates(config)
        names = [update.name for update in self.updates]
        if len(set(names)) < len(names):
            raise ValueError(f"updates must have different names, got {', '.join(names)}")
        self._parameters = list(self.model.parameters())  # walking the modules takes a millisecond
        self._pieces = Pieces(config, self.updates, self.model.statistics(), ranks)
        self._logits: dict[str, Logits] = {update.name: update.logits for update in self.updates}
        fits = images_fit(store.images.nbytes, device)
        self._device_images = torch.tensor(store.images).to(device) if fits else None
        self.sampler = EpisodeSampler(
            store,
            episode.way,
            episode.shot,
            episode.queries,
            config.run.seed,
            episode.balanced_queries,
            source=f"the train split of {config.data.name}",
            within_family=episode.within_family,
        )
        # As in the authors' code, each update has its own optimiser state; the schedule is shared.
        self.optimisers = {
            update.name: make_optimiser(self.model, update.trains, config.optimiser)
            for update in self.updates
        }

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last step."""
        rate: float = self.optimisers[self.updates[-1].name].param_groups[0]["lr"]
        return rate

    def connect(self) -> None:
        """Connects to the other processes, which must do so too; all start from the same state."""
        self.ranks.connect(self.device)
        for update in self.updates:
            trained = [p for name, p in self.model.named_parameters() if update.trains(name)]
            self._logits[update.name] = self.ranks.network(trained, update.logits)

    def step(self, t: int, only: Collection[str] | None = None) -> StepResult:
        """Runs training step t: the updates that are due, or those named in `only`."""
        factor = learning_rate_factor(t, self.config.schedule)
        rate = self.config.optimiser.learning_rate * factor
        numbers: dict[str, Tensor] = {}
        images = 0
        for update in self.updates:
            if update.name in only if only is not None else update.is_due(t):
                prefix = "" if update is self.updates[-1] else f"{update.name}_"
                make = self._image_update if update.images else self._task_update
                loss, accuracy, count = make(update, t, rate)
                numbers |= {f"{prefix}loss": loss, f"{prefix}accuracy": accuracy}
                images += count
        self._pieces.average_statistics()
        return StepResult(numbers, images)

    def _image_update(self, update: Update, t: int, rate: float) -> tuple[Tensor, Tensor, int]:
        seed, size = self.config.run.seed, update.images
        rows, labels = auxiliary_batch(self.store, size, seed, t)

        def batch(piece: Piece) -> Batch:
            source = bits(seed, AUGMENT_AUXILIARY, t)
            images = self._images(rows[piece.items], source, piece.start, size)
            return (images,), labels[piece.items]

        return *self._update(update, batch, size, rate), size

    def _task_update(self, update: Update, t: int, rate: float) -> tuple[Tensor, Tensor, int]:
        tasks, way = self.config.episode.tasks, self.sampler.way
        shots = way * self.sampler.shot
        of_task = shots + self.sampler.queries

        def batch(piece: Piece) -> Batch:
            episode = self.sampler.batch(t * tasks + piece.start, piece.stop - piece.start)
            rows = np.concatenate([episode.support, episode.query], axis=1)  # (T, N + Q)
            source = bits(self.config.run.seed, AUGMENT_TASKS, t)
            images = self._images(rows.ravel(), source, piece.start * of_task, tasks * of_task)
            images = images.unflatten(0, rows.shape)
            labels = to_device(torch.from_numpy(episode.support_labels), self.device)
            inputs = (images[:, :shots], labels, images[:, shots:], way)
            return inputs, episode.query_labels.ravel()

        return *self._update(update, batch, tasks, rate), tasks * of_task

    def _images(self, rows: Indices, source: np.random.PCG64, first: int, total: int) -> Tensor:
        """Augmented images: numbers `first` and up of the `total` in a step."""
        if self._device_images is None:
            batch = to_device(torch.from_numpy(self.store.images[rows]), self.device)
        else:
            batch = self._device_images[to_device(torch.from_numpy(rows), self.device)]
        return augment(batch, self.config.augment, source, first, total)  # (N, C, H, W)

    def _update(
        self, update: Update, batch: Callable[[Piece], Batch], total: int, rate: float
    ) -> tuple[Tensor, Tensor]:
        """Makes one optimiser step; returns this process's part of the loss and the accuracy.

        Args:
            update: Which update to make.
            batch: Returns the inputs and targets of a piece.
            total: Number of items to split into pieces.
            rate: Learning rate.
        """
        network, smoothing = self._logits[update.name], self.config.optimiser.label_smoothing
        for parameter in self._parameters:
            parameter.grad = None
        losses, accuracies = [], []
        with constant_weights():
            for piece in self._pieces.of(total):
                inputs, labels = batch(piece)
                targets = to_device(torch.from_numpy(labels), self.device)
                with nullcontext() if piece.last else without_averaging(network):
                    logits = network(*inputs).flatten(0, -2)
                    loss = piece.weight * update.loss(logits, targets, smoothing)
                    loss.backward()
                losses.append(loss.detach())
                right = logits.detach().argmax(dim=1) == targets
                accuracies.append(piece.weight * right.float().mean())
        clip_gradients(self._parameters, self.config.optimiser)
        optimiser = self.optimisers[update.name]
        for group in optimiser.param_groups:
            group["lr"] = rate
        take_step(optimiser)
        return torch.stack(losses).sum(), torch.stack(accuracies).sum()
