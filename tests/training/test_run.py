"""Runs: resuming bit for bit after a real kill, Ctrl-C, divergence; nothing is overwritten."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tadam
from as_tadam import as_tadam
from readings import Readings
from tadam.config import Config
from tadam.data.store import ImageStore
from tadam.errors import RunFailed, UserError
from tadam.recipes import resolve
from tadam.system.folder_lock import locked
from tadam.training.log import read_log
from tadam.training.run import TrainingResult, _Run, prepare
from tadam.training.trainer import StepResult, Trainer
from tiny import SETTINGS, arguments, write_image_folder

LONG = (*SETTINGS, "schedule.episodes=60", "validation.every=20", "run.checkpoint_every=7")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


def start(images: Path, out: Path, optimiser: str, *extra: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tadam", "train", "images", "--out", str(out), *extra]
    command += ["--dataset", f"folder:{images}", *arguments((*LONG, optimiser))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for_step(out: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if (out / "log.jsonl").exists() and any(r["step"] >= step for r in read_log(out)):
            return
        time.sleep(0.005)
    raise AssertionError(f"step {step} was not reached: {process.communicate()}")


def assert_same_tensors(one: Path, other: Path) -> None:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def log_without_times(folder: Path) -> list[dict[str, object]]:
    noisy = ("seconds", "images_per_second")
    return [{k: v for k, v in r.items() if k not in noisy} for r in read_log(folder)]


def test_a_run_killed_twice_and_resumed_ends_bit_for_bit_like_one_never_killed(
    images: Path, tmp_path: Path
) -> None:
    optimiser = "optimiser.name=adamw"  # has the most to keep; SGD is interrupted below
    whole = start(images, tmp_path / "whole", optimiser)
    assert whole.wait(120) == 0, whole.communicate()
    killed = tmp_path / "killed"
    for step in (9, 33):
        process = start(images, killed, optimiser, "--resume")
        wait_for_step(killed, step, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    last = start(images, killed, optimiser, "--resume")
    assert last.wait(120) == 0, last.communicate()

    for name in ("last.safetensors", "best.safetensors"):
        assert_same_tensors(tmp_path / "whole" / name, killed / name)
    # Checkpoints add log records, so the resumed log must agree with no record missing.
    assert log_without_times(tmp_path / "whole") == log_without_times(killed)


def test_ctrl_c_leaves_a_checkpoint_of_the_last_step_and_says_how_to_resume(
    images: Path, tmp_path: Path
) -> None:
    process = start(images, tmp_path / "run", "optimiser.name=sgd")
    wait_for_step(tmp_path / "run", 5, process)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    stopped = json.loads(_metadata(tmp_path / "run" / "last.safetensors"))["counters"]["step"]
    assert stopped == read_log(tmp_path / "run")[-1]["step"] >= 5


def _metadata(path: Path) -> str:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return str(file.metadata()["tadam"])


def run_tiny(images: Path, out: Path, *settings: str, resume: bool = False) -> TrainingResult:
    return tadam.train(
        "images",
        out,
        dataset=f"folder:{images}",
        settings=(*SETTINGS, *settings),
        resume=resume,
        device="cpu",
    )


@pytest.mark.parametrize("step", [3, 6])  # a validation, and the last step
def test_an_interruption_at_a_validation_loses_nothing(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    whole = run_tiny(images, tmp_path / "whole")
    original = Trainer.step

    def interrupted(self: Trainer, t: int) -> StepResult:
        if t == step - 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, t)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        if step < 6:
            with pytest.raises(RunFailed, match=f"stopped after step {step} of 6"):
                run_tiny(images, tmp_path / "run")
        else:
            run_tiny(images, tmp_path / "run")
    resumed = run_tiny(images, tmp_path / "run", resume=True)
    assert resumed.best_accuracy == whole.best_accuracy
    assert log_without_times(tmp_path / "whole") == log_without_times(tmp_path / "run")
    for name in ("last.safetensors", "best.safetensors"):
        assert_same_tensors(tmp_path / "whole" / name, tmp_path / "run" / name)


def test_a_run_that_died_before_its_first_checkpoint_may_be_started_again(
    images: Path, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    for folder in (run, other):
        folder.mkdir()
        config = resolve("images", SETTINGS, f"folder:{images}")
        (folder / "recipe.toml").write_text(config.to_toml())
        (folder / "log.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (run / ".last.safetensors.a1b2c3_d.tmp").write_bytes(b"half")  # killed while it was written
    run_tiny(images, run)
    assert len([r for r in read_log(run) if r["step"] == 1]) == 1
    with pytest.raises(UserError, match=r"backbone\.width: 3 != 2"):
        run_tiny(images, other, "backbone.width=3")


def test_a_users_own_recipe_or_log_is_not_replaced(images: Path, tmp_path: Path) -> None:
    config = resolve("images", SETTINGS, f"folder:{images}")
    mine = "# why I chose this\n" + config.to_toml()
    recipe = tmp_path / "mine" / "recipe.toml"
    recipe.parent.mkdir()
    recipe.write_text(mine)
    with pytest.raises(UserError, match="already holds results: add `resume`"):
        run_tiny(images, recipe.parent)
    run_tiny(images, recipe.parent, resume=True)
    assert recipe.read_text() == mine
    (tmp_path / "log.jsonl").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        run_tiny(images, tmp_path)


def test_a_finished_run_whose_best_weights_are_gone_says_so(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    (tmp_path / "run" / "best.safetensors").unlink()
    with pytest.raises(UserError, match=r"best\.safetensors is gone"):
        run_tiny(images, tmp_path / "run", resume=True)


def test_a_damaged_log_does_not_prevent_resuming(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    with open(tmp_path / "run" / "log.jsonl", "ab") as file:
        file.write(b'\xff\xfe\n{"step": "x"}\n[1]\n{"step": 9')
    run_tiny(images, tmp_path / "run", resume=True)
    assert {r["step"] for r in read_log(tmp_path / "run")} == {1, 2, 3, 4, 5, 6}


def test_a_run_leaves_recipe_log_best_and_last_behind(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "best.safetensors",
        "last.safetensors",
        "log.jsonl",
        "previous.safetensors",
        "recipe.toml",
    ]
    assert [r["step"] for r in read_log(tmp_path / "run") if "val_accuracy" in r] == [3, 6]
    result = tadam.evaluate(tmp_path / "run", f"folder:{images}", way=2, shot=1, tasks=2, queries=3)
    assert (result.way, result.shot, result.tasks, result.queries) == (2, 1, 2, 3)
    assert sum(map(sum, result.confusion)) == 2 * 3


def test_a_folder_with_a_run_is_not_overwritten(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match="already holds results"):
        run_tiny(images, tmp_path / "run")
    with pytest.raises(UserError, match=r"backbone\.width: 3 != 2"):
        run_tiny(images, tmp_path / "run", "backbone.width=3", resume=True)
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}


def test_a_folder_has_one_run_at_a_time(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with locked(out / ".lock", out), pytest.raises(RunFailed, match="is still writing to"):
        run_tiny(images, out)
    assert not list(out.iterdir())
    run_tiny(images, out)
    assert not (out / ".lock").exists()


def test_a_folder_with_other_files_is_not_written_to(images: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        run_tiny(images, tmp_path, resume=True)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_resuming_a_finished_run_changes_nothing(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    weights = (tmp_path / "run" / "last.safetensors").read_bytes()
    run_tiny(images, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == weights


def test_a_truncated_checkpoint_is_refused_in_one_sentence(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    last = tmp_path / "run" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"last\.safetensors is not a complete safetensors file"):
        run_tiny(images, tmp_path / "run", resume=True)


def test_a_diverging_loss_stops_the_run_and_keeps_the_last_good_checkpoint(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = _Run._record

    def poisoned(self: _Run, window: object) -> object:
        if self.counters.step == 5:
            with torch.no_grad():
                next(self.trainer.model.parameters()).fill_(float("nan"))
        return original(self, window)  # type: ignore[arg-type]

    monkeypatch.setattr(_Run, "_record", poisoned)
    with pytest.raises(RunFailed, match="loss became nan by step 6: training diverged") as caught:
        run_tiny(images, tmp_path / "run")
    assert "last good checkpoint" in str(caught.value)
    tensors = load_file(tmp_path / "run" / "last.safetensors")
    assert all(torch.isfinite(t).all() for t in tensors.values())


def test_between_two_log_records_nothing_waits_for_the_device(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    original = Trainer.step

    def counting(self: Trainer, t: int) -> StepResult:
        counts.append(readings.count)
        return original(self, t)

    monkeypatch.setattr(Trainer, "step", counting)
    settings = ("run.log_every=4", "run.checkpoint_every=99", "validation.every=99")
    with Readings() as readings:
        run_tiny(images, tmp_path / "run", *settings, "schedule.episodes=9")
    read = [after - before for before, after in itertools.pairwise(counts)]
    assert [steps > 0 for steps in read] == [False, False, False, True] * 2  # logged: 4 and 8


def test_patience_stops_a_run_whose_validation_does_not_improve(
    images: Path, tmp_path: Path
) -> None:
    settings = ("optimiser.learning_rate=1e-12", "validation.every=1", "validation.patience=2")
    result = run_tiny(images, tmp_path / "run", *settings, "schedule.episodes=50")
    assert result.steps < 50


def test_tensorboard_gets_the_same_numbers_when_asked_for(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run", "run.tensorboard=true")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = read_log(tmp_path / "run")
    for name in ("loss", "val_accuracy", "alpha"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        expected = [(record["step"], record[name]) for record in logged if name in record]
        assert expected
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("setting", "way"), [("validation.way=2", 2), ("validation.way=0", 3)])
def test_validation_has_its_own_way_or_that_of_training(
    make_store: Callable[..., ImageStore], monkeypatch: pytest.MonkeyPatch, setting: str, way: int
) -> None:
    store = make_store([6] * 4, size=16)
    splits = {"train": store, "val": store, "test": store}
    monkeypatch.setattr("tadam.training.run.load_splits", lambda *_: splits)
    config = Config().with_settings([*SETTINGS, "episode.way=3", setting])
    trainer, validation = prepare(config, "cpu")
    assert trainer.config.episode.way == 3
    assert validation.way == way


def test_rotated_classes_are_added_to_training_but_not_to_validation(
    make_store: Callable[..., ImageStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store([6] * 4, size=16)
    splits = {"train": store, "val": store, "test": store}
    monkeypatch.setattr("tadam.training.run.load_splits", lambda *_: splits)
    config = Config().with_settings([*SETTINGS, "augment.rotated_classes=true"])
    trainer, validation = prepare(config, "cpu")
    assert len(trainer.store.class_names) == 16
    head = as_tadam(trainer.model).auxiliary_head
    assert head is not None
    assert head.out_features == 16
    assert validation.store is store


def test_classes_that_are_already_rotated_are_refused(
    make_store: Callable[..., ImageStore],
) -> None:
    with pytest.raises(UserError, match="rot000' is already a rotated class"):
        make_store([6] * 4, size=16).rotated().rotated()


def test_a_run_without_its_checkpoint_is_not_overwritten(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    for name in ("last", "previous"):
        (tmp_path / "run" / f"{name}.safetensors").unlink()
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(UserError, match=r"last\.safetensors is gone: put it back"):
        run_tiny(images, tmp_path / "run", resume=True)
    assert before == {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}


def test_best_weights_in_place_of_the_checkpoint_are_refused(images: Path, tmp_path: Path) -> None:
    run_tiny(images, tmp_path / "run")
    best = (tmp_path / "run" / "best.safetensors").read_bytes()
    (tmp_path / "run" / "last.safetensors").write_bytes(best)
    with pytest.raises(UserError, match="holds weights but no training state"):
        run_tiny(images, tmp_path / "run", resume=True)


def test_leftovers_of_killed_runs_are_removed(images: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_tiny(images, run)
    (run / ".last.safetensors.a1b2c3_d.tmp").write_bytes(b"half")
    run_tiny(images, run, resume=True)
    assert not list(run.glob(".*"))


def test_divergence_that_only_a_validation_shows_is_one_sentence(
    images: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunFailed, match="diverged"):
        run_tiny(
            images, tmp_path, "optimiser.name=sgd", "optimiser.learning_rate=1e30",
            "schedule.episodes=1", "validation.every=1", "auxiliary.enabled=false",
        )  # fmt: skip


def test_a_full_disk_is_one_sentence(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("tadam.models.modelfile.save_file", full)
    with pytest.raises(RunFailed, match=r"safetensors cannot be written: .* No space left"):
        run_tiny(images, tmp_path / "run")


def test_a_folder_whose_classes_have_changed_is_neither_trained_on_nor_tested(
    tmp_path: Path,
) -> None:
    images = write_image_folder(tmp_path / "images")
    run_tiny(images, tmp_path / "run")
    arguments = (tmp_path / "run", f"folder:{images}", "test", 2, 2, 3, 4)
    assert tadam.evaluate(*arguments).tasks == 3
    for name in ("aster", "begonia", "crocus"):
        shutil.copytree(images / "class00", images / name)
    with pytest.raises(UserError, match=r"was trained on \d classes of the test split"):
        tadam.evaluate(*arguments)
    with pytest.raises(UserError, match="the training classes differ from those in"):
        run_tiny(images, tmp_path / "run", "auxiliary.enabled=true", resume=True)


@pytest.mark.parametrize("name", ["x" * 300, "gone/run"])
def test_a_folder_that_cannot_be_created_is_one_sentence(
    images: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="choose another"):
        run_tiny(images, tmp_path / name)
