"""A power cut at any moment of a run, a fit or a write: what was acknowledged is still there."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from power_cut import Disk

import tadam
from tadam import FewShotClassifier
from tadam.data import cache
from tadam.models.modelfile import read_tensors
from tadam.system.files import write_text
from tadam.training import checkpoint
from tadam.training import run as runs
from tadam.training.log import read_log
from tiny import SETTINGS, write_image_folder
from toy_backbones import Colours, blobs

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")


def test_a_checkpoint_that_was_acknowledged_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = write_image_folder(tmp_path / "images")
    home, left = tmp_path / "home", tmp_path / "left"
    home.mkdir()
    disk, acknowledged, cuts = Disk(home), 0, 0
    save = checkpoint.save_state

    def save_state(path: Path, trainer: Any, counters: Any, info: Any) -> None:
        nonlocal acknowledged
        save(path, trainer, counters, info)
        acknowledged = counters.step
        cut()

    def cut() -> None:
        nonlocal cuts
        cuts += 1
        for early in (False, True):
            run = disk.after_a_cut(left, early) / "deep" / "run"
            if not acknowledged:
                continue
            counters = read_tensors(run / "last.safetensors")[2]["counters"]
            assert counters["step"] >= acknowledged
            steps = [record["step"] for record in read_log(run) if "loss" in record]
            assert steps[:acknowledged] == list(range(1, acknowledged + 1))
            if counters["best_step"]:
                assert read_tensors(run / "best.safetensors")[1].step >= counters["best_step"]
            if acknowledged > 2:
                assert read_tensors(run / "previous.safetensors")[1].step >= acknowledged - 2

    monkeypatch.setattr(runs, "save_state", save_state)
    with disk.watching(cut):
        tadam.train(
            "images",
            home / "deep" / "run",
            dataset=f"folder:{images}",
            settings=SETTINGS,
            device="cpu",
        )
    assert acknowledged == 6
    assert cuts > 40


def test_a_run_resumes_from_what_a_power_cut_leaves_with_the_same_bits(tmp_path: Path) -> None:
    images = write_image_folder(tmp_path / "images")
    home, left = tmp_path / "home", tmp_path / "left"
    home.mkdir()

    def train(folder: Path, resume: bool = False) -> dict[str, Any]:
        dataset = f"folder:{images}"
        tadam.train(
            "images", folder, dataset=dataset, settings=SETTINGS, device="cpu", resume=resume
        )
        return read_tensors(folder / "last.safetensors")[0]

    expected = train(tmp_path / "undisturbed")
    disk, moments = Disk(home), 0

    def cut() -> None:
        nonlocal moments
        moments += 1
        if moments == 33:
            disk.after_a_cut(left, early=True)

    with disk.watching(cut):
        train(home / "run")
    found = train(left / "run", resume=(left / "run" / "last.safetensors").exists())
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert np.array_equal(tensor.numpy(), expected[name].numpy()), name


def test_what_was_written_survives_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, left = tmp_path / "home", tmp_path / "left"
    home.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    classifier = FewShotClassifier(Colours()).fit(*blobs(3, 2))
    disk, there = Disk(home), set[str]()

    def cut() -> None:
        for early in (False, True):
            disk.after_a_cut(left, early)
            for name in there:
                assert (left / name).read_bytes() == (home / name).read_bytes()

    with disk.watching(cut):
        for name in ("new/folder/out.csv", "new/folder/out.csv.html", "other/out.csv"):
            write_text(home / name, name)
            there.add(name)
            cut()
        classifier.save(home / "my.tadam")
        there.add("my.tadam")
        cut()
        cache.cached_array("x", (4, 3), lambda out: out.fill(7))
        there.add("cache/tadam/x.npy")
        cut()
    assert len(there) == 5


def test_the_disk_forgets_what_was_not_synced(tmp_path: Path) -> None:
    """The simulation itself: a file that is renamed without a sync is gone, or empty."""
    home, left = tmp_path / "home", tmp_path / "left"
    home.mkdir()
    disk = Disk(home)
    with disk.watching(lambda: None):
        (home / "a").write_text("half")
        os.replace(home / "a", home / "b")
    assert list(disk.after_a_cut(left, early=False).iterdir()) == []
    assert (disk.after_a_cut(left, early=True) / "b").read_bytes() == b""
