"""Exported files: PyTorch's answers at every size, in a process that knows neither it nor us."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from tadam import __version__
from tadam.benchmarks import exported as benchmark
from tadam.benchmarks.exported import compare_speed
from tadam.classify import export
from tadam.classify.adaptive_metric import AdaptiveMetric
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.metric_fit import fit_metric
from tadam.classify.onnx_export import onnx_model
from tadam.classify.predictor import Predictor
from tadam.errors import RunFailed, UserError
from tadam.nn.backbone import Backbone
from tadam.nn.backbones.conv4 import Conv4
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0
from tadam.nn.backbones.pixels import RawPixels
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.film import Film
from tadam.nn.preprocess import Preprocess

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

SIZE = 20  # odd after two pools
CLASSES = ["aster", "Königskerze <&>", "薔薇"]
#: Smaller, exactly the model's, larger, non-square both ways, odd, one pixel.
SHAPES = [(1, 9, 13), (2, 20, 20), (7, 20, 20), (1, 64, 64), (2, 41, 20), (7, 21, 87), (1, 1, 1)]


class SmallNumbers(Preprocess):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) / 8


class Toy(Backbone):
    """A user's own network, with FiLM on its one layer and a preprocessing of its own."""

    conditioned_widths = (6,)
    feature_size = 6

    def __init__(self) -> None:
        super().__init__(channels=3, image_size=SIZE)
        self.preprocess = SmallNumbers(SIZE, [0.0] * 3, [1.0] * 3)
        self.conv = nn.Conv2d(3, 6, 5, stride=3)

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        x = self.conv(x).relu().mean(dim=(2, 3))
        return x * film[0][0] + film[0][1] if film and film[0] else x


def patterned(count: int, height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    """Images of three kinds in turn, (count, height, width, channels): dark, bright and striped."""
    noise = export.random_images(count, height, width, channels).astype(int) // 4
    stripes = np.where(np.arange(width) // 3 % 2, 190, 0)[None, :, None]
    for place, image in enumerate(noise):
        image += (0, 190, stripes)[place % 3]
    return noise.astype(np.uint8)


def predictor_of(backbone: Backbone, distance: str = "euclidean") -> Predictor:
    """Of three classes of three images each that differ clearly, and so do its answers."""
    generator = torch.Generator().manual_seed(0)
    initialise_convolutions(backbone, "he", generator)
    backbone.pixel_mean.fill_(100.0)
    backbone.pixel_std.fill_(60.0)
    film: Film | None = [
        (1 + 0.2 * torch.randn(1, w, generator=generator), torch.randn(1, w, generator=generator))
        for w in backbone.conditioned_widths
    ] or None
    blank = AdaptiveMetric(len(CLASSES), backbone.feature_size)
    predictor = Predictor(backbone.eval(), film, blank).eval()
    images = torch.from_numpy(patterned(9, 33, 33, predictor.channels))
    with torch.no_grad():
        z, labels = predictor.embed(images), torch.arange(9) % 3
        normalised = distance == "cosine"
        predictor.metric, _ = fit_metric(z, labels, 3, normalised=normalised, alpha=20.0)
    return predictor


def mirrored(backbone: Backbone) -> Backbone:
    backbone.mirrored = True
    return backbone


BACKBONES: dict[str, tuple[Callable[[], Backbone], str]] = {
    "pixels": (lambda: RawPixels(3, SIZE), "sqeuclidean"),
    "conv4": (lambda: Conv4(1, width=16, image_size=SIZE), "cosine"),
    "resnet12": (lambda: ResNet12(width=16, image_size=SIZE), "euclidean"),
    "toy": (Toy, "euclidean"),
    "mirrored": (lambda: mirrored(ResNet12(width=16, image_size=SIZE)), "cosine"),
}


@pytest.fixture(scope="module", params=BACKBONES)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Predictor, Path]:
    make, distance = BACKBONES[request.param]
    predictor = predictor_of(make(), distance)
    file = tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx"
    result = export.export(file, predictor, CLASSES, 3.25)
    assert (result.classes, result.bytes) == (3, file.stat().st_size)
    assert result.difference < 1e-4
    return predictor, file


def test_any_batch_of_any_size_gets_pytorchs_answers(exported: tuple[Predictor, Path]) -> None:
    predictor, file = exported
    session = export.session(file)
    for count, height, width in SHAPES:
        images = patterned(count, height, width, predictor.channels)
        with torch.inference_mode():  # with the native core, if there is one
            tensor = torch.from_numpy(images)
            expected = predictor(tensor).numpy()
            strange = predictor.metric.strangeness(predictor.embed(tensor)).numpy()
        probabilities, strangeness = session.run(None, {"images": images})
        assert probabilities.shape == (count, 3)
        np.testing.assert_allclose(probabilities, expected, atol=1e-4)
        np.testing.assert_allclose(strangeness, strange, atol=1e-4, rtol=1e-4)
        assert strangeness.shape == (count,)
        assert expected.max() - expected.min() > 0.05


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_the_shipped_imagenet_model_is_exported(tmp_path: Path) -> None:
    support = export.random_images(6, 70, 90, 3)
    classifier = FewShotClassifier("imagenet", device="cpu").fit(support, [0, 1, 2] * 2)
    file = tmp_path / "imagenet.onnx"
    export.export(file, classifier.predictor_, [0, 1, 2], 1.0)
    images = export.random_images(3, 131, 64, 3)
    probabilities, _ = export.session(file).run(None, {"images": images})
    np.testing.assert_allclose(probabilities, classifier.predict_proba(images), atol=1e-4)


def test_one_file_says_what_it_is_and_nothing_of_this_machine(
    exported: tuple[Predictor, Path],
) -> None:
    _, file = exported
    assert [f.name for f in file.parent.iterdir()] == [file.name]  # no weights beside it
    runtime = export.session(file)
    about = runtime.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == CLASSES
    assert float(about["reject_threshold"]) == 3.25
    assert about["label_type"] == "str"
    assert (about["format"], about["tadam_version"]) == (export.ONNX_FORMAT, __version__)
    assert about["image_size"] == str(SIZE)
    (images,) = runtime.get_inputs()
    assert (images.name, images.type) == ("images", "tensor(uint8)")
    assert images.shape[:3] == ["images", "height", "width"]
    assert [o.name for o in runtime.get_outputs()] == ["probabilities", "strangeness"]
    content = file.read_bytes()
    assert str(Path(export.__file__).parent).encode() not in content
    assert b"stack_trace" not in content


ALONE = """
import json, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
images = numpy.load(sys.argv[2])
numpy.save(sys.argv[3], session.run(["probabilities"], {"images": images})[0])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
assert not {"torch", "tadam"} & set(sys.modules), "not alone"
print(len(classes))
"""


@pytest.mark.parametrize("exported", ["resnet12"], indirect=True)
def test_it_runs_in_a_process_without_torch_and_tadam(
    tmp_path: Path, exported: tuple[Predictor, Path]
) -> None:
    predictor, file = exported
    images = export.random_images(3, 30, 40, predictor.channels)
    np.save(tmp_path / "images.npy", images)
    paths = (file, tmp_path / "images.npy", tmp_path / "answers.npy")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, paths)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    with torch.inference_mode():
        expected = predictor(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(np.load(tmp_path / "answers.npy"), expected, atol=1e-4)


@pytest.mark.parametrize("exported", ["conv4"], indirect=True)
def test_both_speeds_and_their_ratio(
    exported: tuple[Predictor, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, file = exported
    speeds = compare_speed(file, predictor, rounds=1, seconds=0.0)
    assert speeds.ratio == pytest.approx(speeds.onnxruntime / speeds.pytorch)
    times = {"pytorch": [8.0, 8.0, 8.0], "onnxruntime": [4.0, 4.0, 1.0]}
    monkeypatch.setattr(benchmark, "in_turn", lambda *arguments: times)
    assert compare_speed(file, predictor).ratio == 8.0
    assert (speeds.threads, speeds.side) == (torch.get_num_threads(), 2 * SIZE)


@pytest.fixture(scope="module")
def small_model() -> Any:
    """What `onnx_model` gives for `predictor_of(RawPixels(3, 4))`: it takes seconds."""
    graph = export._Graph(predictor_of(RawPixels(3, 4))).eval()
    example = torch.from_numpy(export.random_images(2, 5, 6, 3))
    dynamic = {0: "images", 1: "height", 2: "width"}
    return onnx_model(graph, example, export.INPUT, export.OUTPUTS, dynamic)


@pytest.mark.parametrize("wrong", [0.01, float("nan")])
def test_a_file_that_disagrees_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_model: Any, wrong: float
) -> None:
    right = export._answers
    monkeypatch.setattr(export, "onnx_model", lambda *arguments: small_model)
    file = tmp_path / "old.onnx"
    odd = [os.fsdecode(b"caf\xe9"), "Ω", "c"]  # the first is not text
    export.export(file, predictor_of(RawPixels(3, 4)), odd, 1.0)
    about = export.session(file).get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == odd
    before = file.read_bytes()
    monkeypatch.setattr(
        export, "_answers", lambda *a: [y + wrong * (y.ndim == 2) for y in right(*a)]
    )
    with pytest.raises(RunFailed, match=r"old.onnx was not written: .* differ"):
        export.export(file, predictor_of(RawPixels(3, 4)), CLASSES, 2.0)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


class Stubborn(Toy):
    """Decides by its pixels what to do, which no graph can."""

    def embed(self, x: Tensor, film: Film | None = None) -> Tensor:
        return super().embed(x if x.sum() > 0 else -x, film)


def test_a_network_that_cannot_be_exported_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot be written as ONNX: ") as error:
        export.export(tmp_path / "x.onnx", predictor_of(Stubborn()), CLASSES, 1.0)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "NEEDED", ("no_such_module",))
    with pytest.raises(UserError, match=r"pip install 'tadam-fewshot\[export\]'"):
        export.export(tmp_path / "x.onnx", predictor_of(RawPixels(3, 4)), CLASSES, 1.0)


def test_a_classifier_exports_itself_and_a_path_may_be_text(tmp_path: Path) -> None:
    images = export.random_images(6, 8, 8, 3)
    classifier = FewShotClassifier(RawPixels(3, 8)).fit(images, ["a", "b", "c"] * 2)
    result = classifier.export(str(tmp_path / "x.onnx"))
    assert (result.file, result.classes) == (tmp_path / "x.onnx", 3)
    (found,) = export.session(tmp_path / "x.onnx").run(["probabilities"], {"images": images})
    np.testing.assert_allclose(found, classifier.predict_proba(images), atol=1e-4)
    with pytest.raises(UserError, match="is a folder: name a file in it"):
        classifier.export(tmp_path)
    with pytest.raises(UserError, match="not fitted yet"):
        FewShotClassifier(RawPixels(3, 8)).export(tmp_path / "y.onnx")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "x.onnx"]
