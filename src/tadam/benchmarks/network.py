"""The network alone: forward and forward + backward of a batch in training mode."""

import torch
from torch import Tensor

from tadam.allocator import keep_large_blocks
from tadam.benchmarks.arithmetic import TRAINING_FACTOR, forward_flops
from tadam.benchmarks.results import Measurement
from tadam.benchmarks.targets import FORWARD, FORWARD_BACKWARD
from tadam.benchmarks.worker import Worker, shortest
from tadam.nn.constant_weights import constant_weights
from tadam.nn.conv_unit import initialise_convolutions
from tadam.nn.resnet12 import ResNet12

BATCH = 64


def random_images(size: int, count: int = BATCH) -> Tensor:
    """Normalised images as the network gets them, (N, 3, H, W), channels last in memory."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, size, size, generator=generator)
    return images.contiguous(memory_format=torch.channels_last)


def network(width: int) -> ResNet12:
    """ResNet-12 in training mode, the same weights in every process."""
    result = ResNet12(width=width)
    initialise_convolutions(result, "he", torch.Generator().manual_seed(0))
    return result.train()


def pass_seconds(width: int, image_size: int, backward: bool, seconds: float) -> float:
    """Of a batch through the network, gradients recorded, and back if asked; runs in a worker."""
    keep_large_blocks()
    net, images = network(width), random_images(image_size)

    def work(t: int) -> None:
        net.zero_grad(set_to_none=True)
        with constant_weights():
            total = net(images).sum()
            if backward:
                total.backward()

    return shortest(work, seconds)


def rates(width: int, image_size: int, threads: int, seconds: float) -> list[Measurement]:
    """Both passes; the values are rates in GFLOP/s, which only the suite can judge."""
    forward = BATCH * forward_flops(network(width), image_size)
    measurements = []
    with Worker(threads) as worker:
        worker(pass_seconds, width, image_size, True, 0.0)  # warms up
        for name, backward in ((FORWARD, False), (FORWARD_BACKWARD, True)):
            flops = forward * (TRAINING_FACTOR if backward else 1)
            taken = worker(pass_seconds, width, image_size, backward, seconds)
            raw = {"seconds": taken, "flops": flops}
            rate = flops / taken / 1e9
            measurements.append(
                Measurement("gemm", name, f"width {width}", rate, "GFLOP/s", raw=raw)
            )
    return measurements
