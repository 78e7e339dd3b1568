"""One training step of TADAM: an auxiliary update with probability p, then the few-shot update."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
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
from tadam.methods.tadam import Tadam
from tadam.nn.fast import constant_weights
from tadam.system.device import images_fit, to_device
from tadam.training.optimiser import clip_gradients, make_optimiser, take_step
from tadam.training.pieces import Piece, Pieces
from tadam.training.schedule import learning_rate_factor, makes_auxiliary_update

#: Inputs of a forward pass, and the class of each image that it answers for.
Batch = tuple[tuple[Any, ...], Indices]


@dataclass(frozen=True)
class StepResult:
    """Tensors, not numbers: reading one waits for the device, so that is left to the log."""

    loss: Tensor
    accuracy: Tensor
    auxiliary_loss: Tensor | None
    auxiliary_accuracy: Tensor | None
    images: int


class Trainer:
    """Holds a model and its two optimisers; step t depends on nothing but their state and t.

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
        model: Tadam,
        store: ImageStore,
        device: torch.device,
        ranks: Ranks = ALONE,
    ) -> None:
        episode = config.episode
        self.config, self.store, self.device, self.ranks = config, store, device, ranks
        self.model = model.to(device).train()
        self._parameters = list(self.model.parameters())  # to walk the modules takes a millisecond
        self._pieces = Pieces(config, model.backbone, ranks)
        self._few_shot_logits: Logits = model
        self._auxiliary_logits: Logits = model.auxiliary_logits
        fits = images_fit(store.images.nbytes, device)
        self._images_there = torch.tensor(store.images).to(device) if fits else None
        self.sampler = EpisodeSampler(
            store,
            episode.way,
            episode.shot,
            episode.queries,
            config.run.seed,
            episode.balanced_queries,
            source=f"the train split of {config.data.name}",
        )
        # The paper's original keeps two optimiser states on one learning rate schedule.
        self.few_shot = make_optimiser(
            model, lambda name: not name.startswith("auxiliary_head."), config.optimiser
        )
        self.auxiliary = make_optimiser(
            model, lambda name: name.startswith(("backbone.", "auxiliary_head.")), config.optimiser
        )

    def connect(self) -> None:
        """Joins the other processes, which must do the same; they start from the same state."""
        model, ranks = self.model, self.ranks
        ranks.connect(self.device)
        self._few_shot_logits = ranks.network((model.backbone, model.ten, model.metric), model)
        if model.auxiliary_head is not None:
            self._auxiliary_logits = ranks.network(
                (model.backbone, model.auxiliary_head), model.auxiliary_logits
            )

    def step(self, t: int) -> StepResult:
        """Runs training step t."""
        factor = learning_rate_factor(t, self.config.schedule)
        rate = self.config.optimiser.learning_rate * factor
        wanted = makes_auxiliary_update(t, self.config)
        auxiliary = self._auxiliary_update(t, rate) if wanted else None
        loss, accuracy, images = self._few_shot_update(t, rate)
        self._pieces.average_statistics()
        if auxiliary is None:
            return StepResult(loss, accuracy, None, None, images)
        batch = self.config.auxiliary.batch_size
        return StepResult(loss, accuracy, auxiliary[0], auxiliary[1], images + batch)

    def _auxiliary_update(self, t: int, rate: float) -> tuple[Tensor, Tensor]:
        seed, size = self.config.run.seed, self.config.auxiliary.batch_size
        rows, labels = auxiliary_batch(self.store, size, seed, t)

        def batch(piece: Piece) -> Batch:
            source = bits(seed, AUGMENT_AUXILIARY, t)
            images = self._images(rows[piece.items], source, piece.start, size)
            return (images,), labels[piece.items]

        return self._update(self.auxiliary, self._auxiliary_logits, batch, size, rate)

    def _few_shot_update(self, t: int, rate: float) -> tuple[Tensor, Tensor, int]:
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

        update = self._update(self.few_shot, self._few_shot_logits, batch, tasks, rate)
        return *update, tasks * of_task

    def _images(self, rows: Indices, source: np.random.PCG64, first: int, total: int) -> Tensor:
        """Augmented images, number `first` and following of the `total` of a step."""
        if self._images_there is None:
            batch = to_device(torch.from_numpy(self.store.images[rows]), self.device)
        else:
            batch = self._images_there[to_device(torch.from_numpy(rows), self.device)]
        return augment(batch, self.config.augment, source, first, total)  # (N, C, H, W)

    def _update(
        self,
        optimiser: torch.optim.Optimizer,
        network: Logits,
        batch: Callable[[Piece], Batch],
        total: int,
        rate: float,
    ) -> tuple[Tensor, Tensor]:
        """One step of an optimiser, and this process's part of loss and accuracy.

        Args:
            optimiser: Steps once the gradients of all pieces are there.
            network: Gives logits, (..., classes).
            batch: Inputs and targets of a piece.
            total: What is cut into pieces.
            rate: Learning rate.
        """
        for parameter in self._parameters:
            parameter.grad = None
        losses, accuracies = [], []
        with constant_weights():
            for piece in self._pieces.of(total):
                inputs, labels = batch(piece)
                targets = to_device(torch.from_numpy(labels), self.device)
                with nullcontext() if piece.last else without_averaging(network):
                    logits = network(*inputs).flatten(0, -2)
                    loss = piece.weight * F.cross_entropy(
                        logits, targets, label_smoothing=self.config.optimiser.label_smoothing
                    )
                    loss.backward()
                losses.append(loss.detach())
                right = logits.detach().argmax(dim=1) == targets
                accuracies.append(piece.weight * right.float().mean())
        clip_gradients(self._parameters, self.config.optimiser)
        for group in optimiser.param_groups:
            group["lr"] = rate
        take_step(optimiser)
        return torch.stack(losses).sum(), torch.stack(accuracies).sum()
