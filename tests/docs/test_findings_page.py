"""docs/explain/findings.md says what the stored results say."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from tadam.reproduce.published import numbers, snell

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "explain" / "findings.md").read_text(encoding="utf-8").split())


def rows(experiment: str) -> dict[str, list[dict[str, Any]]]:
    """Row -> its runs."""
    table = json.loads((DOCS / "results" / f"{experiment}.json").read_text(encoding="utf-8"))
    return {row["row"]: row["runs"] for row in table["rows"]}


def accuracies(experiment: str) -> dict[str, list[float]]:
    """Row -> test accuracy of each run, in percent."""
    return {row: [100 * run["accuracy"] for run in runs] for row, runs in rows(experiment).items()}


def test_table_2_scaling_lifts_the_cosine_distance() -> None:
    means = {name: f"{fmean(values):.1f}" for name, values in accuracies("table2-paper").items()}
    change = f"from {means['cosine']} to {means['cosine-scaled']} %"
    assert f"{change}, beside {means['euclidean']} % for the Euclidean" in PAGE


def test_table_3_row_against_row() -> None:
    found = accuracies("table3")
    text = {name: " and ".join(f"{v:.1f}" for v in values) for name, values in found.items()}
    assert f"{text['alpha']} % beside {text['plain']} % without (two seeds)" in PAGE
    assert f"{text['tadam']} % (two seeds) beside {text['alpha-at']} % without it" in PAGE
    assert f"{text['alpha-tc']} beside {text['alpha']} % without co-training" in PAGE
    mean = {name: fmean(values) for name, values in found.items()}
    gains = mean["alpha-at"] - mean["alpha"], mean["tadam"] - mean["alpha-tc"]
    assert "rows with it are {:.0f} to {:.0f} points higher".format(*gains) in PAGE
    paper = numbers()["table3"]["fc100"]
    below = [paper[name]["5"][0] - mean[name] for name in found]
    assert f"Every row is {int(min(below))} to {int(max(below)) + 1} points below" in PAGE


def test_table_3_conditioning_off() -> None:
    runs = rows("table3")["tadam"]
    off = [100 * run["accuracy_unconditioned"] for run in runs]
    gain = fmean(off) - fmean(100 * run["accuracy"] for run in runs)
    assert f"gains {gain:.1f} points here ({off[0]:.1f} and {off[1]:.1f} %)" in PAGE


def test_table_3_schedules_differ_between_rows() -> None:
    def drops(row: str) -> list[float]:
        settings = rows("table3")[row][0]["settings"]["schedule"]
        assert settings["episodes"] == 5_000
        return [100 * share for share in settings["drops"] if share < 1]

    without, with_auxiliary = drops("alpha"), drops("alpha-at")
    assert "(after {:g}, {:g} and {:g} % of the steps)".format(*without) in PAGE
    assert "({:g} and {:g} %)".format(*with_auxiliary) in PAGE


def test_figure_3_only_the_last_layer_stands_out() -> None:
    figure = json.loads((DOCS / "results" / "figure3.json").read_text(encoding="utf-8"))
    gamma0, beta0 = (figure["medians_of_sizes"][name] for name in ("gamma0", "beta0"))
    for sizes in (gamma0, beta0):
        assert sizes["12"] > 5 * max(size for layer, size in sizes.items() if layer != "12")
    assert gamma0["3"] > 3 * max(gamma0["2"], gamma0["4"])
    assert max(gamma0["6"], gamma0["9"]) < gamma0["2"]


def test_gradients_with_a_large_alpha_are_those_of_the_wrong_queries() -> None:
    found = json.loads((DOCS / "results" / "gradients.json").read_text(encoding="utf-8"))
    shares = dict(zip(found["alphas"], found["shares"], strict=True))
    assert min(share for alpha, share in shares.items() if alpha < 4) == 1
    texts = f"at 10 it is {100 * shares[10]:.1f} %, at 1,000 {100 * shares[1000]:.1f} %"
    assert f"{texts}, where {100 * found['wrong']:.1f} % are wrongly assigned" in PAGE


def test_tasks_with_classes_in_common_are_near_each_other() -> None:
    found = json.loads((DOCS / "results" / "task-clusters.json").read_text(encoding="utf-8"))
    mean, moments, chance = (
        f"{100 * share:.0f} %"
        for share in (found["nearest"]["mean"], found["nearest"]["moments"], found["chance"])
    )
    assert f"in {mean} of the cases with the mean and in {moments} with moments" in PAGE
    assert PAGE.count(f"beside {chance} by chance") == 2


def test_figure_4_is_half_an_inverse_u() -> None:
    runs = {float(row.removeprefix("alpha-")): run for row, (run,) in rows("figure4").items()}
    assert max(runs, key=lambda alpha: runs[alpha]["validation_accuracy"]) == 2
    falls = [100 * (runs[2][key] - runs[20][key]) for key in ("accuracy", "validation_accuracy")]
    assert "falls by {:.0f} points ({:.0f} on validation)".format(*falls) in PAGE
    assert 0 < runs[2]["accuracy"] - runs[1]["accuracy"] < runs[1]["ci95"]


def test_omniglot_beside_prototypical_networks() -> None:
    one, five = (rows("omniglot")[row][0] for row in ("1shot", "5shot"))
    texts = [f"{100 * run['accuracy']:.1f} ± {100 * run['ci95']:.1f} %" for run in (one, five)]
    theirs = f"beside {snell('1shot')} and {snell('5shot')} %"
    assert f"{texts[0]} with 1 shot and {texts[1]} with 5, {theirs}" in PAGE


def test_all_runs_are_from_one_kind_of_machine() -> None:
    for experiment in ["table2-paper", "table3", "figure4", "omniglot"]:
        machines = [run["machine"] for runs in rows(experiment).values() for run in runs]
        assert {(m["cpu"].partition("(R)")[0], m["threads"]) for m in machines} == {("Intel", 1)}
