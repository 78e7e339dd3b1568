"""The command line: a mistake gets one sentence and exit code 2, and writes nothing."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from tadam.errors import Interrupted
from tadam.native import library
from tiny import SETTINGS, arguments, write_image_folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def trained(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tadam import train

    out = tmp_path_factory.mktemp("runs") / "tiny"
    train("images", out, dataset=f"folder:{images}", settings=SETTINGS, device="cpu")
    return out


def train_arguments(dataset: object, out: Path, *settings: str) -> list[object]:
    changes = arguments((*SETTINGS, *settings))
    return ["train", "images", "--dataset", f"folder:{dataset}", "--out", out, *changes]


def test_help_of_every_command_fits_a_screen_and_needs_no_torch(tadam: CommandLine) -> None:
    commands = ("train", "evaluate", "sweep alpha", "reproduce lemma1", "data show", "demo")
    for command in ((), *(name.split() for name in commands)):
        result = tadam(*command, "--help")
        assert result.code == 0
        assert "Usage: tadam" in result.out
        assert result.out.count("\n") <= 40
    check = "import sys, tadam.cli.app; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_version_is_printed(tadam: CommandLine) -> None:
    assert tadam("--version").out.startswith("tadam 0.")


def test_torchrun_is_refused_where_processes_would_write_over_each_other(
    tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert_one_sentence(tadam("data", "list"), "torchrun", "tadam train")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert tadam("data", "list").code == 0


def test_an_unknown_command_is_bad_usage(tadam: CommandLine) -> None:
    assert tadam("trian").code == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["backbone.wdth=4"], ["backbone.wdth", "backbone.width"]),
        (["backbone.width=wide"], ["backbone.width", "int", "'wide'"]),
        (["backbone.width=true"], ["backbone.width", "int"]),
        (["episode.way=1"], ["episode.way", "at least 2"]),
        (["nonsense"], ["nonsense", "table.key=value"]),
        (["episode.way=9"], ["classes", "9-way"]),
        (["episode.shot=6"], ["class", "6 images", "at least 7"]),
        (["episode.queries=50"], ["queries", "50"]),
        (["validation.queries=50"], ["val split", "50"]),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_writes_nothing(
    tadam: CommandLine, images: Path, tmp_path: Path, settings: list[str], words: list[str]
) -> None:
    result = tadam(*train_arguments(images, tmp_path / "run", *settings))
    assert_one_sentence(result, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_long_run_on_ones_own_images_says_first_how_long_it_takes(
    tadam: CommandLine, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = r"^about [\d.]+ s here \(.*\); you can stop it with Ctrl-C and continue with --resume$"
    short = tadam(*train_arguments(images, tmp_path / "short"))
    assert not re.search(said, short.err, re.M)
    monkeypatch.setattr("tadam.cli.train._SOON_SEEN", 6)
    long = tadam(*train_arguments(images, tmp_path / "long"))
    assert long.code == 0
    assert re.search(said, long.err, re.M), long.err


def test_an_unknown_recipe_is_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    result = tadam("train", "paper-fc100-5shots", "--out", tmp_path / "run")
    assert_one_sentence(result, "paper-fc100-5shots", "did you mean paper-fc100-5shot")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_key_in_a_recipe_file_names_file_and_key(
    tadam: CommandLine, tmp_path: Path
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[episode]\nways = 5\n")
    result = tadam("train", recipe, "--out", tmp_path / "run")
    assert_one_sentence(result, str(recipe), "episode.ways", "episode.way?")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("device", ["cuda", "tpu"])
def test_a_device_that_is_not_there_is_one_sentence(
    tadam: CommandLine, tmp_path: Path, device: str
) -> None:
    result = tadam("train", "shapes", "--device", device, "--out", tmp_path / "run")
    assert_one_sentence(result, device)


def test_an_empty_folder_is_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = tadam(*train_arguments(tmp_path / "empty", tmp_path / "run"))
    assert_one_sentence(result, "empty", "no sub-folders")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("damage", ["text", "truncated"])
def test_a_file_that_is_no_image_is_named_and_nothing_is_written(
    tadam: CommandLine, tmp_path: Path, damage: str
) -> None:
    folder = write_image_folder(tmp_path / "images")
    bad = folder / "class03" / "bad.jpg"
    if damage == "text":
        bad.write_text("I am not a picture")
    else:
        Image.new("RGB", (64, 64), "red").save(bad)
        bad.write_bytes(bad.read_bytes()[:300])
    result = tadam(*train_arguments(folder, tmp_path / "run"))
    assert_one_sentence(result, "bad.jpg", "remove or replace it")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_another_run_is_one_sentence(
    tadam: CommandLine, images: Path, trained: Path
) -> None:
    assert_one_sentence(
        tadam(*train_arguments(images, trained)), "already holds results", "--resume"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--way", 40], ["40-way", "3 classes", "--way"]),
        (["--way", 2, "--shot", 6], ["6-shot", "at least 7"]),
        (["--way", 2, "--queries", 1000], ["1000", "queries"]),
        (["--shot", 1, "--queries", 2, "--way", 2, "--tasks", 0], ["1 task"]),
        (["--split", "tests"], ["'tests'", "train, val, test"]),
    ],
)
def test_an_evaluation_that_the_split_cannot_serve_is_one_sentence(
    tadam: CommandLine, images: Path, trained: Path, arguments: list[object], words: list[str]
) -> None:
    result = tadam("evaluate", trained, "--dataset", f"folder:{images}", *arguments)
    assert_one_sentence(result, *words)


def test_a_model_that_is_not_there_is_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    assert_one_sentence(tadam("evaluate", tmp_path / "no", "--dataset", "shapes"), "no model")
    assert_one_sentence(tadam("evaluate", tmp_path, "--dataset", "shapes"), "best.safetensors")


def test_a_model_for_16_pixels_takes_images_of_32(tadam: CommandLine, trained: Path) -> None:
    result = tadam("evaluate", trained, "--dataset", "shapes", "--tasks", 2, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["tasks"] == 2


def test_evaluate_prints_accuracy_on_and_off_as_json(
    tadam: CommandLine, images: Path, trained: Path
) -> None:
    shape = ("--way", 2, "--shot", 1, "--tasks", 4, "--queries", 6)
    result = tadam("evaluate", trained, "--dataset", f"folder:{images}", *shape, "--json")
    assert result.code == 0
    values = json.loads(result.out)
    assert 0 <= values["accuracy"] <= 1
    assert values["accuracy_unconditioned"] is not None
    assert sum(map(sum, values["confusion"])) == 4 * 6
    even = tadam(
        "evaluate", trained, "--dataset", f"folder:{images}", *shape, "--balanced", "--json"
    )
    drawn, evenly = ([sum(row) % 3 for row in json.loads(text)["confusion"]] for text in (
        result.out, even.out
    ))  # fmt: skip
    assert not any(evenly)  # three of each class in every task
    assert any(drawn)
    table = tadam("evaluate", trained, "--dataset", f"folder:{images}", *shape)
    assert "with conditioning off" in table.out


def test_evaluate_says_what_conditioning_does(
    tadam: CommandLine, images: Path, trained: Path
) -> None:
    shape = ("--way", 2, "--shot", 1, "--tasks", 4, "--queries", 6)
    here = ("evaluate", trained, "--dataset", f"folder:{images}", *shape)
    values = json.loads(tadam(*here, "--json").out)
    assert list(values["controls"]) == ["other", "mean", "unconditioned"]
    for control in values["controls"].values():
        difference = values["accuracy"] - control["accuracy"]
        assert control["difference"] == pytest.approx(difference)
    table = " ".join(tadam(*here).out.split())
    assert "with another task's vectors" in table
    assert values["notes"][0] in table
    alone = tadam(*here, "--within-family")
    assert_one_sentence(alone, "has no families of classes: leave --within-family out")


def test_data_commands_list_prepare_verify_and_show(tadam: CommandLine, tmp_path: Path) -> None:
    folder = write_image_folder(tmp_path / "images")
    assert "shapes" in tadam("data", "list").out
    assert "train: 4 classes, 24 images" in tadam("data", "prepare", f"folder:{folder}").out
    assert "all good" in tadam("data", "verify", f"folder:{folder}").out
    sheet = tmp_path / "sheet.png"
    assert tadam("data", "show", f"folder:{folder}", "--out", sheet).code == 0
    assert Image.open(sheet).width > 300
    assert_one_sentence(tadam("data", "show", f"folder:{folder}", "--out", sheet), "--force")
    (folder / "class00" / "0.png").write_bytes(b"broken")
    result = tadam("data", "verify", f"folder:{folder}")
    assert result.code == 1
    assert "0.png" in result.out


def test_brackets_in_names_are_printed_as_they_are(
    tadam: CommandLine, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "[red]x[/nope]"
    result = tadam(*train_arguments(images, out))
    assert result.code == 0
    assert f"weights in {out}/best.safetensors" in result.out
    sheet = tmp_path / "a[b].png"
    assert str(sheet) in tadam("data", "show", f"folder:{images}", "--out", sheet).out


@pytest.mark.parametrize("out", ["/dev/null/x", "file/run", "file"])
def test_a_place_that_cannot_hold_results_is_one_sentence(
    tadam: CommandLine, images: Any, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / out
    assert_one_sentence(tadam(*train_arguments(images, target)), "is a file", "--out")
    assert_one_sentence(tadam("demo", "--out", target), "is a file", "--out")


def test_the_demo_leaves_other_peoples_folders_alone(tadam: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    assert_one_sentence(tadam("demo", "--out", tmp_path), "holds other files")
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_sweep_that_cannot_start_leaves_nothing_behind(
    tadam: CommandLine, tmp_path: Path
) -> None:
    arguments = ("sweep", "alpha", "shapes", "--values", "1,2", "--out", tmp_path / "sweep")
    assert_one_sentence(tadam(*arguments, "--dataset", "nosuch"), "'nosuch': choose one of")
    assert_one_sentence(tadam(*arguments, "--set", "episode.way=99"), "99-way")
    assert list(tmp_path.iterdir()) == []


def test_lemma1_leaves_earlier_results_alone(tadam: CommandLine, tmp_path: Path) -> None:
    first = tadam("reproduce", "lemma1", "--out", tmp_path, "--json")
    assert first.code == 0
    earlier = {p: p.read_bytes() for p in tmp_path.iterdir()}
    assert tadam("reproduce", "lemma1", "--out", tmp_path, "--json").out == first.out
    other = tadam("reproduce", "lemma1", "--out", tmp_path, "--seed", 1)
    assert_one_sentence(other, "lemma1.json has another seed: choose another --out")
    assert earlier == {p: p.read_bytes() for p in tmp_path.iterdir()}
    (tmp_path / "lemma1.json").unlink()
    assert_one_sentence(tadam("reproduce", "lemma1", "--out", tmp_path), "lemma1.csv exists")


@pytest.mark.parametrize("option", ["--job-cpus", "--job-gpus", "--job-memory"])
def test_resources_of_jobs_need_a_cluster(tadam: CommandLine, tmp_path: Path, option: str) -> None:
    result = tadam("reproduce", "lemma1", "--out", tmp_path / "new", option, "2")
    assert_one_sentence(result, option, "--ray")
    assert list(tmp_path.iterdir()) == []


def test_a_training_state_is_not_a_model(tadam: CommandLine, trained: Path, images: Path) -> None:
    result = tadam("evaluate", trained / "last.safetensors", "--dataset", f"folder:{images}")
    assert_one_sentence(result, "state of a training run", "best.safetensors")


def test_a_recipe_with_nothing_to_learn_is_one_sentence(
    tadam: CommandLine, images: Any, tmp_path: Path
) -> None:
    small = [setting for setting in SETTINGS if not setting.startswith("backbone.width")]
    frozen = ("conditioning.enabled=false", "metric.learn_alpha=false", "auxiliary.enabled=false")
    changes = arguments((*small, "backbone.name=pixels", *frozen))
    dataset = f"folder:{images}"
    result = tadam("train", "images", "--dataset", dataset, "--out", tmp_path / "r", *changes)
    assert_one_sentence(result, "nothing to train")


def test_recipes_are_listed_and_printed_whole(tadam: CommandLine) -> None:
    names = tadam("recipes").out.split()
    assert {"shapes", "images", "paper-fc100-5shot"} <= set(names)
    assert "[optimiser]" in tadam("recipes", "shapes").out


def test_evaluate_knows_the_data_set_of_a_run(
    tadam: CommandLine, images: Path, trained: Path
) -> None:
    shape = ("--way", 2, "--shot", 1, "--tasks", 4, "--queries", 6, "--json")
    own = json.loads(tadam("evaluate", trained, *shape).out)
    named = json.loads(tadam("evaluate", trained, "--dataset", f"folder:{images}", *shape).out)
    assert own["dataset"] == f"folder:{images}"
    assert own["confusion"] == named["confusion"]


def test_a_shipped_model_whose_data_set_is_not_there_is_one_sentence(
    tadam: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TADAM_DATA", "")  # and undoes what --data sets
    result = tadam("evaluate", "fc100", "--data", tmp_path)
    assert_one_sentence(
        result,
        "fc100 is measured on fc100, the data set of its recipe, unless --dataset names another",
        f"fc100 is not in {tmp_path}: run 'tadam data prepare fc100'",
    )
    other = tadam("evaluate", "fc100", "--data", tmp_path, "--dataset", "cub")
    assert_one_sentence(other, "error: cub is not in ")


@pytest.mark.parametrize("stop", [Interrupted("stopped after step 2 of 9"), KeyboardInterrupt()])
def test_what_ctrl_c_says_is_no_error_but_the_command_has_not_succeeded(
    tadam: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    def train(*arguments: object, **options: object) -> None:
        raise stop

    monkeypatch.setattr("tadam.training.run.train", train)
    result = tadam("train", "shapes", "--out", tmp_path / "run")
    assert result.code in (1, 130)
    assert result.err.strip().split()[0] in ("stopped", "Aborted.")


def test_a_missing_native_core_is_a_note_of_one_line(
    tadam: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, photos = warnings.showwarning, write_image_folder(tmp_path / "photos", 2)
    library.loaded.cache_clear()
    monkeypatch.setattr(library, "_FOLDER", tmp_path)
    monkeypatch.setenv("TADAM_NATIVE", "1")
    result = tadam("fit", photos, "-o", tmp_path / "x.tadam", "--model", "fc100")
    library.loaded.cache_clear()
    assert result.code == 0
    notes = [line for line in result.err.splitlines() if "native core" in line]
    assert len(notes) == 1
    assert notes[0].startswith("note: the native core was not built when tadam was installed: ")
    assert warnings.showwarning is shown
