"""Photos of three subjects, a small random model, and a classifier fitted to them."""

from pathlib import Path

import pytest

from command_line import CommandLine
from photos import write_photos
from tadam.models.modelfile import save_model
from toy_backbones import random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    save_model(path, *random_model())
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"), each=6)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("labelled"), each=6, start=100)


@pytest.fixture
def fitted(tadam: CommandLine, photos: Path, model: Path, tmp_path: Path) -> Path:
    file = tmp_path / "photos.tadam"
    assert tadam("fit", photos, "-o", file, "--model", model).code == 0
    return file
