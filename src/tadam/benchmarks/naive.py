"""Naive TADAM training and evaluation as a baseline: the same maths, written the obvious way.

Channels first, one forward pass per task, images loaded one by one, Python loops throughout. It
covers what the benchmark runs: ResNet-12, Euclidean distance, TEN on all layers or none, no
augmentation. Batch norm sees one task at a time here but all tasks of a step in ours, so training
agrees exactly with one task per step and differs in batch statistics with more.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tadam.config import Config
from tadam.data.episodes import EpisodeSampler, auxiliary_batch
from tadam.data.store import ImageStore
from tadam.methods.tadam import Tadam
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.training.schedule import learning_rate_factor

#: gamma and beta of each convolution, each (C,).
Modulations = list[tuple[Tensor, Tensor]]


def swish(x: Tensor) -> Tensor:
    """Any shape."""
    return x * torch.sigmoid(x)


class NaiveTadam:
    """The same network as a `Tadam`, written as plain functions of its weights.

    Args:
        model: Model to copy the weights from; they keep their names.
    """

    def __init__(self, model: Tadam) -> None:
        assert isinstance(model.backbone, ResNet12)
        self.training, self.pools = True, sum(bool(block.pool) for block in model.backbone.blocks)
        self.parameters: dict[str, Tensor] = {
            name: nn.Parameter(p.detach().clone(memory_format=torch.contiguous_format))
            for name, p in model.named_parameters()
        }
        self.buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        self.conditioned = model.ten is not None

    def conv_unit(
        self, x: Tensor, name: str, modulation: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """(N, C_in, H, W) -> (N, C_out, H, W)."""
        weight = self.parameters[f"{name}.conv.weight"]
        x = F.conv2d(x, weight, padding=weight.shape[-1] // 2)
        x = F.batch_norm(
            x,
            self.buffers[f"{name}.norm.running_mean"],
            self.buffers[f"{name}.norm.running_var"],
            self.parameters[f"{name}.norm.weight"],
            self.parameters[f"{name}.norm.bias"],
            training=self.training,
            momentum=0.05,
            eps=1e-3,
        )
        if modulation is not None:
            gamma, beta = modulation
            x = x * gamma[None, :, None, None]
            x = x + beta[None, :, None, None]
        return x

    def embed(self, images: Tensor, modulations: Modulations | None = None) -> Tensor:
        """(N, C, H, W) -> (N, D)."""
        x = (images - self.buffers["backbone.preprocess.pixel_mean"]) / self.buffers[
            "backbone.preprocess.pixel_std"
        ]
        for block in range(4):
            name = f"backbone.blocks.{block}"
            residual = self.conv_unit(x, f"{name}.shortcut")
            for unit in range(3):
                modulation = modulations[3 * block + unit] if modulations else None
                x = self.conv_unit(x, f"{name}.units.{unit}", modulation)
                if unit == 2:
                    x = x + residual
                x = swish(x)
            if block < self.pools:
                x = F.max_pool2d(x, 2, ceil_mode=True)
        return x.mean(dim=(2, 3))

    def linear(self, x: Tensor, name: str) -> Tensor:
        """(N, D_in) -> (N, D_out)."""
        return F.linear(x, self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"])

    def residual_mlp(self, x: Tensor, name: str) -> Tensor:
        """(1, D) -> (1, C)."""
        x = swish(self.linear(x, f"{name}.project"))
        x = swish(self.linear(x, f"{name}.hidden") + x)
        return self.linear(x, f"{name}.out") + x

    def task_embedding(self, task: Tensor) -> Modulations:
        """(D,) -> gamma and beta of 12 layers, each (C,)."""
        modulations = []
        for layer in range(12):
            name = f"ten.conditioners.{layer}"
            gamma = self.residual_mlp(task[None], f"{name}.gamma_net")[0]
            beta = self.residual_mlp(task[None], f"{name}.beta_net")[0]
            gamma0, beta0 = self.parameters[f"{name}.gamma0"], self.parameters[f"{name}.beta0"]
            modulations.append((1 + gamma0 * gamma, beta0 * beta))
        return modulations

    def task_logits(self, support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
        """One task: (N, C, H, W), (N,) and (Q, C, H, W) -> (Q, K)."""
        c, modulations = prototypes(self.embed(support), labels, way), None
        if self.conditioned:
            modulations = self.task_embedding(c.mean(dim=0))
            c = prototypes(self.embed(support, modulations), labels, way)
        z = self.embed(query, modulations)
        distances = ((z[:, None] - c[None]) ** 2).sum(dim=-1).sqrt()
        return -self.buffers["metric.log_alpha"].exp() * distances

    def auxiliary_logits(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, classes)."""
        return self.linear(self.embed(images), "auxiliary_head")


def prototypes(z: Tensor, labels: Tensor, way: int) -> Tensor:
    """(N, D) and (N,) -> (K, D)."""
    return torch.stack([z[labels == k].mean(dim=0) for k in range(way)])


def load_images(store: ImageStore, rows: Iterable[int]) -> Tensor:
    """(N, C, H, W) float, channels first."""
    return torch.stack(
        [torch.from_numpy(store.images[row]).permute(2, 0, 1).float().contiguous() for row in rows]
    )


def sampled_logits(
    model: NaiveTadam, sampler: EpisodeSampler, number: int
) -> tuple[Tensor, Tensor]:
    """Logits, (Q, K), and true labels, (Q,), of task `number`, whose images are loaded afresh."""
    episode = sampler.task(number)
    logits = model.task_logits(
        load_images(sampler.store, episode.support[0]),
        torch.from_numpy(episode.support_labels[0]),
        load_images(sampler.store, episode.query[0]),
        sampler.way,
    )
    return logits, torch.from_numpy(episode.query_labels[0])


@torch.no_grad()
def evaluate(model: NaiveTadam, sampler: EpisodeSampler, tasks: Iterable[int]) -> list[float]:
    """The accuracy on each task, one after another; leaves the model in evaluation mode."""
    model.training = False
    accuracies = []
    for number in tasks:
        logits, labels = sampled_logits(model, sampler, number)
        accuracies.append((logits.argmax(dim=1) == labels).float().mean().item())
    return accuracies


class NaiveTrainer:
    """Trains a `NaiveTadam` with the recipe and episodes that `Trainer` would use."""

    def __init__(self, config: Config, model: Tadam, store: ImageStore) -> None:
        episode = config.episode
        self.config, self.store = config, store
        self.model, self._weight_decay = NaiveTadam(model), model.weight_decay
        self.sampler = EpisodeSampler(
            store, episode.way, episode.shot, episode.queries, config.run.seed
        )
        names = list(self.model.parameters)
        self.few_shot = self._optimiser(n for n in names if not n.startswith("auxiliary_head."))
        self.auxiliary = self._optimiser(
            n for n in names if n.startswith(("backbone.", "auxiliary_head."))
        )

    def _optimiser(self, names: Iterable[str]) -> torch.optim.SGD:
        config = self.config.optimiser
        groups = []
        for name in names:
            parameter = self.model.parameters[name]
            decay = self._weight_decay(name, nn.Parameter(parameter), config)
            groups.append({"params": [parameter], "weight_decay": decay})
        return torch.optim.SGD(
            groups, lr=config.learning_rate, momentum=config.momentum, foreach=False
        )

    def step(self, t: int) -> tuple[Tensor, Tensor]:
        """Runs step t, with its auxiliary update; returns the few-shot and auxiliary losses."""
        auxiliary_loss = self.auxiliary_loss(t)
        self._update(self.auxiliary, auxiliary_loss, t)
        loss = self.few_shot_loss(t)
        self._update(self.few_shot, loss, t)
        return loss.detach(), auxiliary_loss.detach()

    def auxiliary_loss(self, t: int) -> Tensor:
        """Cross-entropy of auxiliary batch t, ()."""
        size, seed = self.config.auxiliary.batch_size, self.config.run.seed
        rows, labels = auxiliary_batch(self.store, size, seed, t)
        logits = self.model.auxiliary_logits(load_images(self.store, rows))
        return F.cross_entropy(logits, torch.from_numpy(labels))

    def few_shot_loss(self, t: int) -> Tensor:
        """Cross-entropy of the queries of step t's tasks, ()."""
        tasks = self.config.episode.tasks
        losses = [
            F.cross_entropy(*sampled_logits(self.model, self.sampler, number))
            for number in range(t * tasks, (t + 1) * tasks)
        ]
        return torch.stack(losses).mean()

    def _update(self, optimiser: torch.optim.SGD, loss: Tensor, t: int) -> None:
        config = self.config.optimiser
        for parameter in self.model.parameters.values():
            parameter.grad = None
        loss.backward()
        for parameter in self.model.parameters.values():
            if parameter.grad is not None:
                norm = parameter.grad.norm()
                if norm > config.clip_norm:
                    parameter.grad *= config.clip_norm / norm
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * learning_rate_factor(t, self.config.schedule)
        optimiser.step()
