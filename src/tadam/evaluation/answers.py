"""Runs any method on many tasks, shared among processes."""

from contextlib import nullcontext
from dataclasses import dataclass

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
) -> TaskAnswers:
    """Answers tasks 0..tasks-1, split among the processes; each of them gets all the answers.

    Args:
        model: In evaluation mode.
        sampler: Draws the tasks.
        tasks: Number of tasks.
        controls: Which of the method's controls to run as well.
        progress: Called with (tasks done, total tasks) of this process.
        ranks: The processes that share the tasks.
    """
    own, part = ranks.share(tasks), None
    if own:
        with nullcontext() if model.needs_gradients else torch.inference_mode():
            part = _answer(model, sampler.starting_at(own.start), len(own), controls, progress)
    parts = [part for part in ranks.gather(part) if part is not None]
    return TaskAnswers(
        np.concatenate([part.probabilities for part in parts]),
        {name: np.concatenate([part.controls[name] for part in parts]) for name in controls},
        stacked([part.episode for part in parts]),
    )


def _answer(
    model: Method,
    sampler: EpisodeSampler,
    tasks: int,
    controls: tuple[str, ...],
    progress: Progress | None,
) -> TaskAnswers:
    episode = sampler.batch(0, tasks)
    task_rows = np.concatenate([episode.support, episode.query], axis=1)  # (T, N + Q)
    rows, where = np.unique(task_rows, return_inverse=True)
    once = _embedded_once(model, sampler.store, rows)
    place = torch.from_numpy(where.reshape(task_rows.shape)).to(model.device)
    labels = torch.from_numpy(episode.support_labels).to(model.device)
    shots = labels.shape[1]
    at_once = max(1, IMAGES_AT_ONCE // task_rows.shape[1])
    answers: dict[str, list[Tensor]] = {name: [] for name in ("", *controls)}
    for start in range(0, tasks, at_once):
        some = slice(start, min(start + at_once, tasks))

        def images(some: slice = some) -> Tensor:
            read = images_at(sampler.store, task_rows[some].ravel(), model.device)
            return read.view(-1, task_rows.shape[1], *read.shape[1:])

        known = None
        if once is not None:
            known = (once[place[some, :shots]], once[place[some, shots:]])
        batch = Tasks(labels[some], sampler.way, known, images)
        for name, parts in answers.items():
            logits = model.answer(batch, name).detach()
            expected = (len(batch.labels), sampler.queries, sampler.way)
            if logits.shape != expected:
                raise ValueError(
                    f"{type(model).__name__} returned logits of shape {tuple(logits.shape)}, "
                    f"expected (tasks, queries, classes) = {expected}"
                )
            parts.append(logits.softmax(dim=2))
        if progress:
            progress(some.stop, tasks)
    found = {name: torch.cat(parts).cpu().numpy() for name, parts in answers.items()}
    return TaskAnswers(found.pop(""), found, episode)


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
