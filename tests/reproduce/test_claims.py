"""Claims without a figure: queries that give gradients, and tasks that share classes."""

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine, assert_one_sentence
from tadam.data.store import ImageStore
from tadam.evaluation.measured_data import MeasuredData
from tadam.models.modelfile import save_model
from tadam.reproduce.gradients import gradient_shares, write_gradients
from tadam.reproduce.task_clusters import task_clusters, write_task_clusters
from toy_backbones import blobs, random_model


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a file, and ten classes of coloured images as every split."""
    network, info = random_model()
    save_model(tmp_path / "model.safetensors", network, info)
    images, _ = blobs(10, 12)
    store = ImageStore.from_counts(images, [12] * 10, [f"c{k}" for k in range(10)])
    monkeypatch.setattr(MeasuredData, "load", lambda self, split, progress=None: store)
    return tmp_path / "model.safetensors"


def test_with_a_large_alpha_only_wrongly_assigned_queries_give_gradients(model: Path) -> None:
    result = gradient_shares(model, alphas=[1e-6, 1.0, 1e3, 1e8], tasks=5)
    assert result.shares[0] == 1  # all classes are equally likely
    assert result.weights[0] == pytest.approx(0.8, abs=1e-4)
    assert list(result.shares) == sorted(result.shares, reverse=True)
    assert 0 < result.wrong < 1
    assert result.shares[-1] == pytest.approx(result.wrong)
    assert result.weights[-1] == pytest.approx(result.wrong)


def test_tasks_around_the_same_classes_are_nearer_than_others(model: Path) -> None:
    result = task_clusters(model)
    assert set(result.nearest) == {"mean", "mean_std", "moments"}
    assert result.nearest["mean"] > 2 * result.chance  # colours tell these classes apart
    assert result.ratio["mean"] < 0.9
    assert np.array(result.plane["mean"]).shape == (150, 2)
    assert task_clusters(model) == result


def test_results_are_written_in_every_form_and_foreign_files_are_kept(
    model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shares, clusters = gradient_shares(model, tasks=2), task_clusters(model)
    for _ in range(2):  # its own results may be replaced
        paths = [*write_gradients(out, shares), *write_task_clusters(out, clusters)]
    assert {path.suffix for path in paths} == {".json", ".md", ".csv", ".tex", ".png"}
    assert json.loads((out / "gradients.json").read_text())["wrong"] == shares.wrong
    assert "Section 2.2 claims" in (out / "task-clusters.md").read_text()


def test_the_commands_print_their_tables(model: Path, tmp_path: Path, tadam: CommandLine) -> None:
    for name, words in (("gradients", "wrongly assigned"), ("task-clusters", "Distance ratio")):
        done = tadam("reproduce", name, "--model", model, "--out", tmp_path / "out")
        assert done.code == 0, done.err
        assert words in " ".join(done.out.split())
        made = json.loads((tmp_path / "out" / f"{name}.json").read_text())["origin"]
        command = f"tadam reproduce {name} --model {model} --seed 0"
        assert made["command"] == command
        assert made["machine"]["cpu"]
        assert 0 <= made["minutes"] < 5
        assert f"`{command}`, " in (tmp_path / "out" / f"{name}.md").read_text()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "gradients.csv").write_text("mine")
    done = tadam("reproduce", "gradients", "--model", model, "--out", tmp_path / "mine")
    assert_one_sentence(done, "gradients.csv exists, but what it was made from does not")
