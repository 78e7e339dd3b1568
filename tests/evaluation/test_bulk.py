"""Predictions in parts: the answers of `predict`, every image once, whatever dies in between."""

import csv
from pathlib import Path
from typing import Any

import pytest

import tadam.evaluation.bulk as module
from command_line import CommandLine, assert_one_sentence
from photos import write_photos
from tadam.classify.classifier import FewShotClassifier
from tadam.distributed.jobs import Here, Watcher
from tadam.errors import UserError
from tadam.evaluation.bulk import BulkRequest, predict_in_bulk
from tadam.models.modelfile import save_model
from toy_backbones import random_model


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_photos(tmp_path_factory.mktemp("bulk") / "photos", each=5)
    (folder / "box" / "broken.jpg").write_bytes(b"no photo")
    return folder


@pytest.fixture(scope="module")
def classifier(photos: Path) -> Path:
    model, info = random_model(conditioning={"enabled": False})
    save_model(photos.parent / "m.safetensors", model, info)
    file = photos.parent / "c.tadam"
    FewShotClassifier(photos.parent / "m.safetensors").fit(photos, problems=[]).save(file)
    return file


def rows_of(folder: Path) -> list[list[str]]:
    """All rows of a folder of CSV files, without their headers."""
    texts = [file.read_text() for file in sorted(folder.glob("part-*.csv"))]
    return [row for text in texts for row in list(csv.reader(text.splitlines()))[1:]]


def test_the_parts_hold_what_predict_writes(
    tadam: CommandLine, classifier: Path, photos: Path, tmp_path: Path
) -> None:
    assert tadam("predict", classifier, photos, "--csv", tmp_path / "all.csv").code == 0
    expected = list(csv.reader((tmp_path / "all.csv").read_text().splitlines()))
    listed = tmp_path / "list.txt"
    files = sorted(file for file in photos.rglob("*") if file.is_file())
    listed.write_text("\n".join(map(str, files)))
    for source, out in ((photos, tmp_path / "one"), (listed, tmp_path / "other")):
        result = tadam("predict", classifier, source, "--out", out, "--format", "csv")
        assert result.code == 0, result.err
        assert "15 images in 1 files; 1 cannot be read" in result.out
        assert rows_of(out) == expected[1:]
        assert "broken.jpg" in (out / "_skipped.txt").read_text()


def test_parquet_holds_the_same_in_columns(classifier: Path, photos: Path, tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset", reason="needs the extra cluster")
    files = sorted(photos.rglob("*.*"))
    request = BulkRequest(classifier, part_size=4)
    result = predict_in_bulk(request, files, tmp_path / "out", Here(Watcher()))
    assert (result.images, result.skipped, result.parts) == (15, 1, 4)
    table = dataset.dataset(tmp_path / "out", format="parquet").to_table().to_pydict()
    known = FewShotClassifier.load(classifier)
    found = known.classify(files, problems=[])
    assert table["path"] == [p.path for p in found]
    assert table["label"] == [p.label for p in found]
    for k, name in enumerate(known.classes_):
        assert table[f"p({name})"] == pytest.approx([p.probabilities[k] for p in found], abs=1e-6)


def test_what_was_stopped_continues_and_finished_parts_are_not_made_again(
    classifier: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, request = sorted(photos.rglob("*.*")), BulkRequest(classifier, "csv", part_size=3)
    made: list[int] = []

    def counted(**arguments: Any) -> int:
        made.append(arguments["number"])
        if made == [0, 1, 2]:
            raise KeyboardInterrupt
        return original(**arguments)

    original = module.predict_part
    monkeypatch.setattr(module, "predict_part", counted)
    with pytest.raises(KeyboardInterrupt):
        predict_in_bulk(request, files, tmp_path / "out", Here(Watcher()))
    before = [file.stat().st_mtime_ns for file in sorted((tmp_path / "out").glob("part-*"))]
    result = predict_in_bulk(request, files, tmp_path / "out", Here(Watcher()))
    assert made == [0, 1, 2, 2, 3, 4, 5]
    assert result.images == len(rows_of(tmp_path / "out")) == 15
    after = [file.stat().st_mtime_ns for file in sorted((tmp_path / "out").glob("part-*"))]
    assert after[:2] == before


def test_a_folder_is_for_one_prediction(
    tadam: CommandLine, classifier: Path, photos: Path, tmp_path: Path
) -> None:
    files = sorted(photos.rglob("*.*"))
    predict_in_bulk(BulkRequest(classifier, "csv"), files, tmp_path / "out", Here(Watcher()))
    with pytest.raises(UserError, match="predictions of other images, or by another classifier"):
        predict_in_bulk(
            BulkRequest(classifier, "csv"), files[1:], tmp_path / "out", Here(Watcher())
        )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    command = ("predict", classifier, photos)
    for more, words in [
        (("--out", tmp_path / "mine"), "is not empty"),
        (("--out", tmp_path / "o", "--format", "xls"), "--format must be parquet or csv"),
        (("--out", tmp_path / "o", "--csv", tmp_path / "c.csv"), "leave --csv"),
        (("--format", "csv"), "add --out"),
        (("--ray", "local"), "add --out"),
    ]:
        assert_one_sentence(tadam(*command, *more), words)
