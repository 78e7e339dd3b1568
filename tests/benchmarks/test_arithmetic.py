"""Operation counts of a network and a step, against counts by hand."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tadam import native
from tadam.benchmarks.arithmetic import forward_flops, step_flops, step_images
from tadam.config import Config
from tadam.nn.backbones.resnet12 import ResNet12


def test_flops_of_a_small_network_equal_a_count_by_hand() -> None:
    # Width 2 on 3x5x5: the blocks see sides 5, 3, 2, 1 (pools round up) at widths 2, 4, 8, 16.
    multiplications = (
        25 * (9 * 3 * 2 + 2 * 9 * 2 * 2 + 3 * 2)
        + 9 * (9 * 2 * 4 + 2 * 9 * 4 * 4 + 2 * 4)
        + 4 * (9 * 4 * 8 + 2 * 9 * 8 * 8 + 4 * 8)
        + 1 * (9 * 8 * 16 + 2 * 9 * 16 * 16 + 8 * 16)
    )
    assert forward_flops(ResNet12(width=2), 5) == 2 * multiplications


def test_flops_agree_with_what_pytorch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: False)  # PyTorch does not count its kernels
    network = ResNet12(width=3).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(2, 3, 21, 21))
    assert counter.get_total_flops() == 2 * forward_flops(network, 21)


def test_a_fourth_pool_comes_after_all_convolutions() -> None:
    assert forward_flops(ResNet12(width=2, pools=4), 8) == forward_flops(ResNet12(width=2), 8)
    assert forward_flops(ResNet12(width=2, pools=2), 8) > forward_flops(ResNet12(width=2), 8)


@pytest.mark.parametrize(
    ("conditioned", "auxiliary", "images"),
    [(True, True, 2 * (25 + 25 + 32) + 64), (True, False, 164), (False, True, 2 * 57 + 64)],
)
def test_images_of_a_step(conditioned: bool, auxiliary: bool, images: int) -> None:
    config = Config().updated({"conditioning": {"enabled": conditioned}})
    assert step_images(config, auxiliary) == images


def test_a_step_costs_three_forward_passes_of_its_images() -> None:
    config = Config().updated({"backbone": {"width": 4}})
    assert step_flops(config, 32) == 3 * 228 * forward_flops(ResNet12(width=4), 32)
