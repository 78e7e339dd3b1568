"""Figure 3: the multipliers of trained models, from a reproduction's runs or from others."""

import json
from pathlib import Path

import pytest

from command_line import CommandLine, assert_one_sentence
from made_up_runs import made_up
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.models.find import BEST
from tadam.models.modelfile import ModelInfo, save_model
from tadam.reproduce.experiments import Cell, Request
from tadam.reproduce.figure3 import figure3_rows, load_figure3, markdown, reproduce_figure3
from tadam.reproduce.result import save_result

SPEC = InputSpec(3, 16, 0)
TADAM = Config().updated({"backbone": {"width": 1}, "auxiliary": {"enabled": False}})
PLAIN = TADAM.updated({"conditioning": {"enabled": False}})


def write_model(folder: Path, gamma0: float, config: Config = TADAM) -> Path:
    """A model whose layer i has gamma0 * i and beta0 = -1/i."""
    model = Tadam.build(config, SPEC)
    if model.ten is not None:
        for i, layer in model.ten.conditioners.items():
            layer.get_parameter("gamma0").data.fill_(gamma0 * (int(i) + 1))
            layer.get_parameter("beta0").data.fill_(-1 / (int(i) + 1))
    folder.mkdir(parents=True)
    save_model(folder / BEST, model, ModelInfo(config, SPEC))
    return folder


def test_values_of_all_models_and_their_medians(tmp_path: Path) -> None:
    runs = [write_model(tmp_path / name, g) for name, g in (("a", 0.1), ("b", -0.3), ("c", 0.2))]
    figure, paths = reproduce_figure3(tmp_path / "out", models=runs)
    names = [f"figure3.{kind}" for kind in ("json", "md", "csv", "tex", "png")]
    assert [path.name for path in paths] == names
    stored = json.loads(paths[0].read_text())
    assert [model["model"] for model in stored["models"]] == [str(run) for run in runs]
    assert stored["models"][1]["gamma0"]["12"] == pytest.approx(-3.6)
    assert stored["medians_of_sizes"]["gamma0"]["3"] == pytest.approx(0.6)
    assert stored["medians_of_sizes"]["beta0"]["4"] == pytest.approx(0.25)
    assert figure3_rows(figure)[9] == ["10", "2", "1", "3", "0.1", "0.1", "0.1"]
    assert len(figure3_rows(figure)) == 12
    assert markdown(load_figure3(paths[0])) == markdown(figure) == paths[1].read_text()
    assert "In the paper, |gamma0| grows towards the last layer" in paths[1].read_text()
    assert paths[4].stat().st_size > 10_000
    command = f"tadam reproduce figure3 --dataset fc100 --models {runs[0]} --models {runs[1]} "
    assert stored["origin"]["command"].startswith(command)
    assert f"`{command}" in paths[1].read_text()


def test_models_that_were_never_conditioned_are_drawn_without_their_zeros(tmp_path: Path) -> None:
    _, paths = reproduce_figure3(tmp_path / "out", models=[write_model(tmp_path / "a", 0.0)])
    assert paths[2].exists()


def test_finished_conditioned_runs_of_the_folder_are_found(tmp_path: Path) -> None:
    table3, figure4 = Request("table3"), Request("figure4")
    for request, cell, seed in (
        (table3, Cell("tadam"), 0),
        (table3, Cell("tadam"), 1),
        (table3, Cell("alpha-tc", 1), 0),
        (table3, Cell("plain"), 0),
        (figure4, Cell("alpha-5"), 0),
        (Request("table3", preset="paper"), Cell("tadam"), 0),
        (Request("table3-fair"), Cell("alpha-tc"), 0),
        (Request("figure4", shots=(1,)), Cell("alpha-5", 1), 0),
    ):
        run = write_model(tmp_path / request.stem / cell.folder(seed), 0.1)
        save_result(run, made_up(request, cell, seed, 0.5, 1.0))
    write_model(tmp_path / "table3" / "tadam-5shot-seed2", 0.1)  # in training
    figure, _ = reproduce_figure3(tmp_path)
    assert [model.model for model in figure.models] == [
        "table3/alpha-tc-1shot-seed0",
        "table3/tadam-5shot-seed0",
        "table3/tadam-5shot-seed1",
        "table3-paper/tadam-5shot-seed0",
        "table3-fair/alpha-tc-5shot-seed0",
        "figure4/alpha-5-5shot-seed0",
        "figure4-1shot/alpha-5-1shot-seed0",
    ]


def test_mistakes_are_one_sentence(tadam: CommandLine, tmp_path: Path) -> None:
    command = ["reproduce", "figure3", "--out", tmp_path / "out"]
    words = "has no trained model with task conditioning: reproduce the rows alpha-tc and tadam"
    assert_one_sentence(tadam(*command), words, "name runs with --models")
    plain = write_model(tmp_path / "plain", 0.0, PLAIN)
    assert_one_sentence(tadam(*command, "--models", plain), "plain has no task conditioning")
    assert_one_sentence(tadam(*command, "--models", tmp_path / "none"), "there is no model")
    assert_one_sentence(tadam(*command, "--dataset", "cub"), "--dataset takes fc100")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["figure3.json", "figure3.md"])
def test_a_users_own_files_are_not_replaced(tadam: CommandLine, tmp_path: Path, name: str) -> None:
    model = write_model(tmp_path / "tadam", 0.1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    command = ["reproduce", "figure3", "--out", tmp_path / "out", "--models", model]
    assert_one_sentence(tadam(*command), str(tmp_path / "out" / name))
    assert (tmp_path / "out" / name).read_text() == "mine"
    (tmp_path / "out" / name).unlink()
    assert [tadam(*command).code for _ in range(2)] == [0, 0]  # an earlier figure is drawn again
