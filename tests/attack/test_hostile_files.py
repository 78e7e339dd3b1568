"""Hostile files in our own formats, and in others': a sentence, always, and nothing half-read."""

import io
import json
import math
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hostile import DEEP, NONSENSE, places, poisoned, rewrite, setting
from readers import READERS, read_classifier, saved_classifier, verdict
from safetensors import safe_open
from safetensors.torch import load, load_file, save_file

import tadam
from command_line import CommandLine, assert_one_sentence
from tadam import FewShotClassifier, UserError
from tadam.data import mini_imagenet
from tadam.data.archive import members
from tadam.models.modelfile import load_model, read_tensors, save_model
from tadam.training.log import read_log
from tiny import SETTINGS, write_image_folder
from toy_backbones import blobs, random_model


def refusal(act: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(UserError) as caught:
        act(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classifier") / "c.tadam"
    saved_classifier(path)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run and, beside it, its images."""
    folder = tmp_path_factory.mktemp("runs")
    images = write_image_folder(folder / "images")
    train(images, folder / "run")
    return folder / "run"


def train(images: Path, folder: Path, resume: bool = False, steps: int = 6) -> None:
    settings = (*SETTINGS, f"schedule.episodes={steps}")
    dataset = f"folder:{images}"
    tadam.train("images", folder, dataset=dataset, settings=settings, device="cpu", resume=resume)


def resume(run: Path) -> None:
    train(run.parent / "images", run, resume=True)


def copied(path: Path, folder: Path) -> Path:
    return Path(shutil.copy(path, folder))


def test_json_nested_a_hundred_thousand_deep_is_a_sentence(
    classifier: Path, run: Path, tmp_path: Path
) -> None:
    deep = rewrite(copied(classifier, tmp_path), text=DEEP)
    assert "not a .tadam file" in refusal(FewShotClassifier.load, deep)
    save_model(tmp_path / "m.safetensors", *random_model())
    assert "nested too deeply" in refusal(
        load_model, rewrite(tmp_path / "m.safetensors", text=DEEP)
    )
    again = shutil.copytree(run, tmp_path / "run")
    rewrite(again / "last.safetensors", text=DEEP)
    with open(again / "log.jsonl", "a") as log:
        log.write(DEEP + '\n{"step": 10}\n')
    assert [r["step"] for r in read_log(again)][-1] == 10
    assert "nested too deeply" in refusal(load_model, again / "last.safetensors")


def test_every_field_of_a_classifier_is_checked(classifier: Path, tmp_path: Path) -> None:
    """Whatever one field holds, the file is refused, or what it says is used without a crash."""
    with safe_open(classifier, framework="pt") as file:
        raw = json.loads(file.metadata()["tadam-classifier"])
    dice, outcomes = np.random.default_rng(0), []
    for place in places(raw):
        for value in dice.permutation(np.array(NONSENSE, dtype=object))[:6]:
            path = copied(classifier, tmp_path)
            rewrite(path, setting(place, value))
            outcomes.append((verdict(read_classifier, path), place, value))
    assert [o for o in outcomes if o[0] not in ("read", "refused")] == []
    assert sum(o[0] == "refused" for o in outcomes) > len(outcomes) / 2


def test_a_classifier_needs_two_classes_and_a_threshold_that_is_a_number(
    classifier: Path, tmp_path: Path
) -> None:
    for place, value, words in (
        (("classes",), ["c0"], "at least two"),
        (("classes",), [], "at least two"),
        (("reject_threshold",), 10**400, "is not a number"),
        (("metric", "power"), 0, "is not a number"),
        (("expected", "caught"), 1.5, "is not a number"),
    ):
        path = copied(classifier, tmp_path)
        rewrite(path, setting(place, value))
        assert words in refusal(FewShotClassifier.load, path)


def test_numbers_that_are_none_are_refused_at_load(classifier: Path, tmp_path: Path) -> None:
    for name, value in (
        ("metric.background", math.nan),
        ("metric.background", math.inf),
        ("metric.alpha", math.nan),
        ("metric.alpha", math.inf),
        ("pixel_std", math.nan),
        ("pixel_std", 0.0),
        ("pixel_std", -1.0),
        ("pixel_mean", math.inf),
        ("support.embeddings", math.nan),
        ("weight", -math.inf),
    ):
        path = rewrite(copied(classifier, tmp_path), tensors=poisoned(name, value))
        sentence = refusal(FewShotClassifier.load, path)
        assert name in sentence, (name, value, sentence)
    save_model(tmp_path / "m.safetensors", *random_model())
    for name, value in (("weight", math.nan), ("running_var", -1.0), ("log_alpha", math.inf)):
        path = copied(tmp_path / "m.safetensors", tmp_path / "copy.safetensors")
        assert name in refusal(load_model, rewrite(path, tensors=poisoned(name, value)))


def test_answers_that_overflow_are_no_probabilities(classifier: Path, tmp_path: Path) -> None:
    path = rewrite(copied(classifier, tmp_path), tensors=poisoned("pixel_std", 1e-38))
    known = FewShotClassifier.load(path, device="cpu")
    with pytest.raises(tadam.RunFailed, match="answers are NaN or infinite"):
        known.predict(blobs(2, 1)[0])


def test_a_flipped_bit_in_a_model_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_model(path, *random_model())
    whole, dice = path.read_bytes(), np.random.default_rng(0)
    for place in dice.integers(8, len(whole), 60):  # anywhere but in the length of the header
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(dice.integers(8))
        path.write_bytes(flipped)
        refusal(load_model, path)


def test_a_model_without_a_checksum_as_0_1_0_wrote_it_still_loads(tmp_path: Path) -> None:
    model, info = random_model()
    save_model(tmp_path / "m.safetensors", model, info)
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        metadata = {key: text for key, text in file.metadata().items() if key != "sha256"}
    assert len(metadata) == 1
    save_file(load_file(tmp_path / "m.safetensors"), tmp_path / "old.safetensors", metadata)
    loaded, _ = load_model(tmp_path / "old.safetensors")
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_counters_of_a_checkpoint_that_are_none_are_refused(run: Path) -> None:
    for name, value in (
        ("step", "three"), ("step", -1), ("step", 1.5), ("step", None), ("best_accuracy", "x"),
        ("best_accuracy", 10**400), ("stale", -3), ("stopped_early", 1), ("seconds", "long"),
        ("best_step", None),
    ):  # fmt: skip
        again = Path(shutil.copytree(run, run.with_name("again"), dirs_exist_ok=True))
        (again / "previous.safetensors").unlink()
        last = again / "last.safetensors"
        rewrite(last, setting(("counters", name), value))
        assert f"damaged training state ({name}" in refusal(resume, again)


def test_a_damaged_checkpoint_names_the_one_before_it_which_then_resumes_to_the_same_bits(
    run: Path, tmp_path: Path
) -> None:
    images = Path(shutil.copytree(run.parent / "images", tmp_path / "images"))
    again = tmp_path / "run"
    train(images, again)
    expected = load((again / "last.safetensors").read_bytes())  # not mapped: the file will change
    assert read_tensors(again / "previous.safetensors")[1].step == 4  # every two steps
    content = bytearray((again / "last.safetensors").read_bytes())
    content[-5] ^= 4
    (again / "last.safetensors").write_bytes(content)
    sentence = refusal(resume, again)
    assert "checksum does not match" in sentence
    assert f"{again / 'previous.safetensors'}, delete {again / 'last.safetensors'}" in sentence
    (again / "last.safetensors").unlink()
    resume(again)
    found = read_tensors(again / "last.safetensors")[0]
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in found)
    steps = [record["step"] for record in read_log(again) if "loss" in record]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_damaged_npz_is_a_sentence(tmp_path: Path) -> None:
    (reader,) = (reader for reader in READERS if reader.name.endswith(".npz"))
    (content, *_) = reader.seeds().values()
    dice, path = np.random.default_rng(5), tmp_path / "few-shot-train.npz"
    head = [*range(200), *range(len(content) - 400, len(content))]
    for _ in range(300):
        damaged = bytearray(content)
        damaged[dice.choice(head)] = int(dice.integers(256))
        path.write_bytes(damaged)
        assert verdict(mini_imagenet._read_npz, path) in ("read", "refused")


def test_an_npz_whose_pixels_are_no_array_is_a_sentence(tmp_path: Path) -> None:
    """Found by atheris."""
    for name in ("features", "targets"):
        path = tmp_path / "few-shot-train.npz"
        np.savez(path, features=np.zeros((2, 84, 84, 3), np.uint8), targets=np.arange(2))
        with zipfile.ZipFile(path) as good:
            contents = {member: good.read(member) for member in good.namelist()}
        with zipfile.ZipFile(path, "w") as bad:
            for member, content in contents.items():
                bad.writestr(member, b"no array" if member == f"{name}.npy" else content)
        assert "is not mini-ImageNet" in refusal(mini_imagenet._read_npz, path)


def test_bad_lzma_and_bad_bzip2_in_a_zip_are_a_sentence(tmp_path: Path) -> None:
    """The options of LZMA are at byte 39 of the file, its stream is behind them."""
    path = tmp_path / "a.zip"
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", method) as archive:
            archive.writestr("a.txt", bytes(range(256)) * 9)
        for place in (39, 44, 50, 60, 70):
            damaged = bytearray(content.getvalue())
            damaged[place] ^= 0x7F
            path.write_bytes(damaged)
            (sentence,) = [refusal(member.read) for member in members(path)]
            assert "a.zip is damaged or truncated" in sentence


def test_a_hostile_classifier_is_a_sentence_for_every_command(
    classifier: Path, tmp_path: Path, tadam: CommandLine
) -> None:
    photos = write_image_folder(tmp_path / "photos", classes=1, images=1)
    changes: list[dict[str, Any]] = [
        {"text": DEEP},
        {"change": setting(("classes",), ["c0"])},
        {"change": setting(("reject_threshold",), 10**400)},
        {"tensors": poisoned("metric.background", math.nan)},
    ]
    for number, change in enumerate(changes):
        path = rewrite(copied(classifier, tmp_path / f"{number}.tadam"), **change)
        for command in (
            ["predict", path, photos, "--report", tmp_path / "r.html"],
            ["export", path, "-o", tmp_path / "x.onnx"],
            ["evaluate", path, photos],
        ):
            assert_one_sentence(tadam(*command), str(path))
    assert not (tmp_path / "x.onnx").exists()


def test_hostile_labels_are_exported_reported_and_listed_as_they_are(
    classifier: Path, tmp_path: Path, tadam: CommandLine
) -> None:
    """Their file is valid, and nothing it says is run or obeyed."""
    names = sorted(["</title><script>alert(1)</script>", "=1+1", "\x1b[2J\ud83d"])
    path = rewrite(
        copied(classifier, tmp_path / "h.tadam"),
        setting(("classes",), names),
    )
    photos = write_image_folder(tmp_path / "photos", classes=1, images=2, side=16)
    page, table = tmp_path / "r.html", tmp_path / "t.csv"
    done = tadam("predict", path, photos, "--report", page, "--csv", table, "--top", "3")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err
    assert "<script>alert" not in page.read_text()
    assert ",=1+1," not in table.read_text()
    assert ",'=1+1," in table.read_text()
