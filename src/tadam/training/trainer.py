"""One training step of TADAM: an auxiliary update with probability p, then the few-shot update."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.config import Config, OptimiserConfig
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
from tadam.errors import UserError
from tadam.model import Tadam
from tadam.native.convolution import constant_weights
from tadam.training.schedule import learning_rate_factor, makes_auxiliary_update


@dataclass(frozen=True)
class StepResult:
    """Tensors, not numbers: reading one waits for the device, so that is left to the log."""

    loss: Tensor
    accuracy: Tensor
    auxiliary_loss: Tensor | None
    auxiliary_accuracy: Tensor | None
    images: int


class Trainer:
    """Holds a model and its two optimisers; step t depends on nothing but their state and t."""

    def __init__(
        self, config: Config, model: Tadam, store: ImageStore, device: torch.device
    ) -> None:
        episode = config.episode
        self.config, self.store, self.device = config, store, device
        self.model = model.to(device).train()
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

    def step(self, t: int) -> StepResult:
        """Runs training step t."""
        factor = learning_rate_factor(t, self.config.schedule)
        rate = self.config.optimiser.learning_rate * factor
        wanted = makes_auxiliary_update(t, self.config)
        auxiliary = self._auxiliary_update(t, rate) if wanted else None
        loss, accuracy, images = self._few_shot_update(t, rate)
        if auxiliary is None:
            return StepResult(loss, accuracy, None, None, images)
        batch = self.config.auxiliary.batch_size
        return StepResult(loss, accuracy, auxiliary[0], auxiliary[1], images + batch)

    def _auxiliary_update(self, t: int, rate: float) -> tuple[Tensor, Tensor]:
        seed = self.config.run.seed
        rows, labels = auxiliary_batch(self.store, self.config.auxiliary.batch_size, seed, t)
        images = self._images(rows, bits(seed, AUGMENT_AUXILIARY, t))
        return self._update(
            self.auxiliary,
            lambda: self.model.auxiliary_logits(images),
            torch.from_numpy(labels),
            rate,
        )

    def _few_shot_update(self, t: int, rate: float) -> tuple[Tensor, Tensor, int]:
        tasks = self.config.episode.tasks
        episode = self.sampler.batch(t * tasks, tasks)
        rows = np.concatenate([episode.support, episode.query], axis=1)  # (T, N + Q)
        images = self._images(rows.ravel(), bits(self.config.run.seed, AUGMENT_TASKS, t))
        images = images.unflatten(0, rows.shape)
        shots = episode.support.shape[1]
        labels = torch.from_numpy(episode.support_labels).to(self.device)
        support, query = images[:, :shots], images[:, shots:]
        loss, accuracy = self._update(
            self.few_shot,
            lambda: self.model(support, labels, query, self.sampler.way).flatten(0, 1),
            torch.from_numpy(episode.query_labels).flatten(),
            rate,
        )
        return loss, accuracy, rows.size

    def _images(self, rows: Indices, source: np.random.PCG64) -> Tensor:
        batch = torch.from_numpy(self.store.images[rows]).to(self.device)  # (N, H, W, C)
        return augment(batch, self.config.augment, source)

    def _update(
        self,
        optimiser: torch.optim.Optimizer,
        forward: Callable[[], Tensor],
        targets: Tensor,
        rate: float,
    ) -> tuple[Tensor, Tensor]:
        """One step of an optimiser; `forward` gives logits, (B, classes)."""
        targets = targets.to(self.device)
        self.model.zero_grad(set_to_none=True)
        with constant_weights():
            logits = forward()
            loss = F.cross_entropy(
                logits, targets, label_smoothing=self.config.optimiser.label_smoothing
            )
            loss.backward()
        clip_gradients(self.model.parameters(), self.config.optimiser)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        accuracy = (logits.detach().argmax(dim=1) == targets).float().mean()
        return loss.detach(), accuracy


def make_optimiser(
    model: nn.Module, belongs: Callable[[str], bool], config: OptimiserConfig
) -> torch.optim.Optimizer:
    """Optimiser of the parameters whose names `belongs` accepts, each with its weight decay."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if belongs(name):
            groups.setdefault(weight_decay(name, parameter, config), []).append(parameter)
    if not groups:
        raise UserError("this recipe leaves nothing to learn: evaluate it, or change backbone.name")
    params = [{"params": group, "weight_decay": decay} for decay, group in groups.items()]
    if config.name == "adamw":
        return torch.optim.AdamW(params, lr=config.learning_rate, foreach=True)
    return torch.optim.SGD(params, lr=config.learning_rate, momentum=config.momentum, foreach=True)


def weight_decay(name: str, parameter: nn.Parameter, config: OptimiserConfig) -> float:
    """L2 penalty: convolutions and TEN weights one, gamma0 and beta0 another, all else none."""
    if name.endswith((".gamma0", ".beta0")):
        return config.multiplier_decay
    if name.startswith(("backbone.", "ten.")) and parameter.ndim >= 2:
        return config.weight_decay
    return 0.0


def clip_gradients(parameters: Iterable[nn.Parameter], config: OptimiserConfig) -> None:
    """Limits gradient norms: of each parameter by itself as the authors do, or of all together."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if config.clip == "none":
        return
    norms = torch._foreach_norm(gradients)
    if config.clip == "global":
        norms = (torch.stack(norms).norm(),) * len(gradients)
    # One kernel for all the factors; a Python loop over 200 parameters costs more than the maths.
    factors = (config.clip_norm / torch.stack(norms).clamp_min(1e-12)).clamp_max(1.0)
    torch._foreach_mul_(gradients, list(factors.unbind()))
