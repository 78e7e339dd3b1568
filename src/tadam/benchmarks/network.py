"""The network alone: forward, and forward + backward, on a batch in training mode."""

from functools import cache, partial

import torch
from torch import Tensor

from tadam.benchmarks.arithmetic import TRAINING_FACTOR, forward_flops
from tadam.benchmarks.gemm import gemm_seconds
from tadam.benchmarks.results import SHARE, Measurement
from tadam.benchmarks.targets import FORWARD, FORWARD_BACKWARD
from tadam.benchmarks.worker import Worker, in_turn, shortest, speedup
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.fast import constant_weights
from tadam.system.allocator import keep_large_blocks

NETWORK_BATCH = 64


def random_images(size: int, count: int = NETWORK_BATCH) -> Tensor:
    """Normalised network inputs, (N, 3, H, W), channels last in memory."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, size, size, generator=generator)
    return images.contiguous(memory_format=torch.channels_last)


def network(width: int) -> ResNet12:
    """ResNet-12 in training mode, with the same weights in every process."""
    result = ResNet12(width=width)
    initialise_convolutions(result, "he", torch.Generator().manual_seed(0))
    return result.train()


@cache
def _prepared(width: int, image_size: int) -> tuple[ResNet12, Tensor]:
    keep_large_blocks()
    return network(width), random_images(image_size)


def pass_seconds(width: int, image_size: int, backward: bool, seconds: float) -> float:
    """Time of a batch forward, with gradients recorded, and backward if asked; runs in a worker."""
    net, images = _prepared(width, image_size)

    def work(t: int) -> None:
        net.zero_grad(set_to_none=True)
        with constant_weights():
            total = net(images).sum()
            if backward:
                total.backward()

    return shortest(work, seconds)


def rates(
    width: int, image_size: int, threads: int, gemm_size: int, rounds: int, seconds: float
) -> list[Measurement]:
    """Both passes as shares of the GEMM rate, which is measured in turn with them."""
    flops = {
        "gemm": 2.0 * gemm_size**3,
        FORWARD: NETWORK_BATCH * forward_flops(network(width), image_size),
    }
    flops[FORWARD_BACKWARD] = TRAINING_FACTOR * flops[FORWARD]
    with Worker(threads) as worker:
        variants = {
            "gemm": partial(worker, gemm_seconds, gemm_size),
            FORWARD: partial(worker, pass_seconds, width, image_size, False),
            FORWARD_BACKWARD: partial(worker, pass_seconds, width, image_size, True),
        }
        times = in_turn(variants, rounds, seconds)
    speeds = {kind: [flops[kind] / t for t in times[kind]] for kind in variants}

    def share(kind: str) -> Measurement:
        value = speedup(speeds["gemm"], speeds[kind])  # median of the per-round ratios
        raw = {"seconds": times[kind], "flops": flops[kind], "gemm_seconds": times["gemm"]}
        return Measurement("gemm", kind, f"width {width}", value, SHARE, raw=raw)

    return [share(FORWARD), share(FORWARD_BACKWARD)]
