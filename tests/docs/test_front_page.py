"""README.md is a front door: two screens, one table, figures that were measured."""

import json
import re
from pathlib import Path
from typing import Any

from tadam.reproduce.published import numbers

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOTS = ("1", "5", "10")


def stored(name: str) -> Any:
    return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def measured(test: dict[str, dict[str, float]]) -> list[str]:
    cells = [test[shot] for shot in SHOTS]
    return [f"{100 * cell['accuracy']:.1f} ± {100 * cell['ci95']:.1f}" for cell in cells]


def test_it_fits_two_screens() -> None:
    assert len(README.splitlines()) <= 100
    code = re.findall(r"```\w*\n(.*?)```", README, re.DOTALL)
    assert code
    assert max(len(line) for block in code for line in block.splitlines()) < 80


def test_its_pictures_are_small_files() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    assert all((ROOT / picture).stat().st_size < 400_000 for picture in pictures)


def test_its_one_table_has_what_was_published_and_what_was_measured() -> None:
    head, line, *rows = re.findall(r"^\|.*\|$", README, re.M)
    assert head == "| | 1 shot | 5 shots | 10 shots |"
    assert line == "|---|---|---|---|"
    found = {
        name.partition(":")[0]: cells for name, *cells in (row[2:-2].split(" | ") for row in rows)
    }
    paper = numbers()["table3"]["fc100"]["tadam"]
    assert found == {
        "TADAM as published": [str(paper[shot][0]) for shot in SHOTS],
        "our model `fc100`": measured(stored("fc100.json")["test"]),
        "our model `imagenet`": measured(stored("imagenet.json")["fc100"]["imagenet"]),
    }
