"""Pretraining: the auxiliary updates come first and alone, then few-shot updates alone."""

from pathlib import Path

from tadam.config import Config
from tadam.methods.cotraining import makes_auxiliary_update, makes_few_shot_update
from tadam.training.log import read_log
from tadam.training.run import train
from tiny import SETTINGS, write_image_folder


def test_co_training_makes_a_few_shot_update_in_every_step() -> None:
    config = Config().with_settings(["schedule.episodes=40"])
    assert all(makes_few_shot_update(t, config) for t in range(40))
    assert 0 < sum(makes_auxiliary_update(t, config) for t in range(40)) < 40


def test_pretraining_separates_the_two() -> None:
    config = Config().with_settings(["schedule.episodes=40", "auxiliary.pretraining=0.25"])
    assert [makes_auxiliary_update(t, config) for t in range(40)] == [True] * 10 + [False] * 30
    assert [makes_few_shot_update(t, config) for t in range(40)] == [False] * 10 + [True] * 30


def test_a_run_that_pretrains_logs_one_loss_and_then_the_other(tmp_path: Path) -> None:
    images = write_image_folder(tmp_path / "images")
    settings = [*SETTINGS, "auxiliary.enabled=true", "auxiliary.pretraining=0.5"]
    run = train("images", tmp_path / "run", dataset=f"folder:{images}", settings=settings)
    records = [r for r in read_log(run.folder) if "images_per_second" in r]
    assert [("loss" in r, "auxiliary_loss" in r) for r in records] == (
        [(False, True)] * 3 + [(True, False)] * 3
    )
