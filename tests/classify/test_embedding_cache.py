"""The cache of embeddings: found again wherever a photo moves, never in the way of an answer."""

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command_line import CommandLine
from photos import write_photos
from tadam.classify import reading
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.embedding_cache import EmbeddingCache, Kept
from tadam.data.decode import decode_upright
from tadam.models.modelfile import save_model
from toy_backbones import random_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmbeddingCache:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return EmbeddingCache()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the photos that were decoded."""
    names: list[str] = []
    decode = decode_upright

    def watched(path: Path, size: int) -> Any:
        names.append(path.name)
        return decode(path, size)

    monkeypatch.setattr(reading, "decode_upright", watched)
    return names


@pytest.fixture
def model(tmp_path: Path) -> Path:
    network, info = random_model(conditioning={"enabled": False})
    save_model(tmp_path / "model.safetensors", network, info)
    return tmp_path / "model.safetensors"


def entries(count: int, size: int = 8) -> dict[bytes, Kept]:
    random = np.random.default_rng(0)
    return {
        bytes([i]) * 20: Kept(random.normal(size=size).astype(np.float32), b"jpeg")
        for i in range(count)
    }


def test_a_second_fit_reads_only_what_is_new_and_learns_the_same(
    cache: EmbeddingCache, model: Path, tmp_path: Path, read: list[str]
) -> None:
    folder = write_photos(tmp_path / "photos")
    plain = FewShotClassifier(model).fit(folder)
    read.clear()
    first = FewShotClassifier(model, cache=True).fit(folder)
    assert len(read) == cache.info().images == 12
    read.clear()
    # One photo moves to another class, one is copied, one is new.
    (folder / "disc" / "0.jpg").rename(folder / "box" / "moved.jpg")
    shutil.copy(folder / "box" / "1.png", folder / "box" / "copied.png")
    shutil.copy(folder / "wedge" / "1.png", folder / "box" / "changed.png")
    with open(folder / "box" / "changed.png", "ab") as file:
        file.write(b"more")
    second = FewShotClassifier(model, cache=True).fit(folder)
    assert read == ["changed.png"]
    expected = FewShotClassifier(model).fit(folder)
    for ours, theirs in ((first, plain), (second, expected)):
        np.testing.assert_allclose(ours.support_embeddings_, theirs.support_embeddings_, atol=1e-6)
        assert (ours.support_labels_ == theirs.support_labels_).all()
        assert ours.support_thumbnails_ == theirs.support_thumbnails_


def test_prediction_uses_it_too_and_a_broken_file_is_still_told(
    cache: EmbeddingCache, model: Path, tmp_path: Path, read: list[str]
) -> None:
    folder = write_photos(tmp_path / "photos")
    (folder / "box" / "00.jpg").write_bytes(b"no photo")
    problems: list[str] = []
    classifier = FewShotClassifier(model, cache=True).fit(folder, problems=problems)
    assert len(problems) == 1
    read.clear()
    again: list[str] = []
    found = classifier.classify(folder, thumbnails=True, problems=again)
    assert (read, again) == (["00.jpg"], problems)
    classifier.cache = False
    expected = classifier.classify(folder, thumbnails=True, problems=[])
    assert [p.path for p in found] == [p.path for p in expected]
    assert [p.thumbnail for p in found] == [p.thumbnail for p in expected]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=1e-6)


def test_another_network_or_image_size_has_embeddings_of_its_own(
    cache: EmbeddingCache, model: Path, tmp_path: Path
) -> None:
    folder = write_photos(tmp_path / "photos")
    other, info = random_model(conditioning={"enabled": False})
    with torch.no_grad():
        next(other.backbone.parameters()).mul_(1.5)
    save_model(tmp_path / "other.safetensors", other, info)
    for i, (name, size) in enumerate(
        [(model, None), (model, 24), (model.parent / "other.safetensors", None)]
    ):
        cached = FewShotClassifier(name, image_size=size, cache=True).fit(folder)
        assert cache.info().images == 12 * (i + 1)
        plain = FewShotClassifier(name, image_size=size).fit(folder)
        np.testing.assert_allclose(cached.support_embeddings_, plain.support_embeddings_, atol=1e-6)


def test_what_cannot_be_told_apart_is_not_kept(cache: EmbeddingCache, tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    own, _ = random_model(conditioning={"enabled": False})
    FewShotClassifier(own, cache=True).fit(folder)  # code of the user's own
    conditioned, info = random_model()
    save_model(tmp_path / "ten.safetensors", conditioned, info)
    FewShotClassifier(tmp_path / "ten.safetensors", cache=True).fit(folder)
    assert cache.info().images == 0


def test_entries_come_back_and_the_least_used_go_first(tmp_path: Path) -> None:
    kept = entries(40, size=1024)
    cache = EmbeddingCache(tmp_path / "c.sqlite", limit=150_000)
    for key, one in kept.items():
        cache.keep({key: one})
        cache.look_up([bytes([0]) * 20])  # the first is used all the time
    found = cache.look_up(list(kept))
    assert 5 < len(found) < 40
    assert {bytes([0]) * 20, bytes([39]) * 20} <= found.keys()
    assert bytes([1]) * 20 not in found
    for key, one in found.items():
        assert (one.z == kept[key].z).all()
        assert one.picture == b"jpeg"
    assert cache.info().bytes <= 150_000
    assert (tmp_path / "c.sqlite").stat().st_mode & 0o077 == 0


def test_damage_costs_time_and_nothing_else(tmp_path: Path) -> None:
    kept = entries(3)
    file = tmp_path / "c.sqlite"
    cache = EmbeddingCache(file)
    cache.keep(kept)
    with sqlite3.connect(file) as database:  # a bit flips in an embedding
        database.execute("UPDATE embeddings SET z = zeroblob(32) WHERE key = ?", [b"\1" * 20])
    assert set(cache.look_up(list(kept))) == {b"\0" * 20, b"\2" * 20}
    for content in (b"not a database", file.read_bytes()[:3000], os.urandom(9000)):
        file.write_bytes(content)
        assert cache.look_up(list(kept)) == {}
        cache.keep(kept)
        assert len(cache.look_up(list(kept))) == 3
    nowhere = EmbeddingCache(file / "c.sqlite")  # below a file
    nowhere.keep(kept)
    assert nowhere.look_up(list(kept)) == {}
    assert nowhere.contents([file, tmp_path / "missing", tmp_path])[1:] == [None, None]


def test_many_may_write_at_once(tmp_path: Path) -> None:
    kept = entries(60)

    def add(key: bytes) -> None:
        EmbeddingCache(tmp_path / "c.sqlite").keep({key: kept[key]})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add, kept))
    assert EmbeddingCache(tmp_path / "c.sqlite").look_up(list(kept)).keys() == kept.keys()


def test_the_command_line_shows_it_clears_it_and_does_without(
    cache: EmbeddingCache, model: Path, tmp_path: Path, tadam: CommandLine, read: list[str]
) -> None:
    folder, file = write_photos(tmp_path / "photos"), tmp_path / "c.tadam"
    assert tadam("cache", "clear").out.startswith("removed 0 embeddings")
    tadam("fit", folder, "-o", file, "--model", model, "--no-cache")
    assert "0 embeddings" in tadam("cache", "info").out
    tadam("fit", folder, "-o", file, "--model", model, "--force")
    assert ": 12 embeddings" in tadam("cache", "info").out
    read.clear()
    assert tadam("predict", file, folder).code == 0
    assert read == []
    assert tadam("predict", file, folder, "--no-cache").code == 0
    assert len(read) == 12
    assert tadam("cache", "clear").out.startswith("removed 12 embeddings")
    assert cache.info().images == 0
