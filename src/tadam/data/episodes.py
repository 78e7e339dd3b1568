"""Episodes: task number t of a seed is a pure function of (seed, t).

So a resumed run, a second rank and a repeated evaluation all see the same tasks with no state to
store. All randomness comes from the raw bits of PCG64, a stream that NumPy guarantees;
`Generator.choice` and friends may change between versions.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tadam.data.store import ImageStore
from tadam.errors import UserError

#: Independent streams of one seed: tasks, auxiliary batches, the auxiliary coin, augmentation,
#: which tasks are within a family, and what dropout and noise do to TEN's input.
TASKS, AUXILIARY, AUXILIARY_COIN, AUGMENT_TASKS, AUGMENT_AUXILIARY, FAMILIES, TASK_INPUT = range(7)

Indices = npt.NDArray[np.int64]


def bits(seed: int, stream: int, index: int) -> np.random.PCG64:
    """The bit generator for item `index` of a stream."""
    return np.random.PCG64(np.random.SeedSequence([seed, stream, index]))


def _integers(source: np.random.PCG64, count: int) -> npt.NDArray[np.uint64]:
    """`count` integers below 2^53."""
    return source.random_raw(count) >> np.uint64(11)


def uniforms(source: np.random.PCG64, count: int) -> npt.NDArray[np.float64]:
    """`count` doubles in [0, 1)."""
    return _integers(source, count).astype(np.float64) * 2.0**-53


def _shuffled(source: np.random.PCG64, count: int) -> Indices:
    return np.argsort(_integers(source, count), kind="stable")  # faster than sorting doubles


@dataclass(frozen=True)
class Episode:
    """T tasks, as row numbers in an `ImageStore`.

    Attributes:
        classes: Classes of each task, (T, K).
        support: Support images, class by class, (T, K*M).
        support_labels: 0..K-1, (T, K*M).
        query: Query images, (T, Q).
        query_labels: 0..K-1, (T, Q).
    """

    classes: Indices
    support: Indices
    support_labels: Indices
    query: Indices
    query_labels: Indices


class EpisodeSampler:
    """Draws few-shot tasks from a store: uniformly, or within families of classes.

    Args:
        store: The images.
        way: Classes per task, K.
        shot: Support images per class, M.
        queries: Query images per task, over all its classes, Q.
        seed: Together with the task number, determines the task.
        balanced: Spread the queries evenly over the classes, instead of drawing them from the
            pooled remainder of the task's classes as the paper does.
        source: What to call the data in errors.
        within_family: Share of tasks whose classes are all of one family, drawn among the families
            that have enough classes.

    Examples:
        >>> images = np.zeros((60, 8, 8, 3), dtype=np.uint8)
        >>> store = ImageStore.from_counts(images, [20] * 3, ["cat", "dog", "fox"])
        >>> sampler = EpisodeSampler(store, way=2, shot=5, queries=10, seed=0)
        >>> tasks = sampler.batch(0, 4)
        >>> tasks.support.shape, tasks.query.shape
        ((4, 10), (4, 10))
    """

    def __init__(
        self,
        store: ImageStore,
        way: int,
        shot: int,
        queries: int,
        seed: int,
        balanced: bool = False,
        source: str = "the data",
        within_family: float = 0.0,
    ) -> None:
        self.store, self.way, self.shot, self.queries = store, way, shot, queries
        self.seed, self.balanced, self.within_family = seed, balanced, within_family
        self._first = 0
        self._check(source)
        self._families = store.families_of(way, source) if within_family else []

    def starting_at(self, first: int) -> "EpisodeSampler":
        """A sampler whose task 0 is this one's task `first`."""
        later = copy.copy(self)
        later._first = self._first + first
        return later

    def notes(self) -> tuple[str, ...]:
        """A sentence if a family has no more classes than a task, so that its tasks are alike."""
        full = sum(len(classes) == self.way for classes in self._families)
        if not full:
            return ()
        has = "has" if full == 1 else "have"
        return (
            f"{full} of {len(self._families)} families {has} exactly {self.way} classes: every "
            "task within such a family has the same ones, and the intervals do not say how much "
            "other classes would change.",
        )

    def _check(self, source: str) -> None:
        counts, names = self.store.counts, self.store.class_names
        if self.way < 2 or self.shot < 1 or self.queries < 1:
            raise UserError(
                f"a task needs at least 2 ways, 1 shot and 1 query, "
                f"got {self.way}, {self.shot} and {self.queries}"
            )
        if self.seed < 0:
            raise UserError(f"a seed must be at least 0, got {self.seed}")
        if len(names) < self.way:
            raise UserError(
                f"{source} has {len(names)} classes, but {self.way}-way tasks need {self.way}: "
                "add classes, or lower the way (episode.way to train, `way` to evaluate)"
            )
        # Any class may be drawn, so each must have enough; pooled queries need one spare image.
        needed = self.shot + (-(-self.queries // self.way) if self.balanced else 1)
        smallest = int(counts.argmin())
        if counts[smallest] < needed:
            raise UserError(
                f"class {names[smallest]!r} of {source} has {counts[smallest]} images, "
                f"but {self.shot}-shot tasks with queries need at least {needed}: add images, or "
                "lower the shots (episode.shot to train, `shot` to evaluate)"
            )
        fewest = int(np.sort(counts)[: self.way].sum()) - self.way * self.shot
        if fewest < self.queries:
            raise UserError(
                f"{source} can leave as few as {fewest} images for queries in a {self.way}-way "
                f"{self.shot}-shot task, but {self.queries} are needed: lower the queries "
                "(episode.queries, validation.queries to train, `queries` to evaluate)"
            )

    def task(self, number: int) -> Episode:
        """Task `number` alone, T = 1."""
        source = bits(self.seed, TASKS, self._first + number)
        drawn_from = self._classes(self._first + number)
        classes = drawn_from[_shuffled(source, len(drawn_from))[: self.way]]
        rows = [
            self.store.offsets[k] + _shuffled(source, int(self.store.counts[k])) for k in classes
        ]
        labels = np.arange(self.way)
        if self.balanced:
            share = self._query_share(source)
            query = np.concatenate([r[self.shot :][:n] for r, n in zip(rows, share, strict=True)])
            query_labels = np.repeat(labels, share)
        else:
            rest = np.concatenate([r[self.shot :] for r in rows])
            rest_labels = np.repeat(labels, [len(r) - self.shot for r in rows])
            drawn = _shuffled(source, len(rest))[: self.queries]
            query, query_labels = rest[drawn], rest_labels[drawn]
        return Episode(
            classes=classes[None],
            support=np.concatenate([r[: self.shot] for r in rows])[None],
            support_labels=np.repeat(labels, self.shot)[None],
            query=query[None],
            query_labels=query_labels[None],
        )

    def _classes(self, number: int) -> Indices:
        """The classes that a task is drawn from: all of them, or those of one family."""
        if self._families:
            # A stream of its own, so that the other tasks are those of a sampler without families.
            coin, which = uniforms(bits(self.seed, FAMILIES, number), 2)
            if coin < self.within_family:
                return self._families[int(which * len(self._families))]
        return np.arange(len(self.store.class_names))

    def _query_share(self, source: np.random.PCG64) -> Indices:
        """Queries per class, (K,); the remainder goes to classes drawn at random."""
        share = np.full(self.way, self.queries // self.way)
        share[_shuffled(source, self.way)[: self.queries % self.way]] += 1
        return share

    def batch(self, first: int, count: int) -> Episode:
        """Tasks `first` to `first + count - 1`, stacked."""
        return stacked([self.task(first + i) for i in range(count)])


def stacked(episodes: Sequence[Episode]) -> Episode:
    """Concatenates the tasks of several episodes into one."""
    return Episode(
        *(
            np.concatenate([getattr(episode, f.name) for episode in episodes])
            for f in fields(Episode)
        )
    )


def auxiliary_batch(
    store: ImageStore, size: int, seed: int, number: int
) -> tuple[Indices, Indices]:
    """Rows and class indices of `size` images, drawn uniformly with replacement for co-training."""
    draws = uniforms(bits(seed, AUXILIARY, number), size)
    rows = np.floor(draws * len(store.images)).astype(np.int64)
    return rows, np.searchsorted(store.offsets, rows, side="right") - 1
