"""What TEN sees of a task: statistics of the first pass's support embeddings (TADAM, sec. 2.2).

The paper takes the mean of the prototypes, and proposes higher-order statistics in its conclusion.
A mean hardly says what a task is about: which features vary between its classes, and which vary
within them, says more. Standardised by running statistics of the training tasks, TEN sees how a
task deviates from the usual one.
"""

import torch
from torch import Tensor, nn

from tadam.config import ConditioningConfig
from tadam.data.episodes import TASK_INPUT, bits

#: Kind of representation -> how many vectors of D features it is made of.
REPRESENTATIONS = {"mean": 1, "mean_std": 2, "moments": 3}
#: Share of a step's tasks in the running statistics.
_MOMENTUM = 0.02
#: Added to the variance that standardises, so that a feature that never varies stays harmless.
_FLOOR = 1e-4


def task_representation(c: Tensor, kind: str) -> Tensor:
    """Describes a task by its prototypes, (T, K, D) -> (T, D) or (T, 2D).

    `mean` is the paper's. `mean_std` adds the spread of the prototypes in each feature.
    """
    mean = c.mean(dim=1)
    if kind == "mean":
        return mean
    # The small constant keeps the square root's gradient finite where all prototypes agree.
    std = ((c - mean[:, None]).square().mean(dim=1) + 1e-12).sqrt()
    return torch.cat([mean, std], dim=1)


def spread_within(z: Tensor, labels: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over classes of the standard deviation within a class, (T, D).

    A class with a single image has no such spread and does not count.

    Args:
        z: Support embeddings, (T, N, D).
        labels: Class of each, (T, N), in 0..K-1.
        c: Prototypes, (T, K, D).

    Returns:
        The spread, zero for a task of single images, and whether there is one, (T, 1).
    """
    classes = torch.arange(c.shape[1], device=labels.device)
    onehot = (labels[:, :, None] == classes).to(z.dtype)  # (T, N, K)
    spare = onehot.sum(dim=1) - 1  # (T, K)
    deviations = (z - torch.gather(c, 1, labels[:, :, None].expand(z.shape))).square()
    variances = onehot.transpose(1, 2) @ deviations / spare.clamp_min(1)[:, :, None]  # (T, K, D)
    several = (spare > 0).to(z.dtype)[:, :, None]  # (T, K, 1)
    counted = several.sum(dim=1)  # (T, 1)
    spread = (several * (variances + 1e-12).sqrt()).sum(dim=1) / counted.clamp_min(1)
    return spread, counted > 0


class TaskDescription(nn.Module):
    """Turns the first pass's support embeddings into TEN's input.

    Args:
        kind: A key of `REPRESENTATIONS`.
        feature_size: Length D of an embedding.
        config: Standardisation, dropout and noise; none of them if not given.
        seed: With the number of the training pass, decides what dropout and noise do.

    Attributes:
        size: Length of TEN's input.
    """

    running_mean: Tensor
    running_var: Tensor
    passes: Tensor

    def __init__(
        self,
        kind: str,
        feature_size: int,
        config: ConditioningConfig | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        config = config or ConditioningConfig()
        self.kind, self.size = kind, REPRESENTATIONS[kind] * feature_size
        self.standardised, self._seed = config.standardise, seed
        self._dropout, self._noise = config.dropout, config.noise
        if self.standardised:
            self.register_buffer("running_mean", torch.zeros(self.size))
            self.register_buffer("running_var", torch.ones(self.size))
        if self._dropout or self._noise:
            self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, z: Tensor, labels: Tensor, c: Tensor) -> Tensor:
        """Embeddings (T, N, D), labels (T, N) and prototypes (T, K, D) -> (T, size)."""
        if self.kind != "moments":
            task = task_representation(c, self.kind)
        else:
            spread, known = spread_within(z, labels, c)
            if self.standardised:  # a spread that is not known deviates in nothing
                spread = torch.where(known, spread, self.running_mean[-spread.shape[1] :])
            task = torch.cat([task_representation(c, "mean_std"), spread], dim=1)
        if self.standardised:
            task = self._standardised(task)
        if self.training and (self._dropout or self._noise):
            task = self._disturbed(task)
        return task

    def _standardised(self, task: Tensor) -> Tensor:
        """Deviations in units of the training tasks' own; training then counts these tasks in."""
        # Copies: the tensors that backward needs must not be those that are updated.
        mean, variance = self.running_mean.clone(), self.running_var.clone()
        if self.training:
            with torch.no_grad():
                away = task - mean
                self.running_mean += _MOMENTUM * away.mean(dim=0)
                self.running_var += _MOMENTUM * away.square().mean(dim=0)
                self.running_var *= 1 - _MOMENTUM
        return (task - mean) / (variance + _FLOOR).sqrt()

    def _disturbed(self, task: Tensor) -> Tensor:
        """Drops features and adds noise; both follow from the pass's number, as resuming needs."""
        raw = int(bits(self._seed, TASK_INPUT, int(self.passes)).random_raw())
        self.passes += 1
        generator = torch.Generator().manual_seed(raw >> 1)
        kept = torch.rand(task.shape, generator=generator) >= self._dropout
        noise = self._noise * torch.randn(task.shape, generator=generator)
        scaled = task * kept.to(task.device) / (1 - self._dropout)
        return scaled + noise.to(task.device)
