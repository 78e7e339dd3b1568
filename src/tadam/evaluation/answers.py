"""Runs any method on many tasks, shared among processes."""

from contextlib import nullcontext
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.data.episodes import Episode, EpisodeSampler, Indices, stacked
from tadam.data.store import ImageStore
from tadam.distributed.ranks import ALONE, Ranks
from tadam.methods.base import Method, Tasks
from tadam.system.progress import Progress

#: Images per forward pass, so that memory does not grow with the number of tasks.
IMAGES_AT_ONCE = 256
#: Controls that need nothing of a method but `task_vectors`: those of the next task, and their mean
#: over training tasks.
OTHER, MEAN = "other", "mean"

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TaskAnswers:
    """Answers to T tasks.

    Attributes:
        probabilities: The method's own, (T, Q, K).
        controls: The same for each requested control, by name.
        episode: The tasks.
    """

    probabilities: Probabilities
    controls: dict[str, Probabilities]
    episode: Episode


def answer_tasks(
    model: Method,
    sampler: EpisodeSampler,
    tasks: int,
    controls: tuple[str, ...] = (),
    progress: Progress | None = None,
    ranks: Ranks = ALONE,
    mean: Tensor | None = None,
) -> TaskAnswers:
    """Answers tasks 0..tasks-1, split among the processes; each of them gets all the answers.

    Args:
        model: In evaluation mode.
        sampler: Draws the tasks.
        tasks: Number of tasks.
        controls: Which of the method's controls to run as well.
        progress: Called with (tasks done, total tasks) of this process.
        ranks: The processes that share the tasks.
        mean: The vectors for the control `MEAN`, (V,).
    """
    own, part = ranks.share(tasks), None
    if own:
        with nullcontext() if model.needs_gradients else torch.inference_mode():
            some = _SomeTasks(model, sampler.starting_at(own.start), len(own), OTHER in controls)
            part = some.answered(controls, mean, progress)
    parts = [part for part in ranks.gather(part) if part is not None]
    return TaskAnswers(
        np.concatenate([part.probabilities for part in parts]),
        {name: np.concatenate([part.controls[name] for part in parts]) for name in controls},
        stacked([part.episode for part in parts]),
    )


@torch.inference_mode()
def mean_task_vectors(model: Method, sampler: EpisodeSampler, tasks: int) -> Tensor | None:
    """The mean of `task_vectors` over tasks 0..tasks-1, (V,); None if the method has none."""
    rows = _SomeTasks(model, sampler, tasks).vectors(slice(0, tasks))
    return None if rows is None else rows.mean(dim=0)


class _SomeTasks:
    """Tasks 0..tasks-1 of a sampler, with what can be computed once per image.

    Args:
        model: In evaluation mode.
        sampler: Draws the tasks.
        tasks: Number of tasks.
        one_more: Also know the support set of the task after the last.
    """

    def __init__(
        self, model: Method, sampler: EpisodeSampler, tasks: int, one_more: bool = False
    ) -> None:
        self.model, self.sampler, self.tasks = model, sampler, tasks
        known = sampler.batch(0, tasks + one_more)
        self.episode = Episode(*(getattr(known, f.name)[:tasks] for f in fields(Episode)))
        self.rows = np.concatenate([self.episode.support, self.episode.query], axis=1)  # (T, N + Q)
        support = known.support  # (T or T + 1, N)
        different, where = np.unique(np.append(self.rows, support), return_inverse=True)
        self.once = _embedded_once(model, sampler.store, different)
        place = torch.from_numpy(where.ravel()).to(model.device)
        self.place = place[: self.rows.size].view(self.rows.shape)
        self.support_place = place[self.rows.size :].view(support.shape)
        self.labels = torch.from_numpy(known.support_labels).to(model.device)

    def answered(
        self, controls: tuple[str, ...], mean: Tensor | None, progress: Progress | None
    ) -> TaskAnswers:
        at_once = max(1, IMAGES_AT_ONCE // self.rows.shape[1])
        answers: dict[str, list[Tensor]] = {name: [] for name in ("", *controls)}
        for start in range(0, self.tasks, at_once):
            some = slice(start, min(start + at_once, self.tasks))
            batch = self._batch(some)
            for name, parts in answers.items():
                if name == OTHER:
                    following = self.vectors(slice(some.start + 1, some.stop + 1))
                    logits = self.model.answer(replace(batch, vectors=following))
                elif name == MEAN:
                    assert mean is not None
                    same = mean.expand(len(batch.labels), -1)
                    logits = self.model.answer(replace(batch, vectors=same))
                else:
                    logits = self.model.answer(batch, name)
                parts.append(self._checked(logits, batch).detach().softmax(dim=2))
            if progress:
                progress(some.stop, self.tasks)
        found = {name: torch.cat(parts).cpu().numpy() for name, parts in answers.items()}
        return TaskAnswers(found.pop(""), found, self.episode)

    def vectors(self, some: slice) -> Tensor | None:
        """What these tasks make of the method, (T, V)."""
        if self.once is None:
            return None
        once = self.once[self.support_place[some]]
        return self.model.task_vectors(once, self.labels[some], self.sampler.way)

    def _batch(self, some: slice) -> Tasks:
        def images() -> Tensor:
            read = images_at(self.sampler.store, self.rows[some].ravel(), self.model.device)
            return read.view(-1, self.rows.shape[1], *read.shape[1:])

        known, shots = None, self.labels.shape[1]
        if self.once is not None:
            known = (self.once[self.place[some, :shots]], self.once[self.place[some, shots:]])
        return Tasks(self.labels[some], self.sampler.way, known, images)

    def _checked(self, logits: Tensor, batch: Tasks) -> Tensor:
        expected = (len(batch.labels), self.sampler.queries, self.sampler.way)
        if logits.shape != expected:
            raise ValueError(
                f"{type(self.model).__name__} returned logits of shape {tuple(logits.shape)}, "
                f"expected (tasks, queries, classes) = {expected}"
            )
        return logits


def _embedded_once(model: Method, store: ImageStore, rows: Indices) -> Tensor | None:
    """What the method computes once per image, (N, D); None if there is nothing of the kind."""
    parts = []
    for chunk in np.array_split(rows, -(-len(rows) // IMAGES_AT_ONCE)):
        z = model.embed_once(images_at(store, chunk, model.device))
        if z is None:
            return None
        parts.append(z)
    return torch.cat(parts)


def images_at(store: ImageStore, rows: Indices, device: torch.device | None = None) -> Tensor:
    """Images of a store as (N, C, H, W) uint8, channels last in memory."""
    return torch.from_numpy(store.images[rows]).to(device).permute(0, 3, 1, 2)
