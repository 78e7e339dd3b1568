"""Two reports side by side, with made-up results."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tadam.benchmarks.comparison import compare, differences
from tadam.benchmarks.results import Measurement, Report, read_report
from tadam.errors import UserError

MACHINE = {"cpu": "A", "cores": 2, "threads": 2, "core": "native", "torch": "2", "gemm_gflops": 9.0}


def report(*measurements: Measurement, **machine: object) -> Report:
    return Report({**MACHINE, **machine}, {"tasks": 500}, measurements, 60.0)


def speed(value: float | None, setting: str = "width 16") -> Measurement:
    return Measurement("step", "step vs naive", setting, value, "x")


def share(value: float) -> Measurement:
    return Measurement("data", "data", "width 16", value, "share", lower_is_better=True)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [(2.0, 1.7, "worse"), (2.0, 1.9, ""), (2.0, 2.1, ""), (2.0, 2.5, "better")],
)
def test_a_speed_that_falls_by_more_than_ten_percent_is_worse(
    old: float, new: float, verdict: str
) -> None:
    (change,) = compare(report(speed(old)), report(speed(new)))
    assert change.ratio == pytest.approx(new / old)
    assert change.verdict == verdict


@pytest.mark.parametrize(
    ("old", "new", "verdict"), [(0.02, 0.03, "worse"), (0.02, 0.021, ""), (0.03, 0.02, "better")]
)
def test_a_share_of_time_that_rises_is_worse(old: float, new: float, verdict: str) -> None:
    (change,) = compare(report(share(old)), report(share(new)))
    assert change.verdict == verdict


def test_measurements_in_only_one_run_are_left_out() -> None:
    old = report(speed(2.0, "width 64"), speed(None, "width 32"), speed(3.0, "width 8"))
    new = report(speed(2.0, "width 16"), speed(1.0, "width 32"), speed(3.0, "width 8"))
    assert [change.new.setting for change in compare(old, new)] == ["width 8"]


def test_another_machine_or_another_amount_of_work_is_named() -> None:
    old, new = report(), report(cpu="B", core="plain PyTorch", gemm_gflops=1.0)
    assert differences(old, old) == []
    assert differences(old, new) == ["cpu: A, now B", "core: native, now plain PyTorch"]
    fewer = replace(old, plan={"tasks": 50})
    assert differences(old, fewer) == ["tasks: 500, now 50"]


GOOD = report(speed(2.0)).to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[1, 2]",
        "{}",
        "null",
        json.dumps({**GOOD, "format": "tadam bench 99"}),
        json.dumps({**GOOD, "measurements": 3}),
        json.dumps({**GOOD, "measurements": [{"name": "step"}]}),
        json.dumps({**GOOD, "measurements": [{**GOOD["measurements"][0], "value": "fast"}]}),
        json.dumps({**GOOD, "measurements": [{**GOOD["measurements"][0], "name": 3}]}),
        json.dumps({**GOOD, "machine": None}),
        json.dumps({**GOOD, "machine": {"cpu": "A"}, "more": 1}),
        "\ud800",
    ],
)
def test_a_broken_or_foreign_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "old.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError, match=r"old\.json (is|was) not .*tadam bench"):
        read_report(file)


def test_a_good_file_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    with pytest.raises(UserError, match=r"old\.json does not exist"):
        read_report(file)
    file.write_text(json.dumps(GOOD))
    assert read_report(file).measurements == (speed(2.0),)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(2.0, "x", "2.00x"), (1.7, "share", "170%"), (0.005, "share", "0.5%"), (5.7, "GB", "5.70 GB")],
)
def test_values_are_formatted_for_people(value: float, unit: str, text: str) -> None:
    assert Measurement("part", "name", "here", value, unit).text == text
    assert Measurement("part", "name", "here", None, unit).text == "-"
