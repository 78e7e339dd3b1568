"""Devices by name, where images go, and bfloat16: the parts of the GPU path a CPU can test."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gradients import grad
from tadam.config import Config
from tadam.errors import UserError
from tadam.methods.base import InputSpec
from tadam.methods.tadam import Tadam
from tadam.system.device import (
    BFloat16Convolutions,
    choose_device,
    images_fit,
    mixed_precision,
    to_device,
)

CUDA = torch.device("cuda")


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Pretends that this machine has `count` GPUs and, if asked, MPS."""

    def pretend(count: int, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Pretends that torchrun started this process as rank `number` of four, two per machine."""

    def pretend(number: int) -> None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
        monkeypatch.setenv("WORLD_SIZE", "4")
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("LOCAL_RANK", str(number % 2))

    return pretend


@pytest.mark.parametrize(
    ("cuda", "mps", "name", "expected"),
    [
        (0, False, "auto", "cpu"),
        (2, False, "auto", "cuda"),
        (2, True, "auto", "cuda"),
        (0, True, "auto", "mps"),
        (2, True, "cpu", "cpu"),
        (0, True, "mps", "mps"),
        (1, False, "cuda", "cuda"),
    ],
)
def test_a_name_becomes_a_device(
    gpus: Callable[..., Any], cuda: int, mps: bool, name: str, expected: str
) -> None:
    gpus(cuda, mps)
    assert choose_device(name) == torch.device(expected)


@pytest.mark.parametrize("name", ["cuda", "mps", "tpu", ""])
def test_a_missing_device_is_the_users_mistake(gpus: Callable[..., Any], name: str) -> None:
    gpus(0)
    with pytest.raises(UserError, match="device"):
        choose_device(name)


@pytest.mark.parametrize(("number", "expected"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_each_process_of_a_machine_gets_its_own_gpu(
    gpus: Callable[..., Any], rank: Callable[..., Any], number: int, expected: int
) -> None:
    gpus(2)
    rank(number)
    assert choose_device("auto") == torch.device("cuda", expected)
    assert choose_device("cpu") == torch.device("cpu")


def test_more_processes_than_gpus_is_the_users_mistake(
    gpus: Callable[..., Any], rank: Callable[..., Any]
) -> None:
    gpus(1)
    rank(0)
    choose_device("cuda")
    rank(3)
    with pytest.raises(UserError, match="has 1 GPUs and each process needs one: lower"):
        choose_device("cuda")


def test_mps_is_for_one_process(gpus: Callable[..., Any], rank: Callable[..., Any]) -> None:
    gpus(0, mps=True)
    rank(0)
    with pytest.raises(UserError, match="single device"):
        choose_device("auto")


def test_images_move_to_a_gpu_with_twice_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    assert images_fit(500, CUDA)
    assert not images_fit(501, CUDA)
    assert not images_fit(1, torch.device("cpu"))
    assert not images_fit(1, torch.device("mps"))


def test_on_the_cpu_nothing_is_copied() -> None:
    tensor = torch.arange(3)
    assert to_device(tensor, torch.device("cpu")) is tensor


def test_bfloat16_is_for_cuda_alone() -> None:
    assert isinstance(mixed_precision("cuda"), BFloat16Convolutions)
    for device_type in ("cpu", "mps", "meta"):
        assert not isinstance(mixed_precision(device_type), BFloat16Convolutions)


def test_only_convolutions_lose_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 5, 5, generator=generator)
    weight = torch.randn(4, 3, 3, 3, generator=generator, requires_grad=True)
    matrix = torch.randn(5, 5, generator=generator)
    with BFloat16Convolutions("cpu"):
        y = F.conv2d(x, weight, padding=1)
        product = x @ matrix
        mean = x.mean()
    exact = F.conv2d(x, weight, padding=1)
    rounded = F.conv2d(x.bfloat16(), weight.bfloat16(), padding=1)
    assert y.dtype == torch.float32
    assert torch.equal(y, rounded.float())
    assert not torch.equal(y, exact)
    assert torch.equal(product, x @ matrix)
    assert torch.equal(mean, x.mean())
    y.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def tiny_model(*settings: str) -> Tadam:
    config = Config().with_settings(["backbone.width=2", *settings])
    model = Tadam.build(config, InputSpec(3, 16, 3))
    model.initialise(config, [127.0] * 3, [60.0] * 3)
    return model


def task(size: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (1, 8, 3, size, size), generator=generator, dtype=torch.uint8)
    return images[:, :4], torch.tensor([[0, 0, 1, 1]]), images[:, 4:]


@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_training_in_bfloat16_gives_nearly_the_same_loss_and_gradients(
    monkeypatch: pytest.MonkeyPatch, activation: str
) -> None:
    found = []
    for context in (mixed_precision, BFloat16Convolutions):
        monkeypatch.setattr("tadam.methods.tadam.mixed_precision", context)
        model = tiny_model(f"backbone.activation={activation}").train()
        support, labels, query = task()
        logits = model(support, labels, query, 2)
        loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor([0, 1, 0, 1]))
        loss.backward()
        gradients = [grad(p) for n, p in model.named_parameters() if "auxiliary" not in n]
        assert {t.dtype for t in (logits, loss, *gradients)} == {torch.float32}
        found.append((loss.detach(), torch.cat([g.flatten() for g in gradients])))
    (exact, exact_gradient), (loss, gradient) = found
    assert loss != exact
    assert torch.isclose(loss, exact, rtol=0.05)
    assert F.cosine_similarity(gradient, exact_gradient, dim=0) > 0.9  # unrelated ones: 0


def test_evaluation_keeps_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model().eval()
    with torch.no_grad():
        exact = model(*task(), 2)
        monkeypatch.setattr("tadam.methods.tadam.mixed_precision", BFloat16Convolutions)
        assert torch.equal(model(*task(), 2), exact)


@pytest.mark.parametrize(
    ("backbone", "size"), [("resnet12", 84), ("resnet12", 33), ("conv4", 84), ("conv4", 16)]
)
def test_shapes_are_right_without_computing_any_numbers(backbone: str, size: int) -> None:
    config = Config().with_settings([f"backbone.name={backbone}", "backbone.width=64"])
    with torch.device("meta"):
        model = Tadam.build(config, InputSpec(3, size, 60)).train()
        images = torch.empty(2, 57, 3, size, size, dtype=torch.uint8)
        labels = torch.empty(2, 25, dtype=torch.int64)
    logits = model(images[:, :25], labels, images[:, 25:], 5)
    assert logits.shape == (2, 32, 5)
    assert model.auxiliary_logits(images[0]).shape == (57, 60)
    logits.sum().backward()
    assert all(grad(p).shape == p.shape for p in model.backbone.parameters())
