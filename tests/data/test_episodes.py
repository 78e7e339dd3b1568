"""Episodes: tasks are valid, uniform, a pure function of (seed, t), and bad requests are named."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores import store_of
from tadam.data.episodes import Episode, EpisodeSampler, auxiliary_batch, bits, uniforms
from tadam.errors import UserError

FIELDS = ("classes", "support", "support_labels", "query", "query_labels")


def assert_same(a: Episode, b: Episode) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def differ(a: Episode, b: Episode) -> bool:
    return any(not np.array_equal(getattr(a, f), getattr(b, f)) for f in FIELDS)


@st.composite
def requests(draw: Callable[..., Any]) -> tuple[Any, ...]:
    """Valid sampler arguments, with classes of unequal sizes."""
    way = draw(st.integers(2, 6))
    shot = draw(st.integers(1, 5))
    queries = draw(st.integers(1, 4 * way))
    least = shot + -(-queries // way)
    sizes = st.integers(least, least + 7)
    counts = draw(st.lists(sizes, min_size=way, max_size=way + 5))
    seed = draw(st.integers(0, 2**63 - 1))
    return counts, way, shot, queries, seed, draw(st.booleans())


@given(requests(), st.integers(0, 10**9))
def test_every_task_is_valid(request_: tuple[Any, ...], number: int) -> None:
    counts, way, shot, queries, seed, balanced = request_
    store = store_of(counts)
    task = EpisodeSampler(store, way, shot, queries, seed, balanced).task(number)

    classes = task.classes[0].tolist()
    assert len(set(classes)) == way
    assert set(classes) <= set(range(len(counts)))

    support, query = task.support[0].tolist(), task.query[0].tolist()
    assert len(set(support)) == way * shot
    assert len(set(query)) == queries
    assert not set(support) & set(query)

    class_of_row = [k for k, n in enumerate(counts) for _ in range(n)]
    assert [class_of_row[r] for r in support] == [classes[k] for k in task.support_labels[0]]
    assert [class_of_row[r] for r in query] == [classes[k] for k in task.query_labels[0]]
    assert task.support_labels[0].tolist() == [k for k in range(way) for _ in range(shot)]
    if balanced:
        shares = [task.query_labels[0].tolist().count(k) for k in range(way)]
        assert max(shares) - min(shares) <= 1


@given(requests(), st.integers(0, 10**6))
def test_seed_and_number_fix_a_task(request_: tuple[Any, ...], number: int) -> None:
    counts, *others = request_
    one = EpisodeSampler(store_of(counts), *others)
    other = EpisodeSampler(store_of(counts), *others)
    other.task(number + 1)  # earlier draws do not matter
    assert_same(one.task(number), other.task(number))


@given(seed=st.integers(0, 2**62), number=st.integers(0, 10**6), balanced=st.booleans())
def test_another_number_or_seed_gives_another_task(seed: int, number: int, balanced: bool) -> None:
    # Tasks this large coincide by chance less than once in 10^30 times.
    store = store_of([40] * 20)
    task = EpisodeSampler(store, 5, 5, 30, seed, balanced).task(number)
    assert differ(task, EpisodeSampler(store, 5, 5, 30, seed, balanced).task(number + 1))
    assert differ(task, EpisodeSampler(store, 5, 5, 30, seed + 1, balanced).task(number))


@given(requests(), st.integers(0, 1000), st.integers(1, 4))
def test_a_batch_equals_its_tasks_one_by_one(
    request_: tuple[Any, ...], first: int, count: int
) -> None:
    counts, *others = request_
    sampler = EpisodeSampler(store_of(counts), *others)
    batch = sampler.batch(first, count)
    for name in FIELDS:
        rows = [getattr(sampler.task(first + i), name)[0] for i in range(count)]
        np.testing.assert_array_equal(getattr(batch, name), np.stack(rows), err_msg=name)


def test_a_list_of_tasks_may_start_later() -> None:
    sampler = EpisodeSampler(store_of([9, 9, 9]), way=2, shot=1, queries=3, seed=4)
    later = sampler.starting_at(3).starting_at(2)
    assert_same(later.batch(1, 2), sampler.batch(6, 2))
    assert_same(sampler.task(0), EpisodeSampler(sampler.store, 2, 1, 3, seed=4).task(0))


def test_the_remaining_queries_of_a_balanced_task_go_to_random_classes() -> None:
    sampler = EpisodeSampler(store_of([9] * 4), 3, 1, 7, seed=0, balanced=True)
    batch = sampler.batch(0, 600)
    extra = Counter(int(np.bincount(labels).argmax()) for labels in batch.query_labels)
    assert sum(extra.values()) == 600
    for k in range(3):  # Binomial(600, 1/3) has a standard deviation of 11.5
        assert abs(extra[k] - 200) < 60


def chi_square(counts: npt.NDArray[np.int64], expected: npt.NDArray[Any]) -> float:
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("balanced", [False, True])
def test_tasks_are_uniform_over_classes_and_over_images(balanced: bool) -> None:
    sizes = np.array([8, 8, 12, 12, 20, 20, 9, 11])
    store = store_of(sizes.tolist())
    tasks = 2000
    batch = EpisodeSampler(store, 3, 2, 6, seed=1, balanced=balanced).batch(0, tasks)

    of_class = np.bincount(batch.classes.ravel(), minlength=8)
    # Chi-square with 7 degrees of freedom exceeds 24.3 once in 1000; seed 1 is not special.
    assert chi_square(of_class, np.full(8, tasks * 3 / 8)) < 24.3

    first = np.bincount(batch.classes[:, 0], minlength=8)
    assert chi_square(first, np.full(8, tasks / 8)) < 24.3

    of_row = np.bincount(batch.support.ravel(), minlength=len(store.images))
    expected = np.repeat(of_class * 2 / sizes, sizes)  # equal within a class
    assert chi_square(of_row, expected) < 140  # 92 degrees of freedom, mean 92, deviation 13.6

    of_query = np.bincount(batch.query.ravel(), minlength=len(store.images))
    of_query_class = np.add.reduceat(of_query, store.offsets[:-1])
    assert chi_square(of_query, np.repeat(of_query_class / sizes, sizes)) < 140


def test_pooled_queries_are_uniform_over_the_remaining_images_of_the_task() -> None:
    sampler = EpisodeSampler(store_of([4, 10]), 2, 2, 3, seed=2)
    batch = sampler.batch(0, 3000)
    small = sum(
        int((classes[labels] == 0).sum())
        for classes, labels in zip(batch.classes, batch.query_labels, strict=True)
    )
    # 2 of the 10 remaining images are of the small class, so 3 * 3000 * 2/10 = 1800 queries.
    assert abs(small - 1800) < 150  # 4.5 standard deviations


def test_a_pinned_task_shows_that_the_stream_has_not_changed() -> None:
    pooled = EpisodeSampler(store_of([7, 8, 9, 10]), 3, 2, 5, seed=42).task(7)
    balanced = EpisodeSampler(store_of([7, 8, 9, 10]), 3, 2, 5, seed=42, balanced=True).task(7)
    assert {f: getattr(pooled, f)[0].tolist() for f in FIELDS} == GOLDEN_POOLED
    assert {f: getattr(balanced, f)[0].tolist() for f in FIELDS} == GOLDEN_BALANCED


def test_uniforms_are_the_doubles_that_numpy_makes_from_the_same_bits() -> None:
    ours = uniforms(bits(3, 1, 4), 1000)
    theirs = np.random.Generator(bits(3, 1, 4)).random(1000)
    np.testing.assert_array_equal(ours, theirs)


def test_streams_of_one_seed_differ() -> None:
    draws = [uniforms(bits(0, stream, 0), 4).tolist() for stream in range(5)]
    assert len({tuple(d) for d in draws}) == 5


def test_labels_of_an_auxiliary_batch_are_the_classes_of_its_rows() -> None:
    store = store_of([1, 5, 2, 9])
    rows, labels = auxiliary_batch(store, 500, seed=0, number=3)
    class_of_row = [k for k, n in enumerate([1, 5, 2, 9]) for _ in range(n)]
    assert labels.tolist() == [class_of_row[r] for r in rows]


def test_an_auxiliary_batch_is_uniform_over_images_and_fixed_by_seed_and_number() -> None:
    store = store_of([1, 5, 2, 9])
    rows, _ = auxiliary_batch(store, 17_000, seed=0, number=3)
    # With 16 degrees of freedom it exceeds 39.3 once in 1000.
    assert chi_square(np.bincount(rows, minlength=17), np.full(17, 1000)) < 39.3
    np.testing.assert_array_equal(rows, auxiliary_batch(store, 17_000, seed=0, number=3)[0])
    assert (rows != auxiliary_batch(store, 17_000, seed=0, number=4)[0]).any()
    assert (rows != auxiliary_batch(store, 17_000, seed=1, number=3)[0]).any()


def test_too_few_classes_for_the_way_is_one_sentence() -> None:
    with pytest.raises(UserError) as error:
        EpisodeSampler(store_of([9] * 4), 5, 1, 5, seed=0, source="the val split")
    assert str(error.value) == (
        "the val split has 4 classes, but 5-way tasks need 5: add classes, or lower the way "
        "(episode.way to train, `way` to evaluate)"
    )


def test_a_class_with_too_few_images_is_named() -> None:
    store = store_of([9, 3, 9])
    with pytest.raises(UserError) as error:
        EpisodeSampler(store, 2, 5, 4, seed=0, source="folder:pets")
    assert str(error.value) == (
        "class 'c1' of folder:pets has 3 images, but 5-shot tasks with queries need at least 6: "
        "add images, or lower the shots (episode.shot to train, `shot` to evaluate)"
    )


def test_balanced_queries_count_towards_what_a_class_needs() -> None:
    store = store_of([9, 9, 6])
    with pytest.raises(UserError, match=r"class 'c2' .* has 6 images, .* need at least 7"):
        EpisodeSampler(store, 3, 5, 4, seed=0, balanced=True)
    EpisodeSampler(store, 3, 5, 3, seed=0, balanced=True).task(0)


def test_more_queries_than_the_smallest_classes_leave_is_one_sentence() -> None:
    store = store_of([6, 20, 7, 20])
    EpisodeSampler(store, 2, 5, 3, seed=0)  # c0 and c2 leave 1 + 2
    with pytest.raises(UserError) as error:
        EpisodeSampler(store, 2, 5, 4, seed=0)
    assert str(error.value) == (
        "the data can leave as few as 3 images for queries in a 2-way 5-shot task, "
        "but 4 are needed: lower the queries "
        "(episode.queries, validation.queries to train, `queries` to evaluate)"
    )


@pytest.mark.parametrize(("way", "shot", "queries"), [(1, 1, 1), (2, 0, 1), (2, 1, 0)])
def test_a_task_needs_two_ways_a_shot_and_a_query(way: int, shot: int, queries: int) -> None:
    with pytest.raises(UserError, match="at least 2 ways, 1 shot and 1 query"):
        EpisodeSampler(store_of([9] * 4), way, shot, queries, seed=0)


# Recorded once. If these change, so does every published number and every resumed run.
GOLDEN_POOLED = {
    "classes": [3, 2, 1],
    "support": [28, 32, 19, 16, 14, 7],
    "support_labels": [0, 0, 1, 1, 2, 2],
    "query": [33, 29, 21, 22, 9],
    "query_labels": [0, 0, 1, 1, 2],
}
GOLDEN_BALANCED = {
    "classes": [3, 2, 1],
    "support": [28, 32, 19, 16, 14, 7],
    "support_labels": [0, 0, 1, 1, 2, 2],
    "query": [27, 18, 20, 12, 11],
    "query_labels": [0, 1, 1, 2, 2],
}
