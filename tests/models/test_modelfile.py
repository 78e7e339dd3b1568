"""Model files keep every bit, refuse what does not fit, are written whole or not at all."""

import errno
import hashlib
import json
import shutil
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import tadam.models.modelfile
from reference import random_weights
from tadam.config import Config
from tadam.errors import RunFailed, UserError
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.find import BEST, find_model
from tadam.models.modelfile import ModelInfo, load_model, read_tensors, save_model

SPEC = InputSpec(channels=3, image_size=16, auxiliary_classes=4)


def make_model(seed: int = 0, **tables: Any) -> tuple[Tadam, ModelInfo]:
    """A model with no neutral weight, and its description."""
    config = Config().updated({"backbone": {"width": 2}, **tables})
    model = Tadam.build(config, SPEC)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    weights = random_weights(shapes, seed)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model.eval(), ModelInfo(config, SPEC, 321, {"accuracy": 0.5, "ci95": 0.01})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_model(path, *make_model())
    return path


Change = Callable[[dict[str, Any]], object]


def rewritten(path: Path, change: Change) -> Path:
    """Changes the metadata of a model file in place."""
    tensors, _, raw = read_tensors(path)
    change(raw)
    save_file(tensors, path, metadata={"tadam": json.dumps(raw)})
    return path


def refusal(path: Path | str, load: Callable[[Any], object] = load_model) -> str:
    """The one sentence with which a file is refused; it names the path."""
    with pytest.raises(UserError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("learn_alpha", [True, False])
@pytest.mark.parametrize("backbone", ["resnet12", "conv4"])
def test_every_tensor_survives_bit_for_bit(
    tmp_path: Path, backbone: str, learn_alpha: bool
) -> None:
    model, info = make_model(
        backbone={"name": backbone, "width": 2}, metric={"learn_alpha": learn_alpha}
    )
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_model(tmp_path / "m", model, info)
    loaded, loaded_info = load_model(tmp_path / "m")
    after = loaded.state_dict()
    assert after.keys() == before.keys()
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype, name
        assert torch.equal(after[name], tensor), name
    kinds = {name.rpartition(".")[2] for name in before}
    assert {"log_alpha", "gamma0", "beta0", "running_mean", "running_var"} < kinds
    assert {"pixel_mean", "pixel_std", "num_batches_tracked"} < kinds
    assert loaded_info == info
    assert not loaded.training
    assert ("metric.log_alpha" in dict(loaded.named_parameters())) == learn_alpha


def test_a_loaded_model_gives_the_same_logits_with_conditioning_on_and_off(tmp_path: Path) -> None:
    model, info = make_model()
    save_model(tmp_path / "m", model, info)
    loaded, _ = load_model(tmp_path / "m")
    images = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (1, 8, 3, 16, 16), np.uint8)
    )
    labels = torch.tensor([[0, 0, 1, 1]])
    results = {}
    with torch.no_grad():
        for condition in (True, False):
            arguments = (images[:, :4], labels, images[:, 4:], 2, condition)
            results[condition] = loaded(*arguments)
            assert torch.equal(results[condition], model(*arguments))
    assert (results[True] - results[False]).abs().max() > 1e-2


def test_a_truncated_file_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for keep in (0, 4, 0.5, 0.99):
        saved.write_bytes(data[: keep if isinstance(keep, int) else int(len(data) * keep)])
        assert "not a complete safetensors file" in refusal(saved)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for data in [b"PK\x03\x04 a pickle, say", b"\xff" * 5000, b"hello\nworld\n"]:
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        assert refusal(path).endswith("is not a complete safetensors file: copy or create it again")


def test_a_safetensors_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    for metadata in [
        None,
        {"format": "pt"},
        {"tadam": "not JSON"},
        {"tadam": "[]"},
        {"tadam": "{}"},
    ]:
        path = tmp_path / "model.safetensors"
        save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
        assert "was not written by tadam" in refusal(path)


@pytest.mark.parametrize(
    ("old", "new", "tensor"),
    [
        ("width = 2", "width = 3", "auxiliary_head.weight"),
        ('layers = "all"', 'layers = "last"', "ten.conditioners.0"),
        ('representation = "mean"', 'representation = "mean_std"', "project.weight"),
    ],
)
def test_a_recipe_that_the_tensors_do_not_fit_is_refused(
    saved: Path, old: str, new: str, tensor: str
) -> None:
    def change(raw: dict[str, Any]) -> None:
        assert old in raw["recipe"]
        raw["recipe"] = raw["recipe"].replace(old, new)

    message = refusal(rewritten(saved, change))
    assert "does not fit the architecture it names" in message
    assert tensor in message


def test_a_false_claim_of_a_huge_model_is_refused_by_its_shapes(saved: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["spec"]["auxiliary_classes"] = 10**13  # 600 TB, were it built

    assert "auxiliary_head.bias" in refusal(rewritten(saved, change))


def test_a_missing_and_a_surplus_tensor_are_refused(saved: Path) -> None:
    tensors, _, raw = read_tensors(saved)
    metadata = {"tadam": json.dumps(raw)}
    save_file({**tensors, "zz": torch.zeros(1)}, saved, metadata=metadata)
    assert "zz is (1,) torch.float32, expected absent" in refusal(saved)
    del tensors["metric.log_alpha"]
    save_file(tensors, saved, metadata=metadata)
    assert "metric.log_alpha is absent, expected ()" in refusal(saved)


def test_another_format_number_asks_for_an_upgrade(saved: Path) -> None:
    message = refusal(rewritten(saved, lambda raw: raw.update(format=2)))
    assert "format 2" in message
    assert "upgrade tadam" in message


def test_an_unknown_recipe_key_is_named(saved: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["recipe"] += "\n[future]\nx = 1\n"

    assert "unknown key future" in refusal(rewritten(saved, change))


def test_an_impossible_input_is_refused(saved: Path) -> None:
    specs: list[dict[str, Any]] = [
        {"channels": 2},
        {"image_size": 8},
        {"image_size": 10**6},
        {"auxiliary_classes": -1},
        {"auxiliary_classes": 10**19},
        {"channels": "three"},
        {"surprise": 1},
    ]
    for spec in specs:

        def change(raw: dict[str, Any], spec: dict[str, Any] = spec) -> None:
            raw["spec"].update(spec)

        refusal(rewritten(Path(shutil.copy(saved, saved.with_name("copy"))), change))


def test_a_step_that_is_not_a_number_is_refused(saved: Path) -> None:
    for step in ["many", float("inf"), None]:

        def change(raw: dict[str, Any], step: object = step) -> None:
            raw["step"] = step

        refusal(rewritten(Path(shutil.copy(saved, saved.with_name("copy"))), change))


def test_a_missing_file_a_folder_and_a_classifier_are_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.safetensors"
    assert "does not exist: check the path" in refusal(path, read_tensors)
    assert "is a folder: name a file" in refusal(tmp_path, read_tensors)
    assert "there is no model" in refusal(path)
    assert f"has no {BEST}" in refusal(tmp_path)
    save_file({"a": torch.zeros(1)}, tmp_path / "c.tadam", metadata={"tadam-classifier": "{}"})
    assert "is a classifier, not a model: " in refusal(tmp_path / "c.tadam")
    assert "there is no model" in refusal(path, find_model)


def test_a_folder_stands_for_its_best_weights(tmp_path: Path) -> None:
    assert f"has no {BEST}" in refusal(tmp_path, find_model)
    save_model(tmp_path / BEST, *make_model())
    assert find_model(tmp_path) == find_model(str(tmp_path)) == tmp_path / BEST
    assert find_model(tmp_path / BEST) == tmp_path / BEST


def test_a_failing_save_leaves_the_old_file_and_no_other(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def half(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tadam.models.modelfile, "save_file", half)
    with pytest.raises(RunFailed, match=r"model\.safetensors cannot be written, the disk is full"):
        save_model(saved, *make_model(seed=1))
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_save_replaces_the_old_file_and_leaves_no_other(saved: Path) -> None:
    model, info = make_model(seed=1)
    save_model(saved, model, info)
    assert torch.equal(load_file(saved)["backbone.pixel_mean"], model.backbone.pixel_mean)
    assert list(saved.parent.iterdir()) == [saved]


def test_a_model_is_loaded_by_name_by_text_by_folder_and_by_file(tmp_path: Path) -> None:
    model, info = make_model()
    save_model(tmp_path / BEST, model, info)
    for given in (tmp_path, str(tmp_path), tmp_path / BEST, str(tmp_path / BEST)):
        loaded, found = load_model(given)
        assert found == info
        assert torch.equal(loaded.state_dict()["backbone.pixel_mean"], model.backbone.pixel_mean)
    shipped, about = tadam.load_model("fc100")
    assert about.config.data.name == "fc100"
    assert not shipped.training
    assert "there is no model 'fc1000': " in refusal("fc1000")


def test_shipped_weights_have_a_checksum() -> None:
    found = sorted(Path(str(resources.files("tadam") / "weights")).glob("*.safetensors"))
    assert len(found) >= 3
    for path in found:
        with safe_open(path, framework="np") as file:
            assert file.metadata().keys() == {"tadam", "sha256"}, path
            text, sha256 = file.metadata()["tadam"], file.metadata()["sha256"]
            digest = hashlib.sha256(text.encode())
            for name in sorted(file.keys()):
                array = file.get_tensor(name)
                digest.update(f"{name} torch.{array.dtype} {array.shape}\n".encode())
                digest.update(array.tobytes())
        assert digest.hexdigest() == sha256
