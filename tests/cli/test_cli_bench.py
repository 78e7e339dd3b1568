"""`tadam bench`: results kept and compared; nothing is overwritten, nothing is run in vain."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import CommandLine, assert_one_sentence
from tadam.benchmarks import suite
from tadam.benchmarks.results import Measurement, Report
from tadam.benchmarks.suite import Plan
from tadam.benchmarks.targets import STEP_NATIVE, STEP_SHARE

MACHINE = {
    "cpu": "Abacus 3000",
    "cores": 2,
    "threads": 2,
    "core": "native",
    "torch": "2.13.0",
    "python": "3.11.7",
    "gemm_gflops": 100.0,
}
BASE = {"width": 16, "image_size": 32, "way": 5, "shot": 5, "queries": 32}
RESULT = Report(
    MACHINE,
    {"widths": [16, 64], "base": BASE, "tasks": 500, "conditioned_tasks": 500},
    (
        Measurement("step", STEP_NATIVE, "width 16", 2.04, "x", raw={"seconds": [0.2, 0.1]}),
        Measurement("step", STEP_NATIVE, "width 64", 2.6, "x", raw={"seconds": [0.2, 0.1]}),
        Measurement("scaling", STEP_SHARE, "base", 0.5, "share", raw={"seconds": 1.0, "flops": 2}),
        Measurement(
            "scaling", STEP_SHARE, "way 20", 0.4, "share", raw={"seconds": 3.0, "flops": 5}
        ),
    ),
    125.0,
)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[suite.Plan]:
    """Plans that were run; the run itself is over at once."""
    seen: list[suite.Plan] = []

    def run(plan: suite.Plan, progress: object) -> Report:
        seen.append(plan)
        return RESULT

    monkeypatch.setattr(suite, "run", run)
    return seen


def test_results_are_shown_beside_their_targets_and_kept(
    tadam: CommandLine, plans: list[Plan], tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"
    result = tadam("bench", "--json", file)
    assert result.code == 0, result.err
    assert "Abacus 3000, 2 of 2 cores, native core" in result.out
    assert "fp32 GEMM 100 GFLOP/s" in result.out
    words = " ".join(re.sub("[│┃]", " ", result.out).split())
    assert "step vs naive, native core 2.04x 2.60x 2.0 2.5x 3x" in words
    assert "one step, native core 100 ms 100 ms" in words
    assert "way 20 3000 ms 3.00x 2.50x 40%" in words
    assert json.loads(file.read_text()) == json.loads(json.dumps(RESULT.to_json()))
    assert plans[0].widths == (16, 32, 64)
    assert plans[0].parts == suite.PARTS


def test_options_reach_the_plan(tadam: CommandLine, plans: list[Plan]) -> None:
    tadam("bench", "--quick", "--threads", 1, "--widths", "8, 24", "--only", "step, memory")
    assert plans[0] == replace(suite.quick_plan(1), widths=(8, 24), parts=("step", "memory"))


def test_json_to_stdout_is_nothing_but_json(tadam: CommandLine, plans: list[Plan]) -> None:
    result = tadam("bench", "--json", "-")
    assert json.loads(result.out)["machine"] == MACHINE
    assert "Abacus 3000" in result.err


def test_an_existing_file_is_kept_unless_forced(
    tadam: CommandLine, plans: list[Plan], tmp_path: Path
) -> None:
    file = tmp_path / "bench.json"
    file.write_text("mine")
    assert_one_sentence(tadam("bench", "--json", file), "exists", "--force")
    assert_one_sentence(tadam("bench", "--json", tmp_path, "--force"), "is a folder")
    assert_one_sentence(tadam("bench", "--json", file / "x.json"), "bench.json is not a folder")
    assert file.read_text() == "mine"
    assert plans == []  # refused before ten minutes had passed
    assert tadam("bench", "--json", file, "--force").code == 0
    assert json.loads(file.read_text())["machine"] == MACHINE


def test_a_comparison_marks_what_got_slower(
    tadam: CommandLine, plans: list[Plan], tmp_path: Path
) -> None:
    file = tmp_path / "old.json"
    faster = [replace(m, value=1.5 * (m.value or 0)) for m in RESULT.measurements[:1]]
    old = replace(RESULT, measurements=(*faster, *RESULT.measurements[1:]))
    file.write_text(json.dumps(old.to_json()))
    result = tadam("bench", "--compare", file)
    assert result.code == 0
    (worse,) = [line for line in result.out.splitlines() if "worse" in line]
    assert [cell.strip() for cell in worse.split("│")[1:-1]] == [
        STEP_NATIVE,
        "width 16",
        "3.06x",
        "2.04x",
        "0.67",
        "worse",
    ]
    assert "not the same" not in result.out
    file.write_text(json.dumps(replace(old, machine={**MACHINE, "cpu": "other"}).to_json()))
    assert "cpu: other, now Abacus 3000" in tadam("bench", "--compare", file).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--widths", "16,wide"], ["--widths", "16,wide"]),
        (["--widths", "0"], ["--widths", "0"]),
        (["--only", "speed"], ["'speed'", "gemm, step"]),
        (["--threads", "-1"], ["--threads", "-1"]),
        (["--compare", "no.json"], ["no.json"]),
    ],
)
def test_a_mistake_is_one_sentence_and_runs_nothing(
    tadam: CommandLine,
    plans: list[Plan],
    arguments: list[str],
    words: list[str],
) -> None:
    assert_one_sentence(tadam("bench", *arguments), *words)
    assert plans == []


def test_help_fits_a_screen(tadam: CommandLine) -> None:
    assert tadam("bench", "--help").out.count("\n") <= 40


def test_one_part_really_runs(tadam: CommandLine) -> None:
    result = tadam("bench", "--quick", "--only", "gemm", "--widths", 2, "--threads", 1)
    assert result.code == 0, result.err
    assert "forward + backward / GEMM rate" in result.out
