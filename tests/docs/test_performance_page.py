"""docs/explain/performance.md: derived numbers are recomputed, measured ones are the stored run."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tadam.benchmarks.arithmetic import TRAINING_FACTOR, forward_flops, step_flops, step_images
from tadam.benchmarks.targets import AIMS, TARGETS
from tadam.config import Config
from tadam.methods.base import InputSpec
from tadam.methods.cotraining import auxiliary_probability
from tadam.methods.tadam import Tadam
from tadam.nn.backbones.resnet12 import ResNet12, ResNet12Config
from tadam.recipes import load_recipe
from tadam.training.schedule import validates_after

PAGE = (Path(__file__).parents[2] / "docs" / "explain" / "performance.md").read_text()
TEXT = " ".join(PAGE.split())
LINKS = (0.125e9, 1.25e9, 12.5e9)  # bytes a second


def at_width(width: int) -> Config:
    return Config().updated({"backbone": {"width": width}})


@cache
def image_flops(width: int, size: int) -> int:
    return forward_flops(ResNet12(width=width), size)


def share_of_auxiliary_steps(config: Config) -> float:
    steps = config.schedule.episodes
    return sum(auxiliary_probability(t, steps, config.auxiliary) for t in range(steps)) / steps


def mean_images(config: Config) -> float:
    auxiliary = share_of_auxiliary_steps(config) * config.auxiliary.batch_size
    return step_images(config, auxiliary=False) + auxiliary


@cache
def update_bytes() -> tuple[int, int]:
    """Gradients of a few-shot and an auxiliary update."""
    model = Tadam.build(Config(), InputSpec(3, 84, 64))
    assert model.ten is not None
    assert model.auxiliary_head is not None
    backbone, ten, head = (
        sum(p.numel() for p in part.parameters())
        for part in (model.backbone, model.ten, model.auxiliary_head)
    )
    counts = f"{backbone / 1e6:.2f} million parameters, TEN {ten / 1e6:.2f} million"
    assert counts in TEXT
    assert f"the head of 64 classes {head / 1e6:.2f} million" in TEXT
    return 4 * (backbone + ten), 4 * (backbone + head)


def bytes_of_a_step() -> float:
    few_shot, auxiliary = update_bytes()
    return few_shot + share_of_auxiliary_steps(Config()) * auxiliary


@pytest.mark.parametrize("width", [16, 32, 64])
def test_arithmetic_of_an_image_and_a_step(width: int) -> None:
    cells = [str(width)]
    for size in (32, 84):
        cells.append(f"{image_flops(width, size) / 1e6:.0f} MFLOP")
        cells.append(f"{step_flops(at_width(width), size) / 1e9:.0f} GFLOP")
    assert f"| {' | '.join(cells)} |" in PAGE
    assert f"2 (2 * 5 * 5 + 32) + 64 = {step_images(Config())}" in PAGE


@pytest.mark.parametrize("width", [16, 32, 64])
def test_bytes_of_an_image(width: int) -> None:
    convolutions = rest = 0
    for block, side in enumerate((32, 16, 8, 4)):
        c = width * 2**block
        c_in = 3 if block == 0 else c // 2
        pixels = 4 * side * side
        convolutions += pixels * (2 * (c_in + c) + 2 * 2 * c)  # first and shortcut, then two more
        rest += pixels * (4 * 2 * c + 3 * c)  # four outputs read twice, three results written
    megabytes = f"{convolutions / 1e6:.1f} MB | {rest / 1e6:.1f} MB"
    intensity = image_flops(width, 32) / (convolutions + rest)
    assert f"| {width} | {megabytes} | {intensity:.0f} |" in PAGE


@pytest.mark.parametrize(
    ("recipe", "size", "split"),
    [("paper-fc100-5shot", 32, 20 * 600), ("paper-mini-imagenet-5shot", 84, 16 * 600)],
)
def test_the_papers_runs(recipe: str, size: int, split: int) -> None:
    config = load_recipe(recipe)
    assert isinstance(config.backbone, ResNet12Config)
    steps, flops = config.schedule.episodes, image_flops(config.backbone.width, size)
    training = steps * mean_images(config) * TRAINING_FACTOR * flops
    of_task = config.episode.way * config.episode.shot + config.validation.queries
    images = config.validation.tasks * of_task + split
    validations = sum(validates_after(t + 1, config) for t in range(steps)) * images * flops
    total = training + validations
    cells = [recipe, f"{steps:,}"]
    cells += [f"{work / 1e15:.2f} PFLOP" for work in (training, validations, total)]
    cells += [f"{total / rate / 3600:.1f} h" for rate in (1e11, 3e11, 1e13)]
    assert f"| {' | '.join(cells)} |" in PAGE
    if size == 84:
        assert f"{total / 1e15:.2f}e15 / 300e9 seconds = {total / 3e11 / 3600:.1f} h" in TEXT
    assert f"{share_of_auxiliary_steps(config):.3f} on average" in TEXT
    assert f"164 + 0.395 * 64 = {mean_images(config):.1f} images" in TEXT


def test_gradient_traffic() -> None:
    few_shot, auxiliary = update_bytes()
    assert f"= {few_shot / 1e6:.1f} MB" in PAGE
    assert f"= {auxiliary / 1e6:.1f} MB" in PAGE
    assert f"= {bytes_of_a_step() / 1e6:.1f} MB" in PAGE
    for ranks in (2, 4, 8):
        sent = 2 * (ranks - 1) / ranks * bytes_of_a_step()
        times = [f"{1000 * sent / link:.0f} ms" for link in LINKS]
        assert f"| {ranks} | {sent / 1e6:.0f} MB | {' | '.join(times)} |" in PAGE


def test_one_tasks_share_of_a_step() -> None:
    images = mean_images(Config()) / 2
    small, large = (TRAINING_FACTOR * images * image_flops(64, size) for size in (32, 84))
    assert f"{images:.1f} images" in TEXT
    assert f"{small / 1e9:.0f} GFLOP at 32 pixels and {large / 1e9:.0f} GFLOP at 84" in TEXT
    assert f"{small / 3e11:.2f} s at 32 pixels and {large / 3e11:.2f} s at 84" in TEXT
    assert f"{1000 * small / 1e13:.0f} and {1000 * large / 1e13:.0f} ms" in TEXT
    assert f"{step_flops(Config(), 32) / 1e12:.1f} TFLOP" in TEXT


def test_images_that_tasks_share() -> None:
    assert f"embedding each once is {500 * 125 / (20 * 600):.1f} times less work" in TEXT


#: What the page calls a measurement, where it says more than the terminal.
ROWS = {
    "forward, share of the GEMM rate": "forward / GEMM rate",
    "forward + backward, share of the GEMM rate": "forward + backward / GEMM rate",
    "inference, folded, images/s vs onnxruntime": "inference vs onnxruntime",
    "sampling + augmentation, share of the step": "data + augmentation / step",
    "evaluation, unconditioned, vs naive": "evaluation vs naive, no TEN",
    "evaluation, conditioned, vs naive": "evaluation vs naive, TEN",
    "prediction, folded and batched, vs one image at a time, unfolded": "prediction vs one by one",
    "fit, in forward passes over the support set, at most": "fit / pass over its images",
}


BENCH = json.loads((Path(__file__).parents[2] / "docs" / "bench.json").read_text())
MEASURED = {(m["name"], m["setting"]): m for m in BENCH["measurements"]}


def test_the_table_is_what_was_measured_and_bold_is_what_misses() -> None:
    table = PAGE.partition("## Measured")[2].partition("Results that miss")[0]
    for row in re.findall(r"^\| (.*) \|$", table, re.M)[1:]:
        what, *cells, _ = row.split(" | ")
        name = ROWS.get(what, what)
        for width, cell in zip((16, 32, 64), cells, strict=True):
            found = MEASURED[name, f"width {width}"]
            share = found["unit"] == "share"
            digits = len(cell.strip("*x%").partition(".")[2])
            shown = f"{found['value'] * (100 if share else 1):.{digits}f}" + ("%" if share else "x")
            sign = -1 if found["lower_is_better"] else 1
            misses = sign * found["value"] < sign * TARGETS[name][width]
            assert cell == (f"**{shown}**" if misses else shown), (what, width)


def test_the_table_has_a_row_for_each_target() -> None:
    rows = re.findall(
        r"^\|.*\|$", PAGE.partition("## Measured")[2].partition("Results that miss")[0], re.M
    )
    assert len(rows) - 2 == len(TARGETS)
    assert set(AIMS) <= set(TARGETS)


def measured_milliseconds(config: Config, setting: str, size: int = 32) -> float:
    rate = MEASURED["step / GEMM rate", setting]["value"] * BENCH["machine"]["gemm_gflops"]
    return float(step_flops(config, size) / rate / 1e6)


def test_times_and_memory_are_those_of_the_run() -> None:
    settings = {8: "width 8", 16: "base", 32: "width 32", 64: "width 64"}
    times = [f"{measured_milliseconds(at_width(w), name):.0f}" for w, name in settings.items()]
    assert f"| a training step at widths 8, 16, 32, 64 | {', '.join(times)} ms | |" in PAGE
    memory = [MEASURED["peak memory of training", f"width 64, {n}x{n}"]["value"] for n in (32, 84)]
    assert "32 and 84 pixels | {:.2f} and {:.2f} GB | |".format(*memory) in PAGE
    for name, row in (
        ("import of tadam's classifier, beyond torch", "importing the classifier, beyond torch"),
        ("tadam --help", "`tadam --help`"),
    ):
        assert f"| {row} | {MEASURED[name, '']['value']:.2f} s |" in PAGE
    assert f"a GEMM rate of {BENCH['machine']['gemm_gflops']:.0f} GFLOP/s" in TEXT
    assert f"{BENCH['seconds'] / 60:.1f} minutes" in TEXT


@pytest.mark.parametrize(
    ("row", "setting", "change", "size"),
    [
        ("twice the ways", "way 10", {"episode": {"way": 10}}, 32),
        ("twice the shots", "shot 10", {"episode": {"shot": 10}}, 32),
        ("twice the queries", "queries 64", {"episode": {"queries": 64}}, 32),
        ("twice the width", "width 32", {"backbone": {"width": 32}}, 32),
        ("84 pixels instead of 32", "image size 84", {}, 84),
    ],
)
def test_growth_of_the_cost(row: str, setting: str, change: dict[str, Any], size: int) -> None:
    base, changed = at_width(16), at_width(16).updated(change)
    cost = measured_milliseconds(changed, setting, size) / measured_milliseconds(base, "base")
    arithmetic = step_flops(changed, size) / step_flops(base, 32)
    found = re.search(rf"^\| {row} \| ([\d.]+)x.* \| ([\d.]+)x \|$", PAGE, re.M)
    assert found
    assert found.groups() == (f"{cost:.1f}", f"{arithmetic:.1f}")
