"""Reproductions from end to end: killed and resumed, done once, never mixed with other settings."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, assert_one_sentence
from tadam.distributed.jobs import Cluster, Ended, Job, Watcher
from tadam.reproduce.table_text import notes, texts
from tadam.reproduce.tables import load_table
from tadam.training.log import read_log
from tadam.training.trainer import StepResult, Trainer
from tiny import SETTINGS, write_image_folder

#: The shots are what --shots says.
CHANGES = tuple(s for s in SETTINGS if not s.startswith("episode.shot"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"), images=8)


@pytest.fixture
def tiny(images: Path) -> list[str]:
    """Options for runs of a second."""
    return options(images)


def options(images: Path, *more: str) -> list[str]:
    changes = (f"data.name=folder:{images}", *CHANGES, *more)
    return [*(part for c in changes for part in ("--set", c)), "--tasks", "6", "--device", "cpu"]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every training step actually made."""
    made: list[int] = []
    original = Trainer.step

    def step(self: Trainer, t: int) -> StepResult:
        made.append(t)
        return original(self, t)

    monkeypatch.setattr(Trainer, "step", step)
    return made


def facts(run: dict[str, Any]) -> dict[str, Any]:
    """A result without what may differ between two runs of it."""
    noisy = ("training_minutes", "evaluation_minutes", "date")
    return {name: value for name, value in run.items() if name not in noisy}


def test_a_table_is_run_written_and_kept(
    tadam: CommandLine, tiny: list[str], tmp_path: Path, steps: list[int]
) -> None:
    command = ["reproduce", "table3", "--shots", "1", "--out", tmp_path, *tiny]
    first = tadam(*command, "--rows", "tadam", "--json")
    assert first.code == 0, first.err
    assert len(steps) == 6
    stored = json.loads(first.out)
    assert stored == json.loads((tmp_path / "table3.json").read_text())
    rows = {row["row"]: row for row in stored["rows"]}
    (run,) = rows["tadam"]["runs"]
    assert [len(row["runs"]) for row in stored["rows"]] == [0, 0, 0, 0, 1]
    assert 0 <= run["accuracy_unconditioned"] <= 1
    assert (run["way"], run["shot"], run["tasks"], run["queries"]) == (2, 1, 6, 4)
    assert run["settings"]["backbone"]["width"] == 2
    assert run["changes"][1:] == list(CHANGES)
    assert run["command"].startswith("tadam reproduce table3 --dataset fc100 --preset cpu --rows")
    assert run["machine"]["device"] == "cpu"
    assert run["training_minutes"] > 0

    steps.clear()  # the run that is there is not made again, another one is added
    second = tadam(*command, "--rows", "plain,tadam", "--seeds", "0")
    assert second.code == 0, second.err
    assert len(steps) == 6
    assert "not run" in second.out
    words = " ".join(second.out.split())  # where lines break depends on the length of the path
    assert "Changed from the preset: data.name=folder:" in words
    again = json.loads((tmp_path / "table3.json").read_text())
    assert again["rows"][4]["runs"] == [run]
    assert again["rows"][0]["runs"][0]["accuracy_unconditioned"] is None
    assert "not run" in (tmp_path / "table3.md").read_text()
    assert (tmp_path / "table3.png").stat().st_size > 5_000

    steps.clear()
    assert tadam(*command, "--rows", "plain,tadam").code == 0
    assert steps == []


def test_the_test_number_is_what_evaluate_says_of_the_best_weights(
    tadam: CommandLine, tiny: list[str], images: Path, tmp_path: Path
) -> None:
    run = tadam("reproduce", "table2", "--rows", "cosine", "--out", tmp_path, *tiny, "--json")
    assert run.code == 0, run.err
    (result,) = json.loads(run.out)["rows"][1]["runs"]
    command = ["evaluate", tmp_path / "table2" / "cosine-5shot-seed0", "--way", 2, "--queries", 4]
    checked = tadam(*command, "--dataset", f"folder:{images}", "--tasks", 6, "--json")
    assert result["accuracy"] == json.loads(checked.out)["accuracy"]
    log = read_log(tmp_path / "table2" / "cosine-5shot-seed0")
    validations = {r["step"]: r["val_accuracy"] for r in log if "val_accuracy" in r}
    assert result["validation_accuracy"] == max(validations.values())
    assert validations[result["best_step"]] == max(validations.values())


def test_a_reproduction_killed_in_training_resumes_and_ends_the_same(
    tadam: CommandLine, images: Path, tmp_path: Path
) -> None:
    long = ("schedule.episodes=60", "validation.every=20", "run.checkpoint_every=7")
    command = ["reproduce", "table2", "--rows", "cosine", *options(images, *long), "--out"]
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    killed = subprocess.Popen(
        [sys.executable, "-m", "tadam", *command, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run = folder / "table2" / "cosine-5shot-seed0"
    deadline = time.monotonic() + 120
    while not ((run / "log.jsonl").exists() and any(r["step"] >= 9 for r in read_log(run))):
        assert killed.poll() is None, killed.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    assert killed.returncode == -signal.SIGKILL
    assert not (run / "result.json").exists()

    resumed = tadam(*command, folder)
    assert resumed.code == 0, resumed.err
    assert "resuming after step" in resumed.err
    assert tadam(*command, whole).code == 0
    results = [
        json.loads((out / "table2" / run.name / "result.json").read_text())
        for out in (whole, folder)
    ]
    assert facts(results[0]) == facts(results[1])
    assert results[0]["best_step"] in (20, 40, 60)


def test_ctrl_c_says_that_the_same_command_continues(
    tadam: CommandLine, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trainer.step

    def step(self: Trainer, t: int) -> StepResult:
        if t == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, t)

    command = ["reproduce", "table2", "--rows", "euclidean,cosine", "--out", tmp_path, *tiny]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        stopped = tadam(*command)
    assert stopped.code == 1
    sentence = "stopped with 0 of 2 runs done: run the same command again to continue"
    assert stopped.err.splitlines()[-1] == sentence
    resumed = tadam(*command)
    assert resumed.code == 0
    assert "resuming after step 5 of 6" in resumed.err


def test_other_settings_are_refused_and_nothing_is_touched(
    tadam: CommandLine, tiny: list[str], tmp_path: Path, steps: list[int]
) -> None:
    command = ["reproduce", "table2", "--rows", "cosine", "--out", tmp_path]
    assert tadam(*command, *tiny).code == 0
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    steps.clear()
    assert_one_sentence(
        tadam(*command, *tiny, "--set", "backbone.width=3"),
        "holds a reproduction with other settings (changes: ",
        "backbone.width=3 here,",
        "choose another --out",
    )
    assert_one_sentence(tadam(*command, "--rows", "euclidean"), "changes: none here,")
    assert steps == []
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_the_other_preset_has_files_and_runs_of_its_own(
    tadam: CommandLine, tiny: list[str], tmp_path: Path
) -> None:
    command = ["reproduce", "table2", "--rows", "cosine", "--out", tmp_path, *tiny]
    assert tadam(*command).code == 0
    before = (tmp_path / "table2.json").read_bytes()
    done = tadam(*command, "--preset", "paper")
    assert done.code == 0, done.err
    assert (tmp_path / "table2.json").read_bytes() == before
    stored = json.loads((tmp_path / "table2-paper.json").read_text())
    assert stored["preset"] == "paper"
    assert (tmp_path / "table2-paper" / "cosine-5shot-seed0" / "result.json").exists()


def test_a_run_that_diverges_is_a_result_of_an_ablation(
    tadam: CommandLine, images: Path, tmp_path: Path, steps: list[int]
) -> None:
    wild = options(images, "run.max_loss=0.001")
    command = ["reproduce", "learning-rate", "--rows", "rate-0.01", "--out", tmp_path]
    done = tadam(*command, *wild)
    assert done.code == 0, done.err
    run = tmp_path / "learning-rate" / "rate-0.01-5shot-seed0"
    assert not (run / "result.json").exists()
    stored = json.loads((tmp_path / "learning-rate.json").read_text())
    assert stored["rows"][4]["runs"] == []
    assert stored["rows"][4]["diverged"] == [json.loads((run / "diverged.json").read_text())]
    table = load_table(tmp_path / "learning-rate.json")
    assert [cells[3] for cells in texts(table)] == ["not run"] * 4 + ["diverged"]
    (note,) = [note for note in notes(table) if "diverged" in note]
    assert note.startswith("rate-0.01-5shot-seed0 diverged: loss became ")
    assert "(`tadam reproduce learning-rate --dataset fc100 --preset cpu --rows rate-0.01" in note
    assert note in (tmp_path / "learning-rate.md").read_text()

    steps.clear()  # it would diverge again
    assert tadam(*command, *wild).code == 0
    assert tadam(*command, *wild, "--estimate").code == 0
    assert steps == []
    (run / "diverged.json").write_text("3")
    assert_one_sentence(tadam(*command, *wild), "diverged.json is damaged: remove its folder")
    table2 = tadam("reproduce", "table2", "--rows", "cosine", "--out", tmp_path, *wild)
    assert table2.code == 1
    assert "training diverged" in table2.err


def test_a_run_of_another_version_of_its_recipe_is_refused(
    tadam: CommandLine, tiny: list[str], tmp_path: Path
) -> None:
    command = ["reproduce", "table2", "--rows", "cosine", "--out", tmp_path, *tiny]
    assert tadam(*command).code == 0
    recipe = tmp_path / "table2" / "cosine-5shot-seed0" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("momentum = 0.9", "momentum = 0.8"))
    assert_one_sentence(tadam(*command), "another recipe (optimiser.momentum: 0.9 != 0.8)")


def test_other_files_are_left_alone(tadam: CommandLine, tiny: list[str], tmp_path: Path) -> None:
    (tmp_path / "table3").mkdir()
    (tmp_path / "table3" / "notes.txt").write_text("mine")
    command = ["reproduce", "table3", "--out", tmp_path, *tiny]
    assert_one_sentence(tadam(*command), "holds other files: choose a new folder with --out")


@pytest.mark.parametrize("name", ["table3.json", "table3.md", "table3.png"])
def test_results_without_their_runs_are_left_alone(
    tadam: CommandLine, tiny: list[str], tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    command = ["reproduce", "table3", "--out", tmp_path, *tiny]
    words = f"{name} exists, but what it was made from does not: choose another --out"
    assert_one_sentence(tadam(*command), words)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(name, "mine")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["table3", "--rows", "plane"], "unknown row 'plane': --rows takes plain"),
        (["table3", "--shots", "3"], "unknown number of shots 3: --shots takes 1, 5, 10"),
        (["table3", "--shots", "five"], "--shots must be numbers such as 1,5, got 'five'"),
        (["table3", "--seeds", "0,-1"], "--seeds must be between 0 and"),
        (["table3", "--seeds", ""], "--seeds must be numbers such as 1,5, got ''"),
        (["table2", "--train-way", "10"], "--train-way takes 5, 20"),
        (["table2", "--preset", "gpu"], "--preset takes cpu, paper"),
        (["figure4", "--values", "1,0"], "metric.alpha must be above 0"),
        (["figure4", "--values", "2,2.0"], "--values must differ"),
        (["figure4", "--shot", "1,5"], "one number of shots: choose one with --shots"),
        (["figure4", "--dataset", "shapes"], "--dataset takes fc100, mini_imagenet"),
        (["omniglot", "--rows", "10shot"], "--rows takes 1shot, 5shot"),
        (["all", "--set", "run.seed=3"], "--seeds decides it"),
        (["table3", "--set", "backbone.widht=3"], "did you mean backbone.width?"),
        (["table3", "--data", "nowhere"], "fc100 is not in"),
        (["table3", "--job-cpus", "2"], "add --ray"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing_behind(
    tadam: CommandLine,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TADAM_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    assert_one_sentence(tadam("reproduce", *arguments), words)
    assert list(tmp_path.iterdir()) == []


class Elsewhere:
    """A cluster, as far as a job can tell: jobs arrive pickled, and so do their results."""

    watcher = Watcher()

    def run(self, jobs: Sequence[Job[Any]]) -> Generator[Ended[Any], None, None]:
        for index, job in reversed(list(enumerate(jobs))):
            there = pickle.loads(pickle.dumps(job))
            assert there.folder.is_absolute()
            yield index, pickle.loads(pickle.dumps(there.run()))


def test_on_ray_the_same_runs_are_made(
    tadam: CommandLine, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters: list[Cluster | None] = []

    @contextmanager
    def open_pool(cluster: Cluster | None, watcher: Watcher) -> Iterator[Elsewhere]:
        clusters.append(cluster)
        yield Elsewhere()

    command = ["reproduce", "table2", "--rows", "euclidean,cosine", "--json", *tiny, "--out"]
    here = tadam(*command, tmp_path / "here")
    monkeypatch.setattr("tadam.reproduce.runs.open_pool", open_pool)
    there = tadam(*command, tmp_path / "there", "--ray", "local", "--job-cpus", "1")
    assert there.code == 0, there.err
    assert clusters == [Cluster("local", cpus=1)]
    runs = [
        [facts(run) for row in json.loads(result.out)["rows"] for run in row["runs"]]
        for result in (here, there)
    ]
    assert runs[0] == runs[1]
    assert [run["row"] for run in runs[0]] == ["euclidean", "cosine"]
