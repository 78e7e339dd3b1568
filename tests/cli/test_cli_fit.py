"""`tadam fit`: which model it took, what that costs, and where the classifier may go."""

import json
from pathlib import Path

import pytest

from command_line import CommandLine, assert_one_sentence
from tadam.models import find as models
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite0


def test_the_model_is_always_named(
    tadam: CommandLine, photos: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "default_model", lambda: "fc100")
    file = tmp_path / "x.tadam"
    result = tadam("fit", photos, "-o", file, "--model", model)
    assert f"with the model {model}\n" in result.out
    result = tadam("fit", photos, "-o", file, "--force")
    assert "3 classes from 18 images, with the model fc100\n" in result.out
    result = tadam("fit", photos, "-o", file, "--force", "--json")
    assert json.loads(result.out)["model"] == "fc100"


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("installed", [False, True])
def test_a_model_that_is_worse_for_want_of_an_extra_is_told_in_one_line(
    tadam: CommandLine,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,
    named: bool,
) -> None:
    monkeypatch.setattr(EfficientNetLite0, "is_installed", classmethod(lambda cls: installed))
    if installed:  # whatever this machine has: the question is only whether there is a note
        monkeypatch.setattr(models, "find_model", lambda name: models.WEIGHTS / "no.such")
    chosen = ["--model", "fc100"] if named else []
    result = tadam("fit", photos, "-o", tmp_path / "x.tadam", *chosen)
    notes = [line for line in result.err.splitlines() if line.startswith("note: ")]
    if installed or named:
        assert notes == []
        return
    assert result.code == 0
    (note,) = notes
    assert "27 and 55 points of accuracy on the photos we tried" in note
    assert note.endswith("pip install 'tadam-fewshot[imagenet]'")
    assert "with the model fc100" in result.out


def test_a_classifier_is_not_written_under_the_name_of_an_onnx_file(
    tadam: CommandLine, photos: Path, model: Path, tmp_path: Path
) -> None:
    result = tadam("fit", photos, "-o", tmp_path / "x.onnx", "--model", model)
    assert_one_sentence(result, "not ONNX", f"'tadam export {tmp_path / 'x.tadam'} -o ")
    assert list(tmp_path.iterdir()) == []
