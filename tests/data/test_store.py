"""ImageStore: a class is a range of rows, a range of classes is a view, statistics are right."""

from typing import Any

import numpy as np
import pytest

from stores import store_of
from tadam.data.store import ImageStore


def test_a_class_is_the_rows_between_two_offsets() -> None:
    store = store_of([3, 1, 4])
    assert store.offsets.tolist() == [0, 3, 4, 8]
    assert store.counts.tolist() == [3, 1, 4]
    assert store.class_names == ("c0", "c1", "c2")
    assert (store.image_size, store.channels) == (2, 3)


def test_a_class_range_holds_those_classes_and_copies_no_image() -> None:
    store = store_of([3, 1, 4, 2])
    part = store.class_range(1, 3)
    assert part.class_names == ("c1", "c2")
    assert part.offsets.tolist() == [0, 1, 5]
    np.testing.assert_array_equal(part.images, store.images[3:8])
    assert np.shares_memory(part.images, store.images)


def test_a_class_range_of_a_class_range_still_finds_its_images() -> None:
    store = store_of([3, 1, 4, 2])
    part = store.class_range(1, 4).class_range(1, 2)
    np.testing.assert_array_equal(part.images, store.images[4:8])
    assert part.offsets.tolist() == [0, 4]


def test_a_rotated_store_has_each_class_four_times() -> None:
    store = store_of([1, 2])
    turned = store.rotated()
    assert turned.counts.tolist() == [1] * 4 + [2] * 4
    assert turned.class_names[:2] == ("c0/rot000", "c0/rot090")
    np.testing.assert_array_equal(turned.images[0], store.images[0])
    np.testing.assert_array_equal(turned.images[1][0], store.images[0][:, -1])  # counter-clockwise
    np.testing.assert_array_equal(turned.images[6:8], np.rot90(store.images[1:], axes=(1, 2)))


@pytest.mark.parametrize("channels", [1, 3])
def test_channel_statistics_are_numpys(channels: int) -> None:
    store = store_of([30, 20], size=5, channels=channels)
    mean, std = store.channel_statistics()
    for c in range(channels):
        pixels = store.images[..., c].ravel().tolist()
        expected = sum(pixels) / len(pixels)
        assert mean[c] == pytest.approx(expected)
        spread = sum((p - expected) ** 2 for p in pixels) / len(pixels)
        assert std[c] == pytest.approx(spread**0.5)


def test_channel_statistics_of_a_large_store_come_from_evenly_spaced_images() -> None:
    images = np.zeros((10, 2, 2, 3), np.uint8)
    images[[0, 3, 6, 9]] = 40
    images[[0, 3], :, :, 1] = 60  # (60 + 60 + 40 + 40) / 4 = 50, standard deviation 10
    store = ImageStore.from_counts(images, [10], ["a"])
    mean, std = store.channel_statistics(most=4)
    assert mean == [40, 50, 40]
    assert std == [1, 10, 1]


def test_the_spread_of_a_constant_channel_is_one_so_that_dividing_by_it_is_safe() -> None:
    store = ImageStore.from_counts(np.full((4, 2, 2, 1), 7, np.uint8), [4], ["a"])
    assert store.channel_statistics() == ([7.0], [1.0])


def test_images_of_a_wrong_type_or_shape_are_refused() -> None:
    wrong: list[Any] = [
        np.zeros((2, 4, 4, 3), np.float32),
        np.zeros((2, 4, 4, 3), np.int8),
        np.zeros((2, 4, 4), np.uint8),
        np.zeros((2, 4, 4, 4), np.uint8),
        np.zeros((2, 3, 4, 4), np.uint8),
    ]
    for images in wrong:
        with pytest.raises(ValueError, match="images must be uint8"):
            ImageStore.from_counts(images, [2], ["a"])


@pytest.mark.parametrize(("counts", "names"), [([1, 2], ["a", "b"]), ([1, 1], ["a"])])
def test_counts_that_do_not_match_images_or_names_are_refused(
    counts: list[int], names: list[str]
) -> None:
    with pytest.raises(ValueError, match="do not match"):
        ImageStore.from_counts(np.zeros((2, 4, 4, 3), np.uint8), counts, names)
