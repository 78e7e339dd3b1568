"""An estimate counts what a real run does, adds it up, and writes nothing."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tadam as package
from command_line import CommandLine, assert_one_sentence
from tadam.config import Config
from tadam.data.episodes import EpisodeSampler
from tadam.evaluation.tasks import evaluate_tasks
from tadam.methods.base import InputSpec, Method
from tadam.methods.tadam import Tadam
from tadam.reports.training_progress import duration
from tadam.training import run
from tadam.training.estimate import Estimate, embedded_images, estimate
from tadam.training.trainer import Trainer
from tiny import SETTINGS, arguments, write_image_folder

#: 17 steps: validations after 5, 10, 15 and the last; the auxiliary probability falls.
LONGER = (*SETTINGS, "schedule.episodes=17", "validation.every=5", "auxiliary.decay=0.8")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image_folder(tmp_path_factory.mktemp("images"))


def estimate_tiny(images: Path, *settings: str) -> Estimate:
    return estimate(
        "images",
        dataset=f"folder:{images}",
        settings=(*LONGER, *settings),
        device="cpu",
        trial_seconds=0.0,
    )


@pytest.mark.parametrize("settings", [(), ("auxiliary.enabled=false", "schedule.episodes=15")])
def test_an_estimate_counts_what_a_real_run_does(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...]
) -> None:
    expected = estimate_tiny(images, *settings)
    calls: Counter[str] = Counter()
    for name in ("step", "_image_update"):
        original = getattr(Trainer, name)

        def counted(
            *args: object, name: str = name, original: Callable[..., Any] = original
        ) -> object:
            calls[name] += 1
            return original(*args)

        monkeypatch.setattr(Trainer, name, counted)

    def validated(*args: object, **kwargs: object) -> object:
        calls["validation"] += 1
        return evaluate_tasks(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "evaluate_tasks", validated)
    package.train(
        "images",
        tmp_path / "run",
        dataset=f"folder:{images}",
        settings=(*LONGER, *settings),
        device="cpu",
    )
    counts = (expected.steps, expected.auxiliary_updates, expected.validations)
    assert counts == (calls["step"], calls["_image_update"], calls["validation"])
    assert expected.auxiliary_updates < expected.steps


def test_steps_with_and_without_an_auxiliary_update_are_tried(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    original = Trainer.step

    def step(self: Trainer, t: int, only: Sequence[str]) -> object:
        result = original(self, t, only)
        seen.append("auxiliary_loss" in result.numbers)
        return result

    monkeypatch.setattr(Trainer, "step", step)
    result = estimate_tiny(images)
    assert seen == [False] * 3 + [True] * 3
    assert result.step_seconds > 0
    assert result.validation_seconds > 0
    assert result.peak_bytes is not None
    assert 10**8 < result.peak_bytes < 10**11


def test_a_runs_time_is_the_sum_of_its_parts() -> None:
    result = Estimate(100, 40, 5, 2.0, 1.5, 10.0, 10**9, "cpu", 0)
    assert result.seconds == 100 * 2.0 + 40 * 1.5 + 5 * 10.0
    assert result.to_json()["seconds"] == result.seconds


def test_a_validation_embeds_each_image_once_and_each_tasks_again_if_conditioned(
    make_store: Callable[..., Any],
) -> None:
    # Both classes and all their 8 images are in every task.
    sampler = EpisodeSampler(make_store([4, 4]), way=2, shot=1, queries=6, seed=0)
    for conditioned, expected in ((False, 8), (True, 8 + 3 * 8)):
        config = Config().updated(
            {"conditioning": {"enabled": conditioned}, "backbone": {"width": 2}}
        )
        model = Tadam.build(config, InputSpec(3, 16, 0))
        assert embedded_images(model, sampler, 3) == expected
    assert embedded_images(Method(), sampler, 3) == 3 * 8


def test_durations_are_written_as_people_say_them() -> None:
    for seconds, text in [
        (0.25, "0.25 s"),
        (45, "45 s"),
        (210, "3.5 min"),
        (15_120, "4 h 12 min"),
        (7_199, "2 h 0 min"),
    ]:
        assert duration(seconds) == text


def test_the_command_prints_an_estimate_and_leaves_no_folder(
    tadam: CommandLine, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("train", "images", "--dataset", f"folder:{images}", *arguments(LONGER), "--estimate")
    result = tadam(*command, "--set", "validation.patience=3")
    assert result.code == 0, result.err
    assert "auxiliary updates" in result.out
    assert "about" in result.out
    assert "peak memory" in result.out
    assert "3 validations without a new best" in result.out
    values = json.loads(tadam(*command, "--json").out)
    assert (values["steps"], values["validations"]) == (17, 4)
    assert values["seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_many_processes_are_not_estimated(
    tadam: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "TORCHELASTIC_RESTART_COUNT": 0}
    for name, value in {**variables, "TORCHELASTIC_RUN_ID": "none"}.items():
        monkeypatch.setenv(name, str(value))
    assert_one_sentence(tadam("train", "shapes", "--estimate"), "run it without torchrun")


def test_a_missing_data_set_is_the_usual_sentence(tadam: CommandLine) -> None:
    ordinary = tadam("train", "shapes", "--dataset", "folder:nowhere")
    assert_one_sentence(ordinary, "nowhere")
    assert tadam("train", "shapes", "--dataset", "folder:nowhere", "--estimate") == ordinary


def test_training_prints_json_when_asked(tadam: CommandLine, images: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = ("train", "images", "--dataset", f"folder:{images}", "--out", out, "--json")
    values = json.loads(tadam(*command, *arguments()).out)
    assert (values["folder"], values["steps"]) == (str(out), 6)
