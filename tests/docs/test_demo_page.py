"""docs/explain/findings.md quotes the demo: its tables are what the stored runs and trials gave."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from tadam.recipes import load_recipe
from tadam.reproduce.demo import CONTESTANTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explain" / "findings.md").read_text(encoding="utf-8")
STORED = json.loads((DOCS / "demo.json").read_text(encoding="utf-8"))


def trials(name: str) -> list[dict[str, Any]]:
    """The runs of one setting, seed by seed."""
    found = [row for row in STORED["trials"]["rows"] if row["name"] == name]
    return sorted(found, key=lambda row: int(row["seed"]))


def percents(values: list[float]) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in values)


def test_the_table_of_the_demo_has_both_seeds() -> None:
    assert [run["seed"] for run in STORED["runs"]] == [0, 1]
    for rows in zip(*(run["rows"] for run in STORED["runs"]), strict=True):
        uniform, family = (
            percents([r["accuracy"] for r in rows]),
            percents([r["family"] for r in rows]),
        )
        others = [row["controls"]["family"].get("other") for row in rows]
        gain = " / ".join(
            f"{100 * o['difference']:+.1f} ± {100 * o['difference_ci95']:.1f}" for o in others if o
        )
        seconds = " / ".join(f"{row['seconds']:.0f}" for row in rows) if rows[0]["seconds"] else "–"
        line = f"| {rows[0]['name']} | {uniform} | {family} | {gain or '–'} | {seconds} |"
        assert line in PAGE


def test_the_stored_rows_are_those_that_the_demo_has() -> None:
    names = ["Raw pixels, nearest class mean", *(contestant.name for contestant in CONTESTANTS)]
    for run in STORED["runs"]:
        assert [row["name"] for row in run["rows"]] == names


def test_the_table_of_trials_is_what_was_measured_on_validation() -> None:
    names = list(dict.fromkeys(row["name"] for row in STORED["trials"]["rows"]))
    assert len(names) >= 8
    for name in names:
        rows = trials(name)
        gains = [row["own_minus_other"] for row in rows]
        gain = " / ".join(f"{100 * g:+.1f}" for g in gains) if gains[0] is not None else "–"
        cells = (
            f"{percents([r['uniform'] for r in rows])} | {percents([r['family'] for r in rows])}"
        )
        assert f"| {cells} | {gain} |" in PAGE, name


def test_the_recipe_is_the_setting_that_was_best_on_validation() -> None:
    def merit(name: str) -> float:
        return fmean(row["uniform"] + row["family"] for row in trials(name))

    complete = {row["name"] for row in STORED["trials"]["rows"] if len(trials(row["name"])) == 2}
    best = max(complete, key=merit)
    assert load_recipe("shapes").with_settings(trials(best)[0]["settings"]) == load_recipe("shapes")


def test_the_full_method_is_the_best_row_on_family_tasks() -> None:
    for run in STORED["runs"]:
        *others, ours = run["rows"]
        best = max(others, key=lambda row: float(row["family"]))
        assert ours["family"] - best["family"] > 0.02
        assert ours["accuracy"] > max(row["accuracy"] for row in others) - 0.001


def test_the_trials_on_fc100_are_as_stored() -> None:
    stored = json.loads((DOCS / "fc100-conditioning.json").read_text(encoding="utf-8"))
    assert len(stored["rows"]) >= 2
    for row in stored["rows"]:
        cells = []
        for kind in ("uniform", "family"):
            found, other = row[kind], row[kind]["controls"].get("other")
            cells.append(f"{100 * found['acc']:.1f} ± {100 * found['ci']:.1f}")
            cells.append(
                f"{100 * other['difference']:+.2f} ± {100 * other['difference_ci95']:.2f}"
                if other
                else "–"
            )
        assert f"| {' | '.join(cells)} |" in PAGE, row["name"]
