"""Processes that are killed while they write a checkpoint; `make attack` kills twenty of each."""

import os
from pathlib import Path

import kills
import pytest

from tiny import write_image_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

#: Deaths of each kind; few, because each costs the start of Python and PyTorch.
DEATHS = 1


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    kills.train(folder, images, DEATHS)
    return folder


def test_a_process_killed_in_a_checkpoint_resumes_to_the_same_bits(
    images: Path, undisturbed: Path, tmp_path: Path
) -> None:
    assert kills.alone(tmp_path / "run", images, DEATHS, seed=1) == DEATHS
    assert kills.differences(tmp_path / "run", undisturbed) == []


def test_ranks_killed_around_a_checkpoint_resume_to_the_same_bits(
    images: Path, tmp_path: Path
) -> None:
    assert kills.torchrun(tmp_path / "pair", images, DEATHS, seed=3, undisturbed=True) == 0
    assert kills.torchrun(tmp_path / "run", images, DEATHS, seed=3) == DEATHS
    assert kills.differences(tmp_path / "run", tmp_path / "pair") == []


def test_a_worker_of_ray_killed_in_a_checkpoint_resumes_to_the_same_bits(
    images: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", kills.python_path())  # workers import kills
    assert kills.on_ray(tmp_path / "run", images, DEATHS, seed=1) == DEATHS
    assert kills.differences(tmp_path / "run", undisturbed) == []
