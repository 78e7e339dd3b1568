"""Families: who has them, how tasks are drawn within one, and that nothing else changes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from stores import store_of
from tadam.config import DataConfig
from tadam.data.catalogue import load_splits, verify
from tadam.data.cifar100 import CIFAR_FS_SPLITS, FC100_SPLITS, SUPERCLASSES
from tadam.data.episodes import EpisodeSampler
from tadam.data.store import ImageStore
from tadam.errors import UserError
from tadam.evaluation.tasks import evaluate_tasks
from toy_backbones import random_model


def grouped(*sizes: int) -> ImageStore:
    """Families f0, f1, ... of so many classes each, with nine images a class."""
    families = [f"f{i}" for i, size in enumerate(sizes) for _ in range(size)]
    return replace(store_of([9] * sum(sizes)), families=tuple(families))


def test_tasks_within_a_family_are_drawn_from_every_family_that_is_large_enough() -> None:
    sampler = EpisodeSampler(grouped(3, 2, 5), 3, 1, 5, seed=0, within_family=1)
    families = np.array([0] * 3 + [1] * 2 + [2] * 5)
    counts: Counter[int] = Counter()
    for classes in sampler.batch(0, 400).classes:
        (family,) = set(families[classes].tolist())
        counts[family] += 1
        assert len(set(classes.tolist())) == 3
    assert set(counts) == {0, 2}
    assert abs(counts[0] - 200) < 50  # Binomial(400, 1/2) has a standard deviation of 10


def test_a_share_of_tasks_is_within_a_family_and_the_others_are_those_of_before() -> None:
    store, arguments = grouped(4, 4, 4), (2, 1, 5, 3)
    plain = EpisodeSampler(store, *arguments)
    mixed = EpisodeSampler(store, *arguments, within_family=0.3)
    same = 0
    for t in range(600):
        before, now = plain.task(t), mixed.task(t)
        equal = all(np.array_equal(getattr(before, f), getattr(now, f)) for f in vars(before))
        same += equal
        if not equal:
            assert len(set((now.classes[0] // 4).tolist())) == 1
    assert 0.6 < same / 600 < 0.78


@pytest.mark.parametrize("balanced", [False, True])
def test_a_store_with_families_gives_the_same_tasks_unless_asked(balanced: bool) -> None:
    store = grouped(4, 4)
    plain = EpisodeSampler(replace(store, families=()), 3, 2, 6, 5, balanced).batch(0, 50)
    now = EpisodeSampler(store, 3, 2, 6, 5, balanced, within_family=0.0).batch(0, 50)
    for name, value in vars(plain).items():
        np.testing.assert_array_equal(value, getattr(now, name))


def test_a_task_within_a_family_depends_on_its_number_alone() -> None:
    sampler = EpisodeSampler(grouped(4, 6), 3, 1, 5, seed=8, within_family=0.5)
    later = sampler.starting_at(7)
    for name, value in vars(sampler.batch(7, 5)).items():
        np.testing.assert_array_equal(value, getattr(later.batch(0, 5), name))


def test_a_family_with_as_many_classes_as_a_task_is_noted_by_the_evaluation() -> None:
    store = grouped(3, 2, 5, 4)
    model = random_model()[0]
    for way, share, words in [
        (3, 1.0, "1 of 3 families has exactly 3 classes: every task within such a family has"),
        (2, 0.2, "1 of 4 families has exactly 2 classes"),
        (3, 0.0, ""),
    ]:
        sampler = EpisodeSampler(store, way, 1, 5, seed=0, within_family=share)
        found = [note for note in evaluate_tasks(model, sampler, 2).notes if "families" in note]
        assert bool(found) == bool(words)
        assert words in " ".join(found)
    assert EpisodeSampler(grouped(5, 4), 3, 1, 5, 0, within_family=1).notes() == ()


def test_families_that_are_too_small_or_missing_are_one_sentence() -> None:
    with pytest.raises(UserError, match="no family of the val split has more than 3 classes"):
        EpisodeSampler(grouped(3, 2), 4, 1, 5, 0, source="the val split", within_family=0.1)
    with pytest.raises(UserError, match="the data has no families of classes"):
        EpisodeSampler(store_of([9] * 4), 2, 1, 5, 0, within_family=1)


def test_families_follow_their_classes_when_a_store_is_cut_or_turned() -> None:
    store = grouped(2, 1, 3)
    assert store.class_range(1, 4).families == ("f0", "f1", "f2")
    square = replace(store, images=np.zeros((54, 2, 2, 3), np.uint8))
    assert square.rotated().families == ("f0",) * 8 + ("f1",) * 4 + ("f2",) * 12


def test_shapes_are_grouped_by_the_attribute_that_is_free() -> None:
    for store in load_splits(DataConfig("shapes")).values():
        assert set(store.families) == {"any colour", "any texture", "any shape"}
        for name, family in zip(store.class_names, store.families, strict=True):
            assert name.endswith(f"({family})")


def test_every_class_of_cifar_has_one_superclass() -> None:
    for splits in (FC100_SPLITS, CIFAR_FS_SPLITS):
        names = [name for part in splits.values() for name in part]
        owners = [[c for c, members in SUPERCLASSES.items() if name in members] for name in names]
        assert all(len(found) == 1 for found in owners)
    assert len(FC100_SPLITS["test"]) == 20


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two families of three classes each, three pictures a class."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "pictures"
    for k, name in enumerate(
        ("pets/cat", "pets/dog", "pets/rat", "cars/van", "cars/bus", "cars/jeep")
    ):
        (root / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (20, 20), (40 * k, 80 * i, 9)).save(root / name / f"{i}.png")
    return root


def test_family_folders_are_families(pictures: Path) -> None:
    (pictures / "splits.toml").write_text(
        'train = ["pets/cat", "pets/dog", "cars/van"]\nval = ["pets/rat"]\n'
        'test = ["cars/bus", "cars/jeep"]\n'
    )
    stores = load_splits(DataConfig(f"families:{pictures}", image_size=16))
    assert stores["train"].class_names == ("pets/cat", "pets/dog", "cars/van")
    assert stores["train"].families == ("pets", "pets", "cars")
    assert stores["test"].families == ("cars", "cars")
    assert (stores["test"].counts == 3).all()
    assert verify(f"families:{pictures}") == []


def test_family_folders_without_a_split_file_are_split_by_the_seed(pictures: Path) -> None:
    stores = load_splits(DataConfig(f"families:{pictures}", image_size=16))
    names = [name for store in stores.values() for name in store.class_names]
    assert sorted(names) == sorted({*names})
    assert len(names) == 6


def test_mistakes_with_family_folders_are_one_sentence(
    pictures: Path, tmp_path: Path, tadam: CommandLine
) -> None:
    for name, words in [
        (f"families:{tmp_path / 'none'}", "does not exist: check the path"),
        ("families:", "families: needs a path, as in families:pictures"),
        (f"families:{pictures / 'pets' / 'cat'}", "has no sub-folders: give each family"),
        (f"families:{pictures / 'pets'}", "has no sub-folders: put each class's images"),
    ]:
        assert_one_sentence(tadam("data", "show", name), words)
