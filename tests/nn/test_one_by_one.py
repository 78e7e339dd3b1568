"""Frozen networks in onnxruntime: the same embeddings, on one thread, at once."""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from tadam.nn import one_by_one
from tadam.nn.backbones.efficientnet_lite import EfficientNetLite, EfficientNetLite0, FrozenConv
from tadam.nn.backbones.resnet12 import ResNet12
from tadam.nn.one_by_one import RUNTIME_VARIABLE, has_onnxruntime, runner

pytest.importorskip("onnxruntime", reason="needs the extra imagenet")


class Tiny(EfficientNetLite):
    """Few layers of every kind: strides at odd and even sizes, with and without a shortcut."""

    stages = ((1, 3, 1, 1, 8), (2, 5, 2, 6, 16), (1, 3, 2, 6, 24))
    title, wheel, trained_size = "Tiny", "none", 33


def with_weights(network: EfficientNetLite) -> EfficientNetLite:
    generator = torch.Generator().manual_seed(0)
    for layer in network.modules():
        if isinstance(layer, FrozenConv):
            fan = layer.weight[0].numel()
            layer.weight.normal_(0, (2 / fan) ** 0.5, generator=generator)
            layer.bias.normal_(0, 0.1, generator=generator)
    if network.feature_mean is not None:
        network.feature_mean.normal_(generator=generator)
    return network.eval()


def images(size: int, count: int = 3) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1)) * 2 - 1


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("size", [33, 40])
def test_onnxruntime_embeds_as_pytorch_does(head: bool, mirrored: bool, size: int) -> None:
    network = with_weights(Tiny(size, head))
    network.mirrored = mirrored
    x = images(size)
    run = runner(network)
    assert run is not None
    assert run is not network
    with torch.no_grad():
        expected = network(x)
    assert expected.std() > 0.01
    torch.testing.assert_close(run(x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not EfficientNetLite0.is_installed(), reason="needs the extra imagenet")
def test_so_does_the_real_network_folded() -> None:
    network = EfficientNetLite0(75)
    network.load_pretrained()
    folded, x = network.folded(), images(75)
    run = runner(folded)
    assert run is not None
    with torch.no_grad():
        torch.testing.assert_close(run(x), folded(x), rtol=1e-4, atol=1e-4)


def test_threads_side_by_side_get_the_answers_of_one() -> None:
    run, x = runner(with_weights(Tiny())), images(33, count=8)
    assert run is not None
    with ThreadPoolExecutor(4) as pool:
        apart = torch.cat(list(pool.map(run, x.split(1))))
    torch.testing.assert_close(apart, run(x), rtol=1e-5, atol=1e-5)


def test_the_session_is_kept_until_a_weight_changes_or_the_network_is_gone() -> None:
    network, x = with_weights(Tiny()), images(33)
    first = runner(network)
    assert first is runner(network)
    network.stem.bias += 1
    second = runner(network)
    assert second is not None
    assert first is not second
    with torch.no_grad():
        torch.testing.assert_close(second(x), network(x), rtol=1e-4, atol=1e-4)
    kept = len(one_by_one._runners)
    del network
    gc.collect()
    assert len(one_by_one._runners) == kept - 1


def test_a_network_with_a_session_can_be_copied_and_pickled() -> None:
    network, x = with_weights(Tiny()), images(33)
    runner(network)
    with torch.no_grad():
        expected = network(x)
        for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
            assert torch.equal(other(x), expected)


def test_pytorch_takes_over_where_onnxruntime_is_missing_or_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = with_weights(Tiny())
    monkeypatch.setenv(RUNTIME_VARIABLE, "0")
    found = [runner(network)]
    monkeypatch.delenv(RUNTIME_VARIABLE)
    assert has_onnxruntime()
    monkeypatch.setattr(one_by_one, "find_spec", lambda name: None)
    found.append(runner(network))
    assert found == [network, network]


def test_what_can_be_trained_runs_in_batches() -> None:
    assert runner(ResNet12(width=2)) is None
    assert runner(ResNet12(width=2).folded()) is None
