"""`tadam suggest`: lines, JSON, and a list that `tadam add` takes once it is filled in."""

import csv
import json
from pathlib import Path

from command_line import CommandLine, assert_one_sentence


def test_suggestions_are_filled_in_and_added(
    tadam: CommandLine, fitted: Path, labelled: Path, tmp_path: Path
) -> None:
    table = tmp_path / "next.csv"
    result = tadam("suggest", fitted, labelled, "-n", 4, "--csv", table)
    assert result.code == 0
    assert len(result.out.splitlines()) == 5
    assert f"fill in its column 'label', then run 'tadam add {fitted} {table}'" in result.out
    values = json.loads(tadam("suggest", fitted, labelled, "-n", 4, "--json").out)
    with open(table, newline="", encoding="utf-8") as rows:
        read = list(csv.DictReader(rows))
    assert [row["path"] for row in read] == [s["path"] for s in values["suggestions"]]
    assert result.out.splitlines()[0].startswith(f"{read[0]['path']}: {read[0]['guess']} ")
    unfilled = tadam("add", fitted, table)
    assert_one_sentence(unfilled, "line 2, has no label")
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, read[0].keys())
        writer.writeheader()
        writer.writerows({**row, "label": Path(row["path"]).parent.name} for row in read)
    assert json.loads(tadam("add", fitted, table, "--json").out)["added"] == 4
    assert_one_sentence(tadam("suggest", fitted, labelled, "--csv", table), "exists", "--force")
    assert_one_sentence(tadam("suggest", fitted, tmp_path / "no"), "does not exist")
    assert tadam("suggest", fitted, labelled, "-n", 0).code == 2
    assert tadam("suggest", "--help").out.count("\n") <= 40
