"""What the kernels do not take, or what does not pay, is left to PyTorch."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tadam import native
from tadam.nn.conv_unit import ConvUnit
from tadam.nn.fast import conv_unit, folded_unit, plain_autograd, residual_block
from tadam.nn.fast.guard import pays, takes
from tadam.nn.folded import FoldedUnit
from tadam.nn.residual_block import ResidualBlock

needs_core = pytest.mark.skipif(not native.available(), reason="the native core was not built")


def images(*shape: int) -> Tensor:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=torch.channels_last)


@needs_core
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.double(),
        lambda x: x.contiguous(),  # not channels last
        lambda x: x[:, :, ::2],  # not contiguous
        lambda x: x[:0],  # no images
        lambda x: x.to("meta"),
    ],
)
def test_inputs_that_the_kernels_do_not_take(change: Callable[..., Any]) -> None:
    x = images(2, 16, 32, 32)
    assert takes(x)
    assert not takes(change(x))
    assert not takes(x, side=change(x))


@needs_core
def test_nothing_is_taken_in_mixed_precision_or_where_plain_operations_are_wanted() -> None:
    x = images(2, 16, 32, 32)
    with torch.autocast("cpu", torch.bfloat16):
        assert not takes(x)
    with plain_autograd():
        with plain_autograd():
            assert not takes(x)
        assert not takes(x)
    assert torch.vmap(lambda some: some + int(takes(x)))(torch.zeros(2)).tolist() == [0.0, 0.0]
    assert takes(x)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, w: (x, w.double()),
        lambda x, w: (x, w.contiguous()),
        lambda x, w: (x[:, :3], w[:, :3]),  # too few channels
        lambda x, w: (x, w[:8]),  # too few filters
        lambda x, w: (x[:1, :, :4, :4], w),  # too few tiles
    ],
)
def test_convolutions_that_do_not_pay(change: Callable[..., Any]) -> None:
    x, weight = images(2, 16, 32, 32), images(16, 16, 3, 3)
    assert pays(x, weight)
    assert not pays(*change(x, weight))


@pytest.mark.parametrize("core", ["native", "plain"])
def test_the_variant_is_chosen_when_a_part_is_built(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "available", lambda: core == "native")
    unit, block = conv_unit(3, 4, "swish"), residual_block(3, 4, True, "swish")
    kinds = {type(part).__name__ for part in (unit, block, *block.units)}
    kinds.add(type(folded_unit(unit, None, None)).__name__)
    expected = {
        "native": {"NativeUnit", "NativeBlock", "NativeFoldedUnit"},
        "plain": {"FusedUnit", "ResidualBlock", "FoldedUnit"},
    }
    assert kinds == expected[core]


def test_all_variants_have_the_same_weights_by_the_same_names() -> None:
    unit = ConvUnit(3, 4, "relu")
    for ours, plain in (
        (conv_unit(3, 4, "relu"), unit),
        (residual_block(3, 4, True, "relu"), ResidualBlock(3, 4, True, "relu")),
        (folded_unit(unit, None, None), FoldedUnit(unit, None, None)),
    ):
        assert [(n, t.shape) for n, t in ours.state_dict().items()] == [
            (n, t.shape) for n, t in plain.state_dict().items()
        ]


@needs_core
def test_a_network_from_a_machine_with_the_core_works_on_one_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = residual_block(16, 16, True, "swish").eval()
    x = images(2, 16, 16, 16)
    with torch.no_grad():
        expected = block(x)
        moved = pickle.loads(pickle.dumps(block))
        monkeypatch.setattr(native, "available", lambda: False)
        torch.testing.assert_close(moved(x), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(copy.deepcopy(block)(x), expected, rtol=1e-4, atol=1e-4)
