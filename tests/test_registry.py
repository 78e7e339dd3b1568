"""The registry: a name leads to the file of that name, and to nothing outside its package."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tadam.errors import UserError
from tadam.registry import BACKBONES, METHODS, Registry


@dataclass(frozen=True)
class _Settings:
    name: str = "toy"


def test_every_backbone_is_found_by_the_name_of_its_file() -> None:
    files = {"efficientnet_lite0": "efficientnet_lite", "efficientnet_lite2": "efficientnet_lite"}
    foreign = ["hf_encoder", "onnx_encoder"]
    assert BACKBONES.names() == ["conv4", *files, *foreign, "pixels", "resnet12"]
    for name in BACKBONES.names():
        assert BACKBONES.find(name).__module__ == f"tadam.nn.backbones.{files.get(name, name)}"
        assert BACKBONES.settings(name)().name == name


def test_a_file_may_hold_several_whose_names_begin_with_its_own() -> None:
    fresh = "from tadam.registry import BACKBONES; BACKBONES.find('efficientnet_lite2')"
    subprocess.run([sys.executable, "-c", fresh], check=True)


def test_a_class_is_registered_with_its_settings() -> None:
    registry = Registry("toy", "tadam.methods")
    registered = registry.register("toy", _Settings)(int)
    assert (registry.find("toy"), registry.settings("toy"), registered) == (int, _Settings, int)


def test_a_name_is_given_once() -> None:
    registry = Registry("toy", "tadam.methods")
    registry.register("toy", _Settings)(int)
    with pytest.raises(ValueError, match="toy 'toy' is already registered by builtins"):
        registry.register("toy", _Settings)(Registry)


@pytest.mark.parametrize("name", ["os", "..nn.ten", "base.Method", "", "tadam.methods.tadam"])
def test_nothing_outside_the_package_is_imported(name: str) -> None:
    with pytest.raises(
        UserError, match=r"^method\.name must be one of adaresnet, .*tadam(, toy)?, got "
    ):
        METHODS.find(name)


def test_an_unknown_name_comes_with_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"got 'resnet' \(did you mean resnet12\?\)"):
        BACKBONES.find("resnet")


@dataclass(frozen=True)
class _Optional:
    name: str = "toy"
    steps: int | None = None


@dataclass(frozen=True)
class _Nameless:
    name: str = "another"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (_Optional, "setting steps of 'toy' must be a bool, int, float, str"),
        (_Nameless, "must be a dataclass whose `name` is 'toy'"),
        (int, "must be a dataclass whose `name` is 'toy'"),
    ],
)
def test_settings_that_a_recipe_cannot_hold_are_refused(settings: type, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Registry("toy", "tadam.methods").register("toy", settings)


def test_a_file_whose_package_is_missing_is_one_sentence_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sockets_of_a_test"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "broken.py").write_text("import a_package_that_is_not_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("toy", "sockets_of_a_test")
    registry.register("toy", _Settings)(int)
    assert registry.names() == ["toy"]
    with pytest.raises(UserError, match=r"toy 'broken' cannot be loaded: No module named"):
        registry.find("broken")
