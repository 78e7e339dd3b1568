"""The comparison on photos: the rivals are what they say, and the tables hold what was found."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import CommandLine, assert_one_sentence
from tadam.reproduce import rivals
from tadam.reproduce.photos import CONTROL, OURS, compare_photos
from tadam.reproduce.photos_table import accuracy_rows, best_rival, trust_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven kinds of noise, nine pictures each."""
    made = tmp_path_factory.mktemp("photos") / "noise"
    dice = np.random.default_rng(0)
    for kind in range(7):
        (made / str(kind)).mkdir(parents=True)
        colour = dice.integers(0, 200, 3)
        for i in range(9):
            pixels = colour + dice.integers(0, 56, (32, 32, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(made / str(kind) / f"{i}.png")
    return made


def test_every_rival_tells_two_clusters_apart() -> None:
    dice = np.random.default_rng(1)
    labels = np.repeat([0, 1], 6)
    z = rivals.unit(dice.normal(size=(12, 20)) + 4 * np.eye(2, 20)[labels])
    queries = rivals.unit(dice.normal(size=(12, 20)) + 4 * np.eye(2, 20)[labels])
    for name, rival in rivals.RIVALS.items():
        assert (rival(z, labels, queries) == labels).mean() > 0.9, name


def test_logistic_regression_in_the_basis_of_the_support_set_answers_as_it_would_outside() -> None:
    from sklearn.linear_model import LogisticRegression

    dice = np.random.default_rng(2)
    labels = np.arange(5)  # one of each, so that C is not searched for
    z, queries = rivals.unit(dice.normal(size=(5, 40))), rivals.unit(dice.normal(size=(30, 40)))
    plain = LogisticRegression(C=10, max_iter=100).fit(z, labels).predict(queries)
    assert (rivals.regression(z, labels, queries) == plain).all()


def test_all_methods_answer_the_same_tasks(folder: Path) -> None:
    results = compare_photos([str(folder)], "fc100", ways=[3, 50], shots=[1, 3, 20], effort=0.05)
    assert [(c.way, c.shot, c.tasks) for c in results.cells] == [
        (3, 1, 3),
        (3, 3, 3),
        (7, 1, 3),  # there are no more classes
        (7, 3, 3),  # and 20 shots would leave no queries
    ]
    for cell in results.cells:
        methods = {OURS, CONTROL, *rivals.RIVALS} - ({"shrinkage LDA"} if cell.shot == 1 else set())
        assert set(cell.accuracy) == methods
        best = best_rival(cell)
        assert cell.accuracy[best][0] == max(
            cell.accuracy[name][0] for name in rivals.RIVALS if name in methods
        )
        assert cell.lead[best][0] == pytest.approx(cell.accuracy[OURS][0] - cell.accuracy[best][0])
        assert (cell.auroc is None) == (cell.way == 7)  # nothing is left to be unknown
    assert len(accuracy_rows(results)) == 5
    assert len(trust_rows(results)) == 4


def test_the_command_writes_its_tables(folder: Path, tmp_path: Path, tadam: CommandLine) -> None:
    arguments = ["--model", "fc100", "--ways", "2", "--shots", "2", "--effort", "0.02"]
    ran = tadam("reproduce", "photos", folder, *arguments, "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert "best other" in ran.out
    assert json.loads((tmp_path / "photos.json").read_text())["model"] == "fc100"
    assert "| noise, 2-way 2-shot |" in (tmp_path / "photos.md").read_text()
    ran = tadam("reproduce", "photos", folder, *arguments, "--out", tmp_path, "--alone", "--json")
    (cell,) = json.loads(ran.out)["cells"]
    assert (list(cell["accuracy"]), cell["lead"]) == ([OURS], {})
    assert "calibration error" in (tmp_path / "photos-alone.md").read_text()
    assert_one_sentence(tadam("reproduce", "photos", folder, "--ways", "two"), "--ways")
