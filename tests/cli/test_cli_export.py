"""fit, export, and the script of docs/how-to/export.md where neither torch nor tadam is known."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tiny
from command_line import CommandLine, assert_one_sentence
from tadam import FewShotClassifier
from tadam.benchmarks import exported as benchmark
from tadam.classify import export
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.modelfile import ModelInfo, save_model
from tadam.nn.conv_unit import initialise_convolutions

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "export.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """photos/, and flowers.tadam, fitted to them with a conditioned network."""
    root = tmp_path_factory.mktemp("export")
    config, spec = Config().updated({"backbone": {"width": 16}}), InputSpec(3, 16, 0)
    model = Tadam.build(config, spec)
    model.initialise(config, [110.0] * 3, [60.0] * 3)
    initialise_convolutions(model.backbone, "he", torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("gamma0", "beta0")):
                parameter.fill_(0.05)
    save_model(root / "model.safetensors", model, ModelInfo(config, spec))
    photos = tiny.write_image_folder(root / "photos", classes=3, images=4, side=27)
    FewShotClassifier(root / "model.safetensors").fit(photos).save(root / "flowers.tadam")
    return root


def odd_photos(folder: Path) -> list[Path]:
    """Half transparent, with a transparent colour in its palette, and grey in 16 bits."""
    dice = np.random.default_rng(0)
    files = [folder / name for name in ("glass.png", "palette.png", "sixteen-bit.png")]
    Image.fromarray(dice.integers(0, 256, (27, 27, 4), np.uint8)).save(files[0])
    palette = Image.fromarray(dice.integers(0, 256, (27, 27, 3), np.uint8)).quantize(2)
    palette.save(files[1], transparency=1)
    Image.fromarray(dice.integers(0, 65536, (27, 27), np.uint16)).save(files[2])
    return files


def blends(folder: Path) -> list[Path]:
    """Photos between two classes, of which no network can be sure."""
    first, *_, last = (Image.open(file) for file in sorted(folder.glob("photos/*/*.png")))
    files = []
    for percent in range(10, 100, 10):
        files.append(folder / f"blend-{percent}.png")
        Image.blend(first, last, percent / 100).save(files[-1])
    return files


def test_an_exported_file_gives_the_classifiers_answers_by_the_script_of_the_docs(
    tadam: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(benchmark.compare_speed, rounds=1, seconds=0.0)
    monkeypatch.setattr(benchmark, "compare_speed", quick)
    file = folder / "flowers.onnx"
    result = tadam("export", folder / "flowers.tadam", "-o", file, "--benchmark", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert (found["file"], found["classes"]) == (str(file), 3)
    assert found["bytes"] == file.stat().st_size
    assert found["difference"] <= 1e-4
    speeds = found["benchmark"]
    assert speeds["ratio"] == pytest.approx(speeds["onnxruntime"] / speeds["pytorch"])

    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    alone = "\nassert not {'torch', 'tadam'} & set(sys.modules), 'not alone'\n"
    photos = [*sorted(folder.glob("photos/*/*.png")), *odd_photos(folder), *blends(folder)]
    files = list(map(str, photos))
    done = subprocess.run(
        [sys.executable, "-c", script + alone, *files],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    classifier = FewShotClassifier.load(folder / "flowers.tadam")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == files
    assert [row[1] for row in rows] == classifier.predict(files, reject=True).tolist()
    expected = classifier.predict_proba(files).max(axis=1)
    np.testing.assert_allclose([float(row[2]) for row in rows], expected, atol=2e-4)
    assert expected.min() < 0.9  # answers that could differ


def test_export_in_words(
    tadam: CommandLine, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.onnx"

    def run(path: Path, *arguments: object) -> export.Exported:
        return export.Exported(path, 3, 1_234_567, 2.5e-7)

    monkeypatch.setattr(export, "export", run)
    result = tadam("export", folder / "flowers.tadam", "-o", file)
    assert f"written: {file} (1.2 MB, 3 classes; " in result.out
    assert "PyTorch's to 2e-07" in result.out
    speeds = benchmark.Speeds(50.0, 125.0, 2.5, 1, 32, 32)
    monkeypatch.setattr(benchmark, "compare_speed", lambda *arguments: speeds)
    result = tadam("export", folder / "flowers.tadam", "-o", file, "--benchmark")
    assert "onnxruntime 125, PyTorch 50: onnxruntime is 2.50 times as fast" in result.out


def test_nothing_is_replaced_unasked(tadam: CommandLine, folder: Path, tmp_path: Path) -> None:
    file, source = tmp_path / "mine.onnx", folder / "flowers.tadam"
    file.write_text("mine")
    before = source.read_bytes()
    assert_one_sentence(tadam("export", source, "-o", file), "mine.onnx exists", "--force")
    assert_one_sentence(tadam("export", source, "-o", tmp_path, "--force"), "is a folder")
    assert_one_sentence(tadam("export", source, "-o", file / "x"), "mine.onnx is not a folder")
    assert_one_sentence(tadam("export", source, "-o", source, "--force"), "classifier itself")
    assert file.read_text() == "mine"
    assert source.read_bytes() == before


def test_a_missing_classifier_and_a_missing_extra_are_a_sentence(
    tadam: CommandLine, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.onnx"
    assert_one_sentence(tadam("export", tmp_path / "no.tadam", "-o", file), "no.tadam")
    monkeypatch.setattr(export, "NEEDED", ("no_such_module",))
    assert_one_sentence(
        tadam("export", folder / "flowers.tadam", "-o", file), "pip install 'tadam-fewshot[export]'"
    )
    assert not file.exists()


def test_help_fits_a_screen(tadam: CommandLine) -> None:
    assert tadam("export", "--help").out.count("\n") <= 40
