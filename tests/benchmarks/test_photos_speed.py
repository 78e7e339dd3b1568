"""The benchmark of photos: both sides classify the same files, and give the same answers."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tadam.benchmarks import photos_speed
from tadam.benchmarks.photos_speed import loop, ours, read_only, write_photos

pytest.importorskip("onnxruntime", reason="needs the extra imagenet")


def test_the_loop_answers_as_we_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos_speed, "_CLASSES", 3)
    monkeypatch.setattr(photos_speed, "_SIDES", (96, 64))
    write_photos(tmp_path, 7)
    mine, theirs = (
        list(csv.reader(text.splitlines())) for text in (ours(tmp_path), loop(tmp_path, 1))
    )
    assert [row[:2] for row in mine] == [row[:2] for row in theirs]
    assert len(mine) == read_only(tmp_path) == 7
    # They scale photos with Pillow, which rounds to whole numbers.
    np.testing.assert_allclose(
        [[float(p) for p in row[2:]] for row in mine],
        [[float(p) for p in row[2:]] for row in theirs],
        atol=0.02,
    )
