"""Lemma 1: the closed forms by hand and by differences, and convergence to both limits."""

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tadam.errors import UserError
from tadam.metric import DISTANCES
from tadam.reproduce.lemma1 import LEMMA1_ALPHAS, class_losses, large_limit, lemma1, small_limit
from tadam.reproduce.lemma1_results import (
    LEMMA1_COLUMNS,
    lemma1_rows,
    load_lemma1,
    reproduce_lemma1,
    write_lemma1,
)
from tadam.reproduce.report import report

# Three queries, three prototypes: the first query is right, the others are not.
D = [[1.0, 2.0, 4.0], [2.0, 3.0, 2.5], [0.5, 1.0, 3.0]]
LABELS = [0, 1, 1]


def gradient(values: torch.Tensor, d: torch.Tensor, k: int) -> list[list[float]]:
    (found,) = torch.autograd.grad(values[k], d, retain_graph=True)
    return found.tolist()


def test_class_losses_follow_the_equation() -> None:
    d, alpha = np.array(D), 0.7
    terms = [alpha * d[i, k] + np.log(np.exp(-alpha * d[i]).sum()) for i, k in enumerate(LABELS)]
    losses = class_losses(torch.tensor(d), torch.tensor(LABELS), alpha)
    np.testing.assert_allclose(losses, [terms[0], terms[1] + terms[2], 0.0], rtol=1e-12)


def test_limits_weigh_distances_as_worked_out_by_hand() -> None:
    d = torch.tensor(D, dtype=torch.float64, requires_grad=True)
    small, large = small_limit(d, torch.tensor(LABELS)), large_limit(d, torch.tensor(LABELS))
    third = 1 / 3
    nothing = [0.0, 0.0, 0.0]
    np.testing.assert_allclose(
        gradient(small, d, 1), [nothing, [-third, 2 * third, -third], [-third, 2 * third, -third]]
    )
    assert gradient(large, d, 0) == [nothing, nothing, nothing]  # no error, nothing to learn
    assert gradient(large, d, 1) == [nothing, [-1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]]


@pytest.mark.parametrize(("alpha", "limit"), [(1e-5, "small"), (1e3, "large")])
def test_limits_agree_with_differences_of_the_loss_in_one_weight(alpha: float, limit: str) -> None:
    support, query, label = np.array([-1.0, 0.5, 2.0]), 1.0, 0  # a query nearest to class 1

    def distances(w: float) -> npt.NDArray[np.float64]:
        return np.asarray(np.abs(np.tanh(w * query) - np.tanh(w * support)))

    def loss_by_alpha(w: float) -> float:
        d = distances(w)
        nearest = d.min()  # taken out of the logarithm, or exp(-1000) is zero
        return float(d[label] - nearest + np.log(np.exp(-alpha * (d - nearest)).sum()) / alpha)

    h = 1e-4
    measured = (loss_by_alpha(0.8 + h) - loss_by_alpha(0.8 - h)) / (2 * h)
    w = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    d = (torch.tanh(w * query) - torch.tanh(w * torch.tensor(support))).abs()[None]
    closed = {"small": small_limit, "large": large_limit}[limit](d, torch.tensor([label]))
    (expected,) = torch.autograd.grad(closed[label], w)
    assert abs(expected.item()) > 0.05
    assert measured == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize(("seed", "distance"), enumerate(DISTANCES))
def test_gradient_approaches_each_limit_at_its_end_and_only_that_one(
    distance: str, seed: int
) -> None:
    result = lemma1(distance, seed)
    small, large = np.array(result.error_to_small_limit), np.array(result.error_to_large_limit)
    below_one = np.array(result.alphas) <= 0.1
    assert (np.diff(small[below_one]) > 0).all()
    assert small[0] < 1e-3
    beyond = np.maximum(large[np.array(result.alphas) >= 30], 1e-12)  # then it is rounding
    assert (np.diff(beyond) <= 0).all()
    assert large[-1] < 1e-3
    assert small[-1] > 0.1
    assert large[0] > 0.1


def test_error_to_the_small_limit_is_of_first_order_in_alpha() -> None:
    error = lemma1(alphas=[1e-5, 1e-4]).error_to_small_limit
    assert error[1] / error[0] == pytest.approx(10, rel=0.01)


def test_extreme_alphas_give_finite_numbers() -> None:
    result = lemma1("sqeuclidean", alphas=[1e-12, 1e12])
    assert result.gradient_norm[0] == pytest.approx(result.small_limit_norm, rel=1e-3)
    assert result.gradient_norm[1] == pytest.approx(result.large_limit_norm, rel=1e-9)


def test_every_query_has_one_nearest_prototype_by_the_margin() -> None:
    assert lemma1("cosine", margin=0.05).smallest_gap >= 0.05


def test_seed_decides_everything_and_the_global_generator_is_left_alone() -> None:
    state = torch.random.get_rng_state()
    assert lemma1(seed=3) == lemma1(seed=3)
    assert lemma1(seed=3).gradient_norm != lemma1(seed=4).gradient_norm
    assert torch.equal(state, torch.random.get_rng_state())


def test_files_hold_what_was_computed(tmp_path: Path) -> None:
    results = [lemma1(distance) for distance in DISTANCES]
    paths = write_lemma1(results, tmp_path)
    names = [f"lemma1.{kind}" for kind in ("json", "md", "csv", "tex", "png")]
    assert [p.name for p in paths] == names
    read = json.loads(paths[0].read_text())
    assert [r["distance"] for r in read] == list(DISTANCES)
    assert read[1]["error_to_large_limit"] == list(results[1].error_to_large_limit)
    table = paths[1].read_text()
    assert table.count("| " + " | ".join(LEMMA1_COLUMNS) + " |") == 3
    assert "| " + " | ".join(lemma1_rows(results[2])[-1]) + " |" in table
    assert paths[2].read_text().count("\n") == 1 + 3 * 17
    assert paths[4].stat().st_size > 10_000


def test_the_command_and_the_machine_are_kept_and_shown(tmp_path: Path) -> None:
    reproduce_lemma1(tmp_path, seed=2)
    for result in json.loads((tmp_path / "lemma1.json").read_text()):
        assert result["origin"]["command"] == "tadam reproduce lemma1 --seed 2"
        assert result["origin"]["machine"]["torch"] == torch.__version__
    for text in ((tmp_path / "lemma1.md").read_text(), report(tmp_path, tmp_path / "page.md")):
        assert text.count("`tadam reproduce lemma1 --seed 2`, 0.") == 1
    stored = json.loads((tmp_path / "lemma1.json").read_text())
    stored[0]["origin"] = {"command": 3}
    (tmp_path / "lemma1.json").write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"lemma1\.json is damaged"):
        load_lemma1(tmp_path / "lemma1.json")


def test_without_matplotlib_the_numbers_are_still_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    paths = write_lemma1([lemma1(alphas=[1.0])], tmp_path)
    assert sorted(paths) == sorted(tmp_path.iterdir())
    assert {p.suffix for p in paths} == {".json", ".md", ".csv", ".tex"}


def test_rows_have_a_cell_for_each_column() -> None:
    rows = lemma1_rows(lemma1())
    assert len(rows) == len(LEMMA1_ALPHAS) == 17
    assert all(len(row) == len(LEMMA1_COLUMNS) for row in rows)
    assert [rows[0][0], rows[-1][0]] == ["0.0001", "1e+04"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"distance": "manhattan"}, "unknown distance 'manhattan': choose one of euclidean"),
        ({"alphas": [1.0, 0.0]}, "alphas must be positive"),
        ({"way": 1}, "way must be 2 or more"),
        ({"margin": 1e9}, "choose another seed"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        lemma1(**wrong)  # type: ignore[arg-type]
