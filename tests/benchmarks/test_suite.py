"""The whole benchmark with tiny settings in this process: every part reports sane values."""

import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from rich.console import Console

from tadam import native
from tadam.benchmarks import (
    evaluation,
    inference,
    method_steps,
    network,
    photos_speed,
    prediction,
    serving_speed,
    startup,
    steps,
    suite,
)
from tadam.benchmarks.results import Measurement, Report, read_report
from tadam.benchmarks.suite import PARTS, Plan, as_shares, quick_plan, trials
from tadam.benchmarks.tables import machine_line, tables
from tadam.benchmarks.targets import IMPORT, INFERENCE, SERVE_RATE, STEP_NATIVE, TARGETS
from tadam.benchmarks.workload import Setup
from tadam.classify import export
from tadam.config import Config
from tadam.errors import RunFailed, UserError
from tadam.recipes.method_recipes import MethodRecipe, method_rows

TINY = Setup(width=4, image_size=16, way=2, shot=1, queries=4, classes=6, images_per_class=12)
PLAN = Plan(
    threads=1,
    widths=(4,),
    rounds=1,
    seconds=0.0,
    tasks=5,
    conditioned_tasks=3,
    naive_tasks=2,
    gemm_size=64,
    base=TINY,
    sizes={"way": (2, 3), "image_size": (20,)},
    memory=(TINY,),
    test_classes=3,
    test_queries=6,
    photos=3,
    methods=("matching",),
)


class Here:
    """Stands in for a worker, which takes two seconds to start; see test_worker.py."""

    def __init__(self, threads: int, native: bool = True) -> None:
        self.native = native

    def __call__(self, work: Callable[..., Any], *arguments: Any) -> Any:
        core: AbstractContextManager[object] = nullcontext()
        if not self.native:
            core = mock.patch.object(native, "available", return_value=False)
        with core:
            return work(*arguments)

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture(scope="module")
def report() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        for module in (
            evaluation,
            inference,
            method_steps,
            network,
            photos_speed,
            prediction,
            steps,
            suite,
        ):
            patch.setattr(module, "Worker", Here)
        patch.setattr(photos_speed, "_CLASSES", 2)
        patch.setattr(photos_speed, "_SHOTS", 1)
        patch.setattr(photos_speed, "_SIDES", (64, 48))
        patch.setattr(photos_speed, "_busy_neighbour", nullcontext)
        patch.setattr(inference, "installed", lambda: True)  # onnxruntime has its own test
        patch.setattr(inference, "export", lambda *arguments: None)
        patch.setattr(
            inference, "onnx_features", lambda f, t, size: inference.our_features(4, size)
        )
        patch.setattr(inference, "onnx_seconds", lambda *arguments: 1.0)
        patch.setattr(startup, "import_seconds", lambda: (2.0, 0.05))  # see below for the real ones
        patch.setattr(startup, "help_seconds", lambda: 0.4)
        served = Measurement("serve", SERVE_RATE, "64 clients", 2.0, "x", note="made up")
        patch.setattr(serving_speed, "measure", lambda *arguments: [served])  # has its own test
        return suite.run(PLAN, lambda *arguments: None)


def test_every_part_reports_a_positive_value(report: Report) -> None:
    assert {m.part for m in report.measurements} == set(PARTS)
    for m in report.measurements:
        if m.name != STEP_NATIVE or native.available():
            assert m.value is not None, m
            assert 0 < m.value < 1e4, m
            assert m.unit in ("x", "share", "GB", "s"), m


def test_every_target_is_measured(report: Report) -> None:
    assert {m.name for m in report.measurements if m.setting == "width 4"} == set(TARGETS)


def test_the_growth_of_a_step_is_reported_in_time_and_arithmetic(report: Report) -> None:
    rows = {m.setting: m for m in report.measurements if m.part == "scaling"}
    assert list(rows) == ["base", "way 3", "image size 20"]
    flops = {setting: m.raw["flops"] for setting, m in rows.items()}
    # 2 tasks of 2 * way support passes and 4 queries, and 64 auxiliary images
    assert flops["way 3"] / flops["base"] == pytest.approx((2 * (2 * 3 + 4) + 64) / (2 * 8 + 64))
    assert all(m.raw["seconds"] > 0 for m in rows.values())


def test_startup_times_are_shown_with_their_targets(report: Report) -> None:
    lines = [part for part in tables(report) if isinstance(part, str)]
    assert "import of tadam's classifier, beyond torch: 0.05 s, target 0.2 s" in lines
    assert "tadam --help: 0.40 s, target 1 s" in lines
    beyond = report.find(IMPORT, "")
    assert beyond is not None
    assert beyond.raw["of_torch"] == pytest.approx(0.05 / 2.0)


def test_a_fresh_python_reports_how_long_it_took() -> None:
    torch_seconds, tadam_seconds = startup.import_seconds()
    assert 0 < tadam_seconds < torch_seconds
    assert startup.help_seconds() > 0
    with pytest.raises(RunFailed, match="no_such_module"):
        startup._run("-c", "import no_such_module")


def test_predictions_that_differ_from_the_loop_are_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prediction, "Worker", Here)
    right = prediction.batched
    monkeypatch.setattr(prediction, "batched", lambda setup: right(setup) + 0.01)
    with pytest.raises(RunFailed, match="differ from the loop's"):
        prediction.measure(replace(TINY, classes=3), 1, rounds=1, seconds=0.0)


def test_the_loop_is_conditioned_and_folding_does_not_change_it() -> None:
    setup = replace(TINY, classes=3, width=16)
    one, many = prediction.looped(setup), prediction.batched(setup)
    assert abs(one - many[: len(one)]).max() < 1e-4
    film = prediction._conditioned(setup)
    assert film is not None
    assert max(float((layer[0] - 1).abs().max()) for layer in film if layer) > 0.01
    assert many.max() - many.min() > 0.01


def test_rates_become_shares_of_the_gemm_rate() -> None:
    rate = Measurement("gemm", "forward", "width 4", 50.0, "GFLOP/s")
    other = Measurement("step", "step", "width 4", 2.0, "x")
    share, same = as_shares([rate, other], 200.0)
    assert (share.value, share.unit, share.raw) == (0.25, "share", {"gflops": 50.0})
    assert same == other


def test_the_machine_is_described(report: Report) -> None:
    assert report.machine["gemm_gflops"] > 0
    assert report.machine["threads"] == 1
    assert f" {native.core()} core," in machine_line(report)


def test_a_part_that_fails_leaves_the_others_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*arguments: object) -> Measurement:
        raise RunFailed("a measuring process died")

    monkeypatch.setattr(suite, "Worker", Here)
    monkeypatch.setattr(steps, "Worker", Here)
    monkeypatch.setattr(steps, "data_share", die)
    report = suite.run(replace(PLAN, parts=("data", "memory")), lambda *arguments: None)
    failed, memory = report.measurements
    assert (failed.part, failed.name, failed.value) == ("data", "data, width 4", None)
    assert memory.value is not None
    assert "data, width 4: not measured: a measuring process died" in list(tables(report))


@pytest.mark.parametrize("columns", [80, 100])
def test_the_tables_fit_a_terminal(report: Report, columns: int) -> None:
    at_width_4 = [m for m in report.measurements if m.setting == "width 4"]
    rest = [m for m in report.measurements if m.setting != "width 4"]
    widths = [
        replace(m, setting=f"width {w}", value=1.25) for m in at_width_4 for w in (16, 32, 64)
    ]
    wide = replace(
        report, plan={**report.plan, "widths": [16, 32, 64]}, measurements=(*widths, *rest)
    )
    file = io.StringIO()
    console = Console(width=columns, file=file)
    for part in tables(wide):
        console.print(part, soft_wrap=isinstance(part, str))
    text = file.getvalue()
    for name in TARGETS:
        assert f"│ {name} " in text  # in one piece
    assert "│ 2.0 2.2 2.5x │" in text
    assert "5 tasks; the naive time is scaled linearly from 2" in text
    assert "image size 20" in text
    assert "peak memory of training, width 4, 16x16: " in text


def test_a_report_survives_its_json(report: Report, tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(report.to_json()))
    again = read_report(file)
    assert again.measurements == report.measurements
    assert again.machine == report.machine


def test_only_the_chosen_parts_and_widths_are_planned() -> None:
    plan = Plan(1, widths=(8, 32), parts=("memory", "step"))
    assert [trial.label for trial in trials(plan)] == [
        "step, width 8",
        "step, width 32",
        "memory, width 64, 32 pixels",
        "memory, width 64, 84 pixels",
    ]
    assert len(trials(quick_plan(1))) < len(trials(Plan(1)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 0}, "`threads`"),
        ({"widths": (0,)}, "`widths`"),
        ({"parts": ("steps",)}, "'steps' in `parts`"),
    ],
)
def test_an_invalid_plan_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Plan(**{"threads": 1, **changes})  # type: ignore[arg-type]


def test_without_onnxruntime_the_row_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "NEEDED", ("no_such_module",))
    row = inference.against_onnxruntime(4, 16, 1, rounds=1, seconds=0.0)
    assert (row.name, row.value) == (INFERENCE, None)
    assert "pip install 'tadam-fewshot[export]'" in row.note


def test_onnxruntime_runs_the_same_network(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(inference, "Worker", Here)
    monkeypatch.setattr(inference, "_TOLERANCE", 1e-4)
    row = inference.against_onnxruntime(4, 16, 1, rounds=1, seconds=0.0)
    assert row.value is not None
    assert row.raw["ours_images_per_second"] > 0
    assert abs(inference.our_features(4, 16)).max() > 0.01  # the output is not all zeros

    theirs = inference.onnx_features
    monkeypatch.setattr(inference, "onnx_features", lambda *arguments: 1.01 * theirs(*arguments))
    with pytest.raises(RunFailed, match="differ from ours"):
        inference.against_onnxruntime(4, 16, 1, rounds=1, seconds=0.0)


@pytest.mark.parametrize("row", method_rows())
def test_the_naive_step_of_a_method_is_the_same_step(
    row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = MethodRecipe.config
    # These two normalise each task by itself anyway, and so can be compared as they are.
    by_task = {} if row.startswith(("maml", "meta_lstm")) else {"statistics": "task"}

    def small(self: MethodRecipe) -> Config:
        return original(self).updated({"backbone": {"width": 2, **by_task}})

    monkeypatch.setattr(MethodRecipe, "config", small)
    monkeypatch.setitem(method_steps._EPISODE, "tasks", 2)
    ours, naive = (method_steps._trainer.__wrapped__(row) for _ in range(2))
    for trainer in (ours, naive):  # in 32 bits, rounding decides which of two pixels is larger
        trainer.model.double()
    for update, same in zip(ours.updates, naive.updates, strict=True):
        naive.model.load_state_dict(ours.model.state_dict())
        monkeypatch.setattr(naive, "updates", [same])
        ours.step(1, only=[update.name])
        method_steps.naive_method_step(naive, 1)
        for (name, one), other in zip(
            ours.model.named_parameters(), naive.model.parameters(), strict=True
        ):
            if not update.trains(name):
                continue
            assert one.grad is not None, name
            assert other.grad is not None, name
            scale = max(1e-3, one.grad.abs().max().item())
            assert torch.allclose(one.grad, other.grad, atol=1e-9 * scale, rtol=1e-7), name
    rates = [one.optimisers[ours.updates[-1].name].param_groups[0]["lr"] for one in (ours, naive)]
    assert rates[0] == rates[1]
