"""The demo, with a tiny budget: table, report, and a second call that trains nothing again."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

import tadam.reproduce.demo
from tadam.reproduce.demo import run_demo

TINY = (
    "backbone.width=1",
    "schedule.episodes=2",
    "schedule.warmup=0",
    "auxiliary.batch_size=4",
    "validation.tasks=2",
    "validation.queries=10",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "out"
    console = Console(record=True, width=100, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tadam.reproduce.demo, "TEST_TASKS", 3)
        run_demo(folder, console, TINY)
        weights = (folder / "tadam" / "last.safetensors").stat().st_mtime_ns
        console = Console(record=True, width=100, file=io.StringIO())
        run_demo(folder, console, TINY)
    assert weights == (folder / "tadam" / "last.safetensors").stat().st_mtime_ns
    return folder, console.export_text()


def test_the_table_has_its_five_rows(finished: tuple[Path, str]) -> None:
    folder, text = finished
    rows = json.loads((folder / "results.json").read_text())
    assert [row["name"] for row in rows] == [
        "Raw pixels, nearest class mean",
        "Prototypical Network, no scaling",
        "Prototypical Network, scaled",
        "TADAM, conditioning off",
        "TADAM, conditioning on",
    ]
    for row in rows:
        assert row["name"] in text
        assert f"{100 * row['accuracy']:.1f} ± {100 * row['ci95']:.1f} %" in text


def test_a_second_demo_trains_nothing_again(finished: tuple[Path, str]) -> None:
    assert finished[1].count("already trained") == 3


def test_the_report_is_one_file_with_every_part(finished: tuple[Path, str]) -> None:
    html = (finished[0] / "report.html").read_text()
    for heading in ("Each idea, added in turn", "One task", "How it learnt", "What it confuses"):
        assert heading in html
    assert "How strongly each layer is modulated" in html
    assert html.count("<svg") == 4
    assert html.count("<img") == 25 + 20
    assert not re.search(r"<(script|link)|(src|href)=\"https?:", html)
