"""Disks that are full or read-only, files that may not be read, plans that do not fit."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from readers import saved_classifier

import tadam as package
from command_line import CommandLine, assert_one_sentence
from tadam.errors import RunFailed, UserError
from tadam.methods.tadam import Tadam
from tiny import SETTINGS, arguments, write_image_folder
from toy_backbones import random_model


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own with 64 kB, 60 of them used."""
    folder = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user may not mount a small file system")
    try:
        (folder / "ballast").write_bytes(b"\0" * 60 * 1024)
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifier") / "c.tadam"
    saved_classifier(path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("photos"), classes=10, images=20)


def test_a_full_disk_is_a_sentence_that_names_the_file(
    full: Path, classifier: Path, photos: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"--csv": full / "out.csv", "--report": full / "out.html"}
    for flag, file in names.items():
        done = tadam("predict", classifier, photos, flag, file)
        assert_one_sentence(done, f"{file} cannot be written", "disk is full", code=1)
    done = tadam("fit", photos, "--model", "fc100", "-o", full / "c.tadam")
    assert_one_sentence(done, f"{full / 'c.tadam'} cannot be written", code=1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(full / "cache"))
    done = tadam("data", "prepare", f"folder:{photos}")
    assert_one_sentence(done, f"{full}/cache/tadam/", "disk is full", code=1)
    left = [path.name for path in full.rglob("*") if path.is_file()]
    assert left == ["ballast"]  # nothing half-written


def test_a_run_on_a_full_disk_ends_in_a_sentence_that_names_the_file(
    full: Path, photos: Path, tadam: CommandLine
) -> None:
    run = full / "run"
    done = tadam(
        "train", "images", "--dataset", f"folder:{photos}", "--out", run, *arguments(SETTINGS)
    )
    assert done.code == 1
    (*_, last) = done.err.strip().split("\n")
    assert last.startswith(f"error: {run}")
    assert "cannot be written" in last


def test_a_cache_that_may_not_be_written_is_an_error_where_filling_it_was_asked_for(
    tmp_path: Path, photos: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def refuse(path: Any, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("tempfile.mkstemp", lambda **options: refuse(options["dir"]))
        done = tadam("data", "prepare", f"folder:{photos}")
    assert_one_sentence(done, str(tmp_path / "cache"), "choose a place you may write to", code=1)


def test_a_recipe_that_may_not_be_read_is_a_sentence(
    tmp_path: Path, tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('extends = "images"\n')
    read = Path.read_bytes

    def refusing(self: Path) -> bytes:
        if self == recipe:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", refusing)
    done = tadam("train", recipe, "--out", tmp_path / "run")
    assert_one_sentence(done, "mine.toml cannot be read (Permission denied)")


def test_a_plan_that_does_not_fit_into_memory_is_refused_before_it_starts(
    tmp_path: Path, photos: Path
) -> None:
    for setting, words in (
        ("episode.tasks=1000000000", "lower episode.tasks"),
        ("auxiliary.batch_size=10000000000", "lower auxiliary.batch_size"),
        ("validation.tasks=1000000000000", "ask for fewer"),
    ):
        for more in ((), ("backbone.statistics=task",)):
            with pytest.raises(UserError, match=r"need at least [\d,]+ GB of memory") as caught:
                package.train(
                    "images",
                    tmp_path / "run",
                    dataset=f"folder:{photos}",
                    settings=(*SETTINGS, setting, *more),
                    device="cpu",
                )
            assert words in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_an_episode_that_is_none_is_a_value_error() -> None:
    model, _ = random_model()
    assert isinstance(model, Tadam)
    images, labels = torch.zeros(2, 4, 3, 16, 16), torch.tensor([[0, 0, 1, 1]] * 2)
    assert model(images, labels, images, 2).isfinite().all()
    empty = torch.zeros(2, 4, 3, 0, 0)
    wrong: list[tuple[Any, ...]] = [
        (empty, labels, empty, 2),
        (images[:, :0], labels[:, :0], images, 2),
        (images, labels + 1, images, 2),
        (images, labels - 1, images, 2),
        (images, labels, images, 3),  # a class without an image
        (images, labels[:, :3], images, 2),
        (images[0], labels[0], images[0], 2),
        (images, labels, images[:1], 2),
    ]
    for episode in wrong:
        with pytest.raises(ValueError, match=r"must be|hold no tasks|every class"):
            model(*episode)


def test_a_log_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    from tadam.training.log import RunLog

    log = RunLog(tmp_path, 0)
    log._file.close()
    log._file = open("/dev/full", "w")  # noqa: SIM115
    with pytest.raises(RunFailed, match=r"log\.jsonl cannot be written, the disk is full"):
        log.write({"step": 1})
