"""A picture of task conditioning: the same images under their own task's vectors and another's."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tadam.data.episodes import Episode, EpisodeSampler
from tadam.evaluation.answers import images_at
from tadam.methods.tadam import Tadam
from tadam.nn.film import Film
from tadam.reports import plots
from tadam.reports.figure import PALETTE, new_figure, style, svg_text
from tadam.reports.html import picture

#: How many tasks to look through for one of another family.
_CANDIDATES = 50


@dataclass(frozen=True)
class UnderVectors:
    """A task's queries as the network sees them under some FiLM vectors.

    Attributes:
        z: Their embeddings, (Q, D).
        probabilities: Of the task's classes, (Q, K).
    """

    z: npt.NDArray[np.float32]
    probabilities: npt.NDArray[np.float32]


def two_tasks(model: Tadam, sampler: EpisodeSampler) -> str:
    """A task of one family under its own vectors and under those of a task of another, as HTML.

    Args:
        model: A conditioned one.
        sampler: Tasks within families.
    """
    own = sampler.task(0)
    number = next(
        t
        for t in range(1, _CANDIDATES)
        if _family(sampler, sampler.task(t)) != _family(sampler, own)
    )
    other = sampler.task(number)
    seen = [under(model, sampler, own, film_of(model, sampler, task)) for task in (own, other)]
    labels = own.query_labels[0]
    chances = [one.probabilities[np.arange(len(labels)), labels] for one in seen]
    moved = int(np.argmax(chances[0] - chances[1]))
    names = [sampler.store.class_names[k] for k in own.classes[0]]
    image = picture(sampler.store.images[own.query[0, moved]], 96, names[labels[moved]])
    words = escape(names[labels[moved]])
    verdict = (
        f"<p>This picture is of the class <b>{words}</b>. Under its own task's vectors the network "
        f"is {100 * chances[0][moved]:.0f}% sure of that, under those of a task about "
        f"&ldquo;{escape(_family(sampler, other))}&rdquo; {100 * chances[1][moved]:.0f}%. Of all "
        "queries of this task it is the one that changes most.</p>"
    )
    chart = _panels([one.z for one in seen], labels, names, moved, _titles(sampler, own, other))
    return (
        f'<div class="pictures"><figure>{image}</figure><div style="flex:1">{verdict}</div></div>'
        f"{chart}"
    )


@torch.inference_mode()
def film_of(model: Tadam, sampler: EpisodeSampler, task: Episode) -> Film:
    """A task's own FiLM vectors, (1, C) each."""
    z = model.embed(images_at(sampler.store, task.support[0]))[None]
    film = model.film_from(z, torch.from_numpy(task.support_labels), sampler.way)
    assert film is not None
    return film


@torch.inference_mode()
def under(model: Tadam, sampler: EpisodeSampler, task: Episode, film: Film) -> UnderVectors:
    """Embeds a task's images with these vectors and answers its queries."""
    support, query = (
        model.embed(images_at(sampler.store, rows[0]), film)[None]
        for rows in (task.support, task.query)
    )
    labels = torch.from_numpy(task.support_labels)
    logits: Tensor = model.compare(support, labels, query, sampler.way)
    return UnderVectors(query[0].numpy(), logits[0].softmax(dim=1).numpy())


def separation(z: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Variance between the class means as a share of all variance, summed over features."""
    centred = z - z.mean(axis=0)
    means = {k: centred[labels == k].mean(axis=0) for k in set(labels.tolist())}
    between = np.mean([np.square(means[k]).sum() for k in labels.tolist()])
    return float(between / np.square(centred).sum(axis=1).mean())


def _family(sampler: EpisodeSampler, task: Episode) -> str:
    return str(sampler.store.families[task.classes[0, 0]])


def _titles(sampler: EpisodeSampler, own: Episode, other: Episode) -> list[str]:
    return [
        f"own vectors ({_family(sampler, own)})",
        f"those of another task ({_family(sampler, other)})",
    ]


def _plane(z: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The two directions of largest variance, (N, 2)."""
    centred = z - z.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ directions[:2].T)


def _panels(
    embeddings: Sequence[npt.NDArray[np.float32]],
    labels: npt.NDArray[np.int64],
    names: Sequence[str],
    moved: int,
    titles: Sequence[str],
) -> str:
    panels = []
    for z, title in zip(embeddings, titles, strict=True):
        figure, (axes,) = new_figure(470, 360)
        flat = _plane(z)
        with style():
            for k, name in enumerate(names):
                some = labels == k
                axes.plot(*flat[some].T, "o", color=PALETTE[k], ms=4, alpha=0.7, label=name)
            axes.plot(*flat[moved], "o", ms=14, mfc="none", mec="black", mew=1.8)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, fontsize=8)
        share = 100 * separation(z, labels)
        plots.label_axes(axes, "", "", title=f"{title}: {share:.0f}% between classes")
        panels.append(f"<div>{svg_text(figure, title)}</div>")
    return f'<div class="columns">{"".join(panels)}</div>'
