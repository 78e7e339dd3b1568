"""The comparison behind the model `imagenet`, on tiny data; its figures by hand and by NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tadam.reproduce.imagenet as module
from tadam.models.modelfile import read_tensors
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0
from tadam.nn.square import square
from tadam.reproduce.imagenet import (
    Look,
    compare,
    framed,
    prepared,
    prototype_accuracy,
    regression_accuracy,
    tasks,
    write_models,
)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name in ("birds", "hats"):
        for k in range(3):
            folder = tmp_path / "photos" / name / f"class{k}"
            folder.mkdir(parents=True)
            colour = random.integers(0, 200, 3)
            for i in range(7):
                noise = random.integers(0, 56, (30, 40, 3))
                Image.fromarray((colour + noise).astype(np.uint8)).save(folder / f"{i}.png")
    return tmp_path / "photos"


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_it_measures_every_variant_on_every_kind_of_photo(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = (Look(EfficientNetLite0, 32), Look(EfficientNetLite0, 40, "pad"))
    monkeypatch.setattr(module, "LOOKS", looks)
    rows = compare(photos, tmp_path, count=4, seed=0)
    kinds = [(r.size, r.framing, r.features, r.mirrored) for r in rows]
    variants = [(f, m) for f in ("before", "after") for m in (False, True)]
    assert kinds == [(look.size, look.framing, *v) for look in looks for v in variants]
    for row in rows:
        assert row.milliseconds > 0
        for found in (row.prototypes, row.regression):
            assert set(found) == {"birds", "hats"}
            assert all(set(by_shot) == {1, 5} for by_shot in found.values())
    assert rows[1].milliseconds == 2 * rows[0].milliseconds
    content = json.loads((tmp_path / "comparison.json").read_text())
    assert [r["size"] for r in content["rows"]] == [32] * 4 + [40] * 4


def test_a_crop_is_what_the_models_see_and_the_other_framings_show_it_all() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 60, 3)).astype(np.uint8)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    torch.testing.assert_close(framed(pixels, 20, "crop"), square(images, 20)[0])
    white = np.full((30, 60, 3), 255, np.uint8)
    torch.testing.assert_close(framed(white, 20, "squeeze"), torch.full((3, 20, 20), 255.0))
    padded = framed(white, 20, "pad").round()
    assert (padded[:, 5:15] == 255).all()
    assert (padded[:, :5] == 127).all()
    assert (padded[:, 15:] == 127).all()


def test_tasks_have_their_own_images_and_do_not_change_with_their_number() -> None:
    labels = np.repeat(np.arange(4), [9, 9, 7, 3])
    few, many = (list(tasks(labels, 5, count, seed=3)) for count in (2, 5))
    for (a, b), (c, d) in zip(few, many, strict=False):
        assert (a == c).all()
        assert (b == d).all()
    for support, query in many:
        assert (support.shape, query.shape) == ((3, 5), (3, 2))  # the class of 3 is too small
        rows = np.concatenate([support, query], axis=1)
        assert len(np.unique(rows)) == rows.size
        assert (labels[rows] == labels[rows[:, :1]]).all()


def test_accuracies_are_those_of_the_nearest_prototype_and_of_a_line_between_classes() -> None:
    support = np.array([[[2.0, 0.1]], [[0.1, 3.0]]], np.float32)  # 2 classes, 1 shot
    query = np.array([[[5.0, 1.0], [1.0, 4.0]], [[0.0, 1.0], [0.2, 9.0]]], np.float32)
    s, q = prepared(support, query)
    np.testing.assert_allclose(np.linalg.norm(s, axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(s.mean(axis=(0, 1)), 0, atol=1e-6)
    assert prototype_accuracy(s, q) == 0.75  # the second query of the first class is nearer to
    assert regression_accuracy(s, q) == 0.75  # the other


def test_the_models_that_it_writes_are_the_shipped_ones(tmp_path: Path) -> None:
    from tadam.models.find import WEIGHTS

    write_models(tmp_path)
    for name in module.SHIPPED:
        mine, info, _ = read_tensors(tmp_path / f"{name}.safetensors")
        shipped, as_shipped, _ = read_tensors(WEIGHTS / f"{name}.safetensors")
        assert info == as_shipped
        assert mine.keys() == shipped.keys()
        assert all(torch.equal(mine[key], shipped[key]) for key in mine)
